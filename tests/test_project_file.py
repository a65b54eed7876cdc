"""`holdfast.toml` and `[tool.holdfast]`: where the file is looked for, what it may say, and what wins over it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.errors import InvalidInput
from holdfast.settings import load_settings


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    (folder / "deep" / "below").mkdir(parents=True)
    monkeypatch.chdir(folder)
    for name in ("DATABASE_URL", "HOME", "TENANT", "CONCURRENCY", "HANDLERS", "QUEUES"):
        monkeypatch.delenv(f"HOLDFAST_{name}", raising=False)
    return folder


def refusal(**flags: str) -> InvalidInput:
    with pytest.raises(InvalidInput) as refused:
        load_settings(**flags)
    return refused.value


def test_every_key_becomes_a_setting(project: Path) -> None:
    (project / "holdfast.toml").write_text(
        'handlers = ["sales", "pkg/more.py"]\nqueues = ["light"]\ndatabase_url = "postgresql://ann@host/db"\n'
        'home = "state"\ntenant = "blue"\nconcurrency = 3\n'
    )
    settings = load_settings()
    assert settings.handlers == ("sales", "pkg/more.py")
    assert settings.queues == ("light",)
    assert settings.database_url == "postgresql://ann@host/db"
    assert (settings.home, settings.tenant, settings.concurrency) == (Path("state"), "blue", 3)
    assert settings.project is not None and settings.project.path == project / "holdfast.toml"


def test_the_nearest_file_wins_and_the_own_file_before_the_shared_one(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "holdfast.toml").write_text('tenant = "own"\n')
    (project / "pyproject.toml").write_text('[tool.holdfast]\ntenant = "shared"\n')
    (project / "deep" / "pyproject.toml").write_text("[tool.other]\nname = 'holdfast'\n")
    monkeypatch.chdir(project / "deep" / "below")
    assert load_settings().tenant == "own"
    (project / "holdfast.toml").unlink()
    assert load_settings().tenant == "shared"
    (project / "deep" / "holdfast.toml").write_text('tenant = "near"\n')
    assert load_settings().tenant == "near"


def test_home_and_handlers_belong_to_the_folder_of_the_file(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "holdfast.toml").write_text('handlers = ["sales"]\n')
    assert load_settings().home == Path(".holdfast")
    monkeypatch.chdir(project / "deep")
    assert load_settings().home == project / ".holdfast"
    assert load_settings().handlers_folder == project
    assert load_settings(handlers=["mine"]).handlers_folder == project / "deep"
    monkeypatch.setenv("HOLDFAST_HOME", "here")
    assert load_settings().home == Path("here")


def test_a_flag_wins_over_a_variable_and_a_variable_over_the_file(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "holdfast.toml").write_text('tenant = "file"\nhandlers = ["file"]\nconcurrency = 2\n')
    monkeypatch.setenv("HOLDFAST_TENANT", "variable")
    monkeypatch.setenv("HOLDFAST_HANDLERS", "one, two")
    settings = load_settings(tenant="flag")
    assert (settings.tenant, settings.handlers, settings.concurrency) == ("flag", ("one", "two"), 2)
    assert load_settings().tenant == "variable"
    assert "concurrency" in settings.from_project and "tenant" not in settings.from_project


def test_an_unknown_key_is_refused_with_its_place_and_a_suggestion(project: Path) -> None:
    (project / "pyproject.toml").write_text('[project]\nname = "x"\n\n[tool.holdfast]\n  handler = ["a"]\n')
    problem = refusal()
    assert [str(one) for one in problem.errors] == [
        f"{project / 'pyproject.toml'}:5:3: There is no key 'handler'. Did you mean 'handlers'?"
    ]
    assert problem.remedy == "The keys are handlers, queues, database_url, home, tenant, concurrency."


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('handlers = "sales"', "'handlers' must be a list of strings."),
        ("handlers = [1]", "'handlers' must be a list of strings."),
        ("queues = ['']", "'queues' must be a list of strings."),
        ("tenant = 1", "'tenant' must be a string."),
        ("concurrency = '3'", "'concurrency' must be a whole number."),
        ("concurrency = true", "'concurrency' must be a whole number."),
        ("concurrency = 0", "'concurrency': Input should be greater than or equal to 1."),
    ],
)
def test_a_wrong_value_is_refused_with_its_place(project: Path, line: str, message: str) -> None:
    (project / "holdfast.toml").write_text(f"# ours\n{line}\n")
    assert [str(one) for one in refusal().errors] == [f"{project / 'holdfast.toml'}:2:1: {message}"]


def test_a_file_that_is_not_toml_is_refused_with_its_place(project: Path) -> None:
    (project / "holdfast.toml").write_text("tenant = \n")
    assert str(refusal().errors[0]) == f"{project / 'holdfast.toml'}:1:10: This is not TOML: Invalid value."
    (project / "holdfast.toml").unlink()
    (project / "pyproject.toml").write_text("this is no TOML, and mentions holdfast\n")
    assert load_settings().project is None


@pytest.mark.parametrize(
    "url", ["postgresql://ann:tide5ecret@host/db", "host=h password=tide5ecret", "postgresql:///db?password=tide5ecret"]
)
def test_a_password_is_refused_and_not_repeated(project: Path, url: str) -> None:
    (project / "holdfast.toml").write_text(f'tenant = "a"\ndatabase_url = "{url}"\n')
    problem = refusal(tenant="b")
    assert "contains a password" in problem.message
    assert str(problem.errors[0]) == f"{project / 'holdfast.toml'}:2:1: 'database_url' must not contain a password."
    assert problem.remedy is not None and "HOLDFAST_DATABASE_URL" in problem.remedy and "~/.pgpass" in problem.remedy
    assert "tide5ecret" not in str(problem.to_problem())


def test_a_file_above_that_belongs_to_another_user_is_ignored(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "holdfast.toml").write_text('tenant = "foreign"\n')
    owner = project.stat().st_uid
    if owner != 0:
        pytest.skip("only root can give a file away")
    os.chown(project / "holdfast.toml", 12345, -1)
    assert load_settings().tenant == "foreign"
    monkeypatch.chdir(project / "deep")
    assert load_settings().tenant == "default"
