"""Handlers: which arguments they take, how their context is found, and how a process finds them."""

from __future__ import annotations

import asyncio
import functools
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from holdfast.define.registry import ContractViolation, Handler, Registry, describe, discover, handler
from holdfast.errors import InvalidInput
from holdfast.worker.context import AsyncContext, Context


class Box(BaseModel):
    west: float
    east: float


def stack(item: str, size: int = 1, *, scale: float = 1.0, tags: list[Any] | None = None) -> None: ...


def described(function: Any) -> Handler:
    return describe(function, "maps.stack")


def test_params_become_keyword_arguments() -> None:
    assert described(stack).arguments({"item": "a", "size": 3, "scale": 2}) == {"item": "a", "size": 3, "scale": 2}


def test_defaults_are_left_to_the_function() -> None:
    assert described(stack).arguments({"item": "a"}) == {"item": "a"}


def test_a_missing_argument_is_refused_by_name() -> None:
    with pytest.raises(
        ContractViolation, match=r"^maps\.stack needs 'item', which the node does not pass \(it passes scale, size\)$"
    ):
        described(stack).arguments({"size": 3, "scale": 1.0})
    with pytest.raises(ContractViolation, match=r"does not pass \(it passes nothing\)$"):
        described(stack).arguments({})
    with pytest.raises(ContractViolation, match=r"\(it passes p00, .*, p19 and 5 more\)$"):
        described(stack).arguments({f"p{number:02}": 1 for number in range(25)})


def test_an_unknown_argument_is_refused_and_the_nearest_suggested() -> None:
    with pytest.raises(ContractViolation, match=r"does not take 'sise'; did you mean 'size'\?$"):
        described(stack).arguments({"item": "a", "sise": 3})
    with pytest.raises(ContractViolation, match=r"does not take 'colour'$"):
        described(stack).arguments({"item": "a", "colour": "red"})


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"item": 3}, "'item' must be str, not int"),
        ({"item": None}, "'item' must be str, not null"),
        ({"item": "a", "size": "3"}, "'size' must be int, not str"),
        ({"item": "a", "size": True}, "'size' must be int, not bool"),
        ({"item": "a", "size": 1.5}, "'size' must be int, not float"),
        ({"item": "a", "scale": True}, "'scale' must be float, not bool"),
        ({"item": "a", "tags": "x"}, "'tags': Input should be a valid list"),
    ],
)
def test_a_wrongly_typed_argument_is_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ContractViolation, match=message):
        described(stack).arguments(params)


def test_rich_annotations_are_checked_and_converted_by_pydantic() -> None:
    def clip(box: Box, mode: Literal["inner", "outer"] = "inner") -> None: ...

    function = described(clip)
    # Local classes cannot be looked up from a string: the function says what it wants by value.
    clip.__annotations__.update(box=Box, mode=Literal["inner", "outer"])
    function = described(clip)
    assert function.arguments({"box": {"west": 1, "east": 2}})["box"] == Box(west=1, east=2)
    with pytest.raises(ContractViolation, match=r"'box\.east': Field required"):
        function.arguments({"box": {"west": 1}})
    with pytest.raises(ContractViolation, match="'mode'"):
        function.arguments({"box": {"west": 1, "east": 2}, "mode": "middle"})


def test_what_an_annotation_adds_to_a_type_is_checked_too() -> None:
    def takes(
        size: Annotated[int, Field(gt=0)], where: Annotated[Context, "the attempt"], tag: Annotated[str, "plain"] = ""
    ) -> None: ...

    function = described(takes)
    assert function.context_parameter == "where"
    assert function.arguments({"size": 3, "tag": "a"}) == {"size": 3, "tag": "a"}
    with pytest.raises(ContractViolation, match="'size': Input should be greater than 0"):
        function.arguments({"size": -5})
    with pytest.raises(ContractViolation, match="'size' must be int, not str"):
        function.arguments({"size": "5"})


def test_a_parameter_that_can_only_be_given_by_position_is_refused_where_the_handler_is_made() -> None:
    def by_position(a: int, /, b: int = 1) -> None: ...

    def has_a_default(a: int = 1, /, b: int = 1) -> None: ...

    with pytest.raises(
        InvalidInput, match=r"'maps\.stack' takes 'a' by position only, but params are passed by name"
    ) as refused:
        described(by_position)
    assert refused.value.remedy == "Remove the '/' from its parameters."
    assert described(has_a_default).arguments({"b": 2}) == {"b": 2}
    with pytest.raises(ContractViolation, match="does not take 'a'"):
        described(has_a_default).arguments({"a": 2})


def test_a_param_with_the_name_of_the_context_is_refused() -> None:
    def named(item: str, *, ctx: Any) -> None: ...

    def anything(where: Context, **params: Any) -> None: ...

    def without(**params: Any) -> None: ...

    with pytest.raises(ContractViolation, match="passes the context as 'ctx': give the param another name"):
        described(named).arguments({"item": "a", "ctx": "forged"})
    with pytest.raises(ContractViolation, match="passes the context as 'where'"):
        described(anything).arguments({"where": "forged"})
    assert described(without).arguments({"ctx": 1}) == {"ctx": 1}


def test_an_object_that_cannot_be_decorated_is_refused_with_a_remedy() -> None:
    class Tool:
        def run(self, size: int) -> int:
            return size

    for callable_, name in ((Tool().run, "tool"), (print, "print"), (max, "max")):
        with pytest.raises(InvalidInput, match=rf"'{name}' is .*, which is not a function") as refused:
            handler(name)(callable_)
        assert refused.value.remedy == "Define a function that calls it, and decorate that with @handler."
    with pytest.raises(InvalidInput, match="has no name"):
        handler()(functools.partial(stack, item="a"))


def test_params_collected_by_a_double_star_may_be_anything() -> None:
    def anything(**params: Any) -> None: ...

    def nearly(size: int, **params: Any) -> None: ...

    assert described(anything).arguments({"x": [1], "y": None}) == {"x": [1], "y": None}
    assert described(nearly).arguments({"size": 1, "x": "y"}) == {"size": 1, "x": "y"}
    with pytest.raises(ContractViolation, match="'size' must be int"):
        described(nearly).arguments({"size": "1"})


def test_a_context_is_found_by_its_annotation_or_by_the_name_ctx() -> None:
    def annotated(item: str, where: Context) -> None: ...

    async def awaited(item: str, where: AsyncContext) -> None: ...

    def named(item: str, *, ctx: Any) -> None: ...

    def without(item: str) -> None: ...

    assert described(annotated).context_parameter == described(awaited).context_parameter == "where"
    assert described(named).context_parameter == "ctx"
    assert described(without).context_parameter is None
    for function in (annotated, awaited, named):
        assert described(function).arguments({"item": "a"}) == {"item": "a"}


def test_async_functions_are_distinguished_from_plain_ones() -> None:
    async def asynchronous() -> None: ...

    assert described(asynchronous).is_async
    assert not described(stack).is_async


def test_a_handler_stays_an_ordinary_function() -> None:
    @handler("double", queue="light", timeout_seconds=3)
    def double(number: int) -> int:
        return number * 2

    @handler()
    async def named_by_itself() -> str:
        return "called"

    assert double(4) == 8
    assert asyncio.run(named_by_itself()) == "called"
    registry = Registry()
    assert registry.add_module(SimpleNamespace(a=double, b=named_by_itself, c=3)) == 2
    assert registry.names == ["double", "named_by_itself"]
    described = registry.get("double")
    assert described is not None
    assert (described.queue, described.timeout_seconds, described.isolation) == ("light", 3, "thread")


def test_two_handlers_of_one_name_are_refused_with_both_places() -> None:
    def other() -> None: ...

    registry = Registry([describe(stack, "same")])
    registry.add(describe(stack, "same"))
    with pytest.raises(InvalidInput, match=r"Two handlers are named 'same': .*stack and .*other"):
        registry.add(describe(other, "same"))


def test_the_built_in_handlers_are_discovered() -> None:
    assert {
        "echo", "hello_world", "sleep", "fail", "flaky_echo", "multi_phase", "size_check", "chunk_processor",
    } <= set(discover().names)  # fmt: skip
    assert discover(entry_points_too=False).names == []
    assert "echo" in discover().with_context
    assert "size_check" not in discover().with_context


@pytest.fixture
def in_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["", *__import__("sys").path])
    return tmp_path


def test_a_module_of_the_working_directory_is_found(in_directory: Path) -> None:
    (in_directory / "my_own_handlers.py").write_text(
        "from holdfast import handler\n@handler('mine')\ndef mine(): ...\n", encoding="utf-8"
    )
    assert discover(["my_own_handlers"], entry_points_too=False).names == ["mine"]
    assert discover(["my_own_handlers.py"], entry_points_too=False).names == ["mine"]


def test_a_missing_module_is_an_error(in_directory: Path) -> None:
    message = rf"^The handlers module 'not_there' cannot be imported: there is no module 'not_there' in {in_directory} "
    with pytest.raises(InvalidInput, match=message):
        discover(["not_there"])
    with pytest.raises(InvalidInput, match=r"^There is no file not_there\.py\.$"):
        discover(["not_there.py"])


def test_a_module_that_breaks_is_an_error_of_one_line(in_directory: Path) -> None:
    (in_directory / "broken_handlers.py").write_text("1 / 0\n", encoding="utf-8")
    with pytest.raises(InvalidInput) as refused:
        discover(["broken_handlers"])
    place = "broken_handlers.py, line 1"
    assert refused.value.message == (
        f"The handlers module 'broken_handlers' cannot be imported: {place}: ZeroDivisionError: division by zero"
    )
    assert (refused.value.remedy, refused.value.errors) == ("Correct broken_handlers.py.", ())


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        (
            "\nimport no_such_library\n",
            "line 2: ModuleNotFoundError: No module named 'no_such_library'",
            "Install the package that has 'no_such_library' into the environment of this command.",
        ),
        (
            "import json\njson.loads('x')\n",
            "line 2: JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
            "Correct {file}.",
        ),
        (
            "nodes: {a: 1\n",
            "line 1: SyntaxError: '{{' was never closed",
            "Correct {file}. If it is a YAML file, its name must end with .yaml.",
        ),
    ],
)
def test_an_error_at_import_is_named_with_its_place_and_what_helps(
    in_directory: Path, text: str, message: str, remedy: str
) -> None:
    file = f"faulty_{len(text)}.py"
    (in_directory / file).write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput) as refused:
        discover([file])
    assert refused.value.message == f"The file {file} cannot be imported: {file}, {message.format()}"
    assert refused.value.remedy == remedy.format(file=file)


def test_a_mistake_that_the_engine_finds_at_import_is_named_with_the_users_line(in_directory: Path) -> None:
    (in_directory / "bound_method.py").write_text(
        "from holdfast import handler\n\nclass A:\n    def run(self) -> None: ...\n\nrun = handler('a.run')(A().run)\n",
        encoding="utf-8",
    )
    with pytest.raises(InvalidInput) as refused:
        discover(["bound_method"])
    assert "cannot be imported: bound_method.py, line 6: The handler 'a.run' is <bound method" in refused.value.message
    assert refused.value.remedy == "Define a function that calls it, and decorate that with @handler."


def test_a_file_in_another_folder_can_import_the_files_beside_it(in_directory: Path) -> None:
    (in_directory / "jobs").mkdir()
    (in_directory / "jobs" / "beside_it.py").write_text("NAME = 'found'\n", encoding="utf-8")
    (in_directory / "jobs" / "far_handlers.py").write_text(
        "from beside_it import NAME\nfrom holdfast import handler\n@handler(NAME)\ndef f(): ...\n", encoding="utf-8"
    )
    assert discover(["jobs/far_handlers.py"], entry_points_too=False).names == ["found"]
    (in_directory / "json.py").write_text("", encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"json\.py cannot be imported: .*json/__init__\.py has the module name"):
        discover(["json.py"])


def test_a_handler_without_parentheses_is_named_after_its_module_and_function(in_directory: Path) -> None:
    @handler
    def report(day: str) -> str:
        return day

    assert report("monday") == "monday"
    assert Registry([report.__holdfast_handler__]).names == ["tests.worker.test_registry.report"]  # type: ignore[attr-defined]
    (in_directory / "bare_sales.py").write_text(
        "from holdfast import handler\n@handler\nasync def report(): ...\nprint(report.__holdfast_handler__.name)\n",
        encoding="utf-8",
    )
    assert discover(["bare_sales"], entry_points_too=False).names == ["bare_sales.report"]
    as_program = subprocess.run([sys.executable, "bare_sales.py"], capture_output=True, text=True, check=True)
    assert as_program.stdout == "bare_sales.report\n"
    with pytest.raises(InvalidInput, match="has no name"):
        handler(functools.partial(stack, item="a"))


def test_a_module_without_handlers_is_an_error(in_directory: Path) -> None:
    (in_directory / "empty_handlers.py").write_text("x = 1\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match="The module 'empty_handlers' has no handlers"):
        discover(["empty_handlers"])
