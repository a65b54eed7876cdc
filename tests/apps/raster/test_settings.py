"""The settings of the raster app are checked before a worker takes tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.apps.raster import handlers
from holdfast.apps.raster.settings import problems
from holdfast.define.registry import Registry


def test_without_settings_and_with_right_ones_nothing_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(problems()) == []
    monkeypatch.setenv("HOLDFAST_RASTER_CONTAINERS", "bronze=s3://tiles/raw silver=az://maps")
    monkeypatch.setenv("HOLDFAST_RASTER_ROOTS", f"{tmp_path}:")
    monkeypatch.setenv("HOLDFAST_RASTER_SOURCES", "https://maps.example/data s3://bucket/ http://10.0.0.1:8080/x")
    assert list(problems()) == []


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("CONTAINERS", "silver=ftp://host/x", "has the invalid entry 'silver=ftp…'"),
        ("CONTAINERS", "a=s3://b/x silver", "has the invalid entry 'silver=…'"),
        ("CONTAINERS", "silver=https://x/?sig=1", "has the invalid entry 'silver=https…'"),
        ("CONTAINERS", "a=s3://one a=s3://two", "has two addresses for the container 'a'"),
        ("ROOTS", "maps", "has 'maps', which is not an absolute path"),
        ("ROOTS", "~/maps", "has '~/maps', which is not an absolute path"),
        ("ROOTS", "/dev/null", "has '/dev/null', which is not a folder"),
        ("SOURCES", "bucket/folder", "has the invalid entry 'bucket/folder'"),
        ("SOURCES", "ftp://host/x", "has the invalid entry 'ftp://host/x'"),
        ("SOURCES", "https:///x", "has the invalid entry 'https:///x'"),
        ("SOURCES", "http://[::1", "has the invalid entry 'http://[::1'"),
        ("SOURCES", "https://me:sig@host/x?sig=1", "has the invalid entry 'https://host/x?…'"),
        ("SOURCES", "s3://bucket/../x", "has the invalid entry 's3://bucket/../x'"),
    ],
)
def test_a_wrong_setting_is_named_without_a_secret(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, message: str
) -> None:
    monkeypatch.setenv(f"HOLDFAST_RASTER_{name}", text)
    (problem,) = problems()
    assert problem.message == f"HOLDFAST_RASTER_{name} {message}."
    assert problem.remedy and not problem.only_warns
    assert "sig" not in problem.message + problem.remedy


def test_a_folder_that_is_not_there_is_a_warning_because_it_may_be_mounted_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOLDFAST_RASTER_ROOTS", "/nowhere")
    (problem,) = problems()
    assert (problem.message, problem.only_warns) == (
        "HOLDFAST_RASTER_ROOTS has '/nowhere', which does not exist.",
        True,
    )


def test_the_handlers_bring_the_check() -> None:
    registry = Registry()
    registry.add_module(handlers)
    registry.add_module(handlers)
    assert [(check.app, check.problems) for check in registry.checks] == [("raster", problems)]
