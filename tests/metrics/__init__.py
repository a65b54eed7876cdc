"""Tests of what a monitoring system reads."""
