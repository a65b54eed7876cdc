"""The names that `from holdfast import …` offers."""

from __future__ import annotations

import subprocess
import sys

import pytest

import holdfast


def test_the_public_names_are_sorted_and_all_exist() -> None:
    assert holdfast.__all__ == sorted(holdfast.__all__)
    assert dir(holdfast) == holdfast.__all__
    for name in holdfast.__all__:
        assert getattr(holdfast, name) is not None


def test_the_names_of_the_contract_are_public() -> None:
    promised = {
        "handler", "workflow", "Workflow", "Context", "AsyncContext", "Client", "Result", "Permanent", "Transient",
        "RetryAfter", "HoldfastError", "__version__",
    }  # fmt: skip
    assert promised <= set(holdfast.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = holdfast.nothing


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import sys, holdfast; print([m for m in ('psycopg', 'pydantic', 'asyncio') if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
