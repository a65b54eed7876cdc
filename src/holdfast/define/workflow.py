"""Workflows written in Python: a builder that makes the same document as a YAML file, with the same checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypedDict, Unpack

from holdfast.define.definition import Definition, Input
from holdfast.define.failures import ErrorRule
from holdfast.define.known import Known
from holdfast.define.load import check_source, valid
from holdfast.define.plain import faults
from holdfast.define.python_values import Unfit, to_plain
from holdfast.define.retry import Retry
from holdfast.define.source import Source, path_text
from holdfast.define.work_document import Work
from holdfast.errors import Detail

Names = str | Sequence[str] | None
Handler = str | Callable[..., Any]

_UNSET: Any = object()


class TaskOptions(TypedDict, total=False):
    """What `task`, `fan_out` and `fan_in` have in common: the keys of a file, but for `after` and `after_any`."""

    params: Mapping[str, Any] | None
    queue: str | None
    timeout_seconds: float | None
    queue_timeout_seconds: float | None
    retry: Retry | Mapping[str, Any] | None
    errors: Sequence[ErrorRule | Mapping[str, Any]] | None
    breaker: str | None
    concurrency: Mapping[str, Any] | None
    rate: Mapping[str, Any] | None
    output_schema: Mapping[str, Any] | None
    compensate: Handler | Mapping[str, Any] | None
    importance: str | None
    deliverable: Mapping[str, Any] | None
    rerun: Mapping[str, Any] | None
    next: Names
    after: Names
    after_any: Names
    description: str | None


class Workflow:
    """Collects nodes in the order in which you add them. Each method returns the name of its node.

    `after` and `after_any` are what a file calls depends_on (all_of and any_of).
    """

    __holdfast_workflow__ = True

    def __init__(
        self,
        workflow_id: str,
        *,
        version: int | float | str = 1,
        name: str | None = None,
        description: str | None = None,
        inputs: Mapping[str, Mapping[str, Any] | Input] | None = None,
        timeout_seconds: float | None = None,
        on_failure: str | None = None,
        retry: Retry | Mapping[str, Any] | None = None,
        breakers: Mapping[str, Mapping[str, Any]] | None = None,
        notify: Sequence[Mapping[str, Any]] | None = None,
        schedule: Mapping[str, Any] | None = None,
        result: Any = _UNSET,
    ) -> None:
        self.workflow_id = workflow_id
        self.handlers: dict[str, Callable[..., Any]] = {}
        """The functions that you passed as handlers, by name."""
        self._problems: list[Detail] = []
        self._nodes: dict[str, dict[str, Any]] = {}
        self._head = _without_none(
            workflow_id=workflow_id,
            version=version,
            name=name,
            description=description,
            inputs={key: _input(one) for key, one in inputs.items()} if inputs is not None else None,
            timeout_seconds=timeout_seconds,
            on_failure=on_failure,
            retry=_retry(retry),
            breakers=breakers,
            schedule=schedule,
            notify=[dict(rule) for rule in notify] if notify is not None else None,
        )
        if result is not _UNSET:
            self.result(result)

    def start(self, name: str = "start", *, next: Names = None, description: str | None = None) -> str:
        return self._add(name, type="start", next=_names(next), description=description)

    def end(
        self,
        name: str = "end",
        *,
        after: Names = None,
        after_any: Names = None,
        description: str | None = None,
    ) -> str:
        return self._add(name, type="end", depends_on=_depends_on(after, after_any), description=description)

    def task(self, name: str, *, handler: Handler, **options: Unpack[TaskOptions]) -> str:
        """Runs one handler on a worker. The options are those of TaskOptions."""
        work, keys = self._keys(name, handler, options)
        return self._add(name, type="task", **work, **keys)

    def fan_out(
        self,
        name: str,
        *,
        source: str,
        handler: Handler,
        item_key: str | None = None,
        tolerate: Mapping[str, Any] | None = None,
        on_item_failure: str | None = None,
        **options: Unpack[TaskOptions],
    ) -> str:
        """One task per item of `source`; the params can also use `item` and `index`.

        The options are those of TaskOptions.
        """
        work, keys = self._keys(name, handler, options)
        return self._add(
            name,
            type="fan_out",
            source=source,
            item_key=item_key,
            task=_without_none(**work),
            tolerate=tolerate,
            on_item_failure=on_item_failure,
            **keys,
        )

    def fan_in(
        self,
        name: str,
        *,
        aggregation: str | None = None,
        handler: Handler | None = None,
        batch: Mapping[str, Any] | None = None,
        **options: Unpack[TaskOptions],
    ) -> str:
        """Combines the items of the fan-out before it; with `batch={"handler": f, "size": 100}` in pages.

        The options are those of TaskOptions.
        """
        work, keys = self._keys(name, handler, options)
        batch_keys = self._batch(name, batch) if batch is not None else None
        return self._add(name, type="fan_in", aggregation=aggregation, batch=batch_keys, **work, **keys)

    def conditional(
        self,
        name: str,
        *,
        condition: str | None = None,
        on_true: Names = None,
        on_false: Names = None,
        condition_field: str | None = None,
        branches: Mapping[Any, Names] | Sequence[Mapping[str, Any]] | None = None,
        after: Names = None,
        after_any: Names = None,
        description: str | None = None,
    ) -> str:
        """Chooses which nodes run next: with on_true and on_false, or with `branches` as a list or an object."""
        return self._add(
            name,
            type="conditional",
            condition=condition,
            condition_field=condition_field,
            on_true=_names(on_true),
            on_false=_names(on_false),
            branches=_branches(branches),
            depends_on=_depends_on(after, after_any),
            description=description,
        )

    def result(self, template: Any) -> None:
        """Sets the job's result: a template of any shape."""
        self._head["result"] = template

    def definition(self) -> Definition:
        """The same model as for YAML. Raises InvalidDefinition with all mistakes."""
        return valid(*self.check(), self.workflow_id)

    def check(self, known: Known | None = None) -> tuple[Definition | None, list[Detail]]:
        """The definition, or None, and all mistakes; what does not fit the handlers too, if they are known."""
        source, problems = self.read()
        return check_source(source, known) if source is not None else (None, problems)

    def read(self) -> tuple[Source | None, list[Detail]]:
        """What a file would contain, or None, and what is wrong with its form."""
        data = {**self._head, "nodes": self._nodes}
        problems = list(self._problems)
        unfit = faults(data)
        if unfit:
            # Params may have a date or a path; what cannot be converted is reported with its place.
            with suppress(Unfit):
                data = to_plain(data)
                unfit = faults(data)
        for path, fault in unfit:
            problems.append(Detail(f"{path_text(path)} {fault}.", path=path_text(path)))
        if problems:
            return None, problems
        return Source(_copied(data)), []

    def _add(self, name: str, **keys: Any) -> str:
        if name in self._nodes:
            self._problems.append(Detail(f"The node '{name}' is added twice.", path=f"nodes.{name}"))
        self._nodes[name] = _without_none(**keys)
        return name

    def _keys(self, node: str, handler: Handler | None, options: TaskOptions) -> tuple[dict[str, Any], dict[str, Any]]:
        """The keys of what a worker runs, and those of the node around it."""
        unknown = options.keys() - TaskOptions.__annotations__.keys()
        if unknown:
            raise TypeError(f"The node '{node}' got an unexpected keyword argument '{min(unknown)}'.")
        keys: dict[str, Any] = {
            **options,
            "queue": options.get("queue") or _own_queue(handler),
            "retry": _retry(options.get("retry")),
            "errors": _errors(options.get("errors")),
            "compensate": self._compensate(node, options.get("compensate")),
            "next": _names(options.get("next")),
            "depends_on": _depends_on(options.get("after"), options.get("after_any")),
        }
        work = {key: keys.get(key) for key in Work.model_fields}
        work["handler"] = self._handler(node, handler) if handler is not None else None
        return work, {key: value for key, value in keys.items() if key not in (*work, "after", "after_any")}

    def _batch(self, node: str, batch: Mapping[str, Any]) -> dict[str, Any]:
        keys = dict(batch)
        if "handler" in keys:
            own_queue = _own_queue(keys["handler"])
            keys["handler"] = self._handler(f"{node}.batch", keys["handler"])
            if own_queue is not None:
                keys.setdefault("queue", own_queue)
        compensate = self._compensate(f"{node}.batch", keys.get("compensate"))
        changed = _without_none(retry=_retry(keys.get("retry")), errors=_errors(keys.get("errors")))
        return keys | changed | _without_none(compensate=compensate)

    def _compensate(self, node: str, compensate: Handler | Mapping[str, Any] | None) -> Any:
        """What undoes a task, with the queue of a decorated function."""
        if compensate is None or isinstance(compensate, str):
            return compensate
        keys: dict[str, Any] = dict(compensate) if isinstance(compensate, Mapping) else {"handler": compensate}
        own_queue = _own_queue(keys.get("handler"))
        if "handler" in keys:
            keys["handler"] = self._handler(f"{node}.compensate", keys["handler"])
        return _without_none(queue=own_queue) | keys | _without_none(retry=_retry(keys.get("retry")))

    def _handler(self, node: str, handler: Handler) -> Any:
        if isinstance(handler, str):
            return handler
        name = getattr(getattr(handler, "__holdfast_handler__", None), "name", None)
        if name is None:
            shown = getattr(handler, "__name__", repr(handler))
            self._problems.append(
                Detail(
                    f"The function {shown} is not a handler.",
                    path=f"nodes.{node}.handler",
                    suggestion="Decorate it with @handler, or give the handler's name.",
                )
            )
            return "unknown"
        self.handlers[name] = handler
        return name


def workflow(workflow_id: str, **settings: Any) -> Callable[[Callable[[Workflow], Any]], Workflow]:
    """Turns a function that adds nodes into a Workflow. Takes the arguments of Workflow."""

    def build(function: Callable[[Workflow], Any]) -> Workflow:
        description = (function.__doc__ or "").strip() or None
        flow = Workflow(workflow_id, **{"description": description, **settings})
        function(flow)
        return flow

    return build


def _own_queue(handler: Any) -> str | None:
    """The queue of a decorated function; None for a handler's name."""
    return getattr(getattr(handler, "__holdfast_handler__", None), "queue", None)


def _without_none(**keys: Any) -> dict[str, Any]:
    return {key: value for key, value in keys.items() if value is not None}


def _names(names: Names) -> Any:
    return [names] if isinstance(names, str) else names


def _depends_on(after: Names, after_any: Names) -> dict[str, Any] | None:
    return _without_none(all_of=_names(after), any_of=_names(after_any)) or None


def _retry(retry: Retry | Mapping[str, Any] | None) -> Any:
    if not isinstance(retry, Retry):
        return retry
    without = ("backoff", "initial_delay_seconds", "max_delay_seconds") if retry.schedule else ("schedule",)
    data = {key: value for key, value in retry.to_json().items() if key in retry.stated and key not in without}
    if "jitter_seconds" in data:
        least, most = data.pop("jitter_seconds")
        data["jitter"] = {"min_seconds": least, "max_seconds": most}
    return data


def _errors(rules: Sequence[ErrorRule | Mapping[str, Any]] | None) -> Any:
    if rules is None:
        return None
    return [_without_none(**rule.to_json()) if isinstance(rule, ErrorRule) else rule for rule in rules]


def _input(declared: Mapping[str, Any] | Input) -> Any:
    if not isinstance(declared, Input):
        return declared
    data = declared.to_json()
    without = {"name", "has_default", *(() if declared.has_default else ("default",))}
    return {key: value for key, value in data.items() if key not in without}


def _branches(branches: Mapping[Any, Names] | Sequence[Mapping[str, Any]] | None) -> Any:
    if not isinstance(branches, Mapping):
        return branches
    return {_key_text(key): _names(targets) for key, targets in branches.items()}


def _key_text(key: Any) -> Any:
    """A branch's value as the key of a file."""
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key) if isinstance(key, int | float) else key


def _copied(value: Any) -> Any:
    """A copy, so that later changes by the caller have no effect here."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list | tuple) else value
