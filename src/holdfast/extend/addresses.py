"""Whether the address of another machine is public, for apps that read what a workflow names."""

from __future__ import annotations

from holdfast.outgoing import is_public

__all__ = ["is_public"]
