"""Workflows written in Python: a builder that makes the document of a YAML file, checked in the same way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast.define.definition import Definition, Input
from holdfast.define.failures import ErrorRule
from holdfast.define.load import check_source, valid
from holdfast.define.plain import faults
from holdfast.define.retry import Retry
from holdfast.define.source import Source, path_text
from holdfast.errors import Detail

Names = str | Sequence[str] | None
Handler = str | Callable[..., Any]

_UNSET: Any = object()


class Workflow:
    """Collects nodes in the order in which they are added. Each method gives back the name of its node.

    `after` and `after_any` are what a file calls depends_on (all_of and any_of).
    """

    def __init__(
        self,
        workflow_id: str,
        *,
        version: int | float | str = 1,
        name: str | None = None,
        description: str | None = None,
        inputs: Mapping[str, Mapping[str, Any] | Input] | None = None,
        timeout_seconds: float | None = None,
        retry: Retry | Mapping[str, Any] | None = None,
        breakers: Mapping[str, Mapping[str, Any]] | None = None,
        result: Any = _UNSET,
    ) -> None:
        self.workflow_id = workflow_id
        self.handlers: dict[str, Callable[..., Any]] = {}
        """The functions that were given as handlers, by name."""
        self._problems: list[Detail] = []
        self._nodes: dict[str, dict[str, Any]] = {}
        self._head = _given(
            workflow_id=workflow_id,
            version=version,
            name=name,
            description=description,
            inputs={key: _input(one) for key, one in inputs.items()} if inputs is not None else None,
            timeout_seconds=timeout_seconds,
            retry=_retry(retry),
            breakers=breakers,
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

    def task(
        self,
        name: str,
        *,
        handler: Handler,
        params: Mapping[str, Any] | None = None,
        after: Names = None,
        after_any: Names = None,
        next: Names = None,
        queue: str | None = None,
        timeout_seconds: float | None = None,
        queue_timeout_seconds: float | None = None,
        retry: Retry | Mapping[str, Any] | None = None,
        errors: Sequence[ErrorRule | Mapping[str, Any]] | None = None,
        breaker: str | None = None,
        concurrency: Mapping[str, Any] | None = None,
        rate: Mapping[str, Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        importance: str | None = None,
        deliverable: Mapping[str, Any] | None = None,
        rerun: Mapping[str, Any] | None = None,
        description: str | None = None,
    ) -> str:
        """One piece of work for a worker."""
        return self._add(
            name,
            type="task",
            handler=self._handler(name, handler),
            params=params,
            queue=queue or _own_queue(handler),
            timeout_seconds=timeout_seconds,
            queue_timeout_seconds=queue_timeout_seconds,
            retry=_retry(retry),
            errors=_errors(errors),
            breaker=breaker,
            concurrency=concurrency,
            rate=rate,
            output_schema=output_schema,
            importance=importance,
            deliverable=deliverable,
            rerun=rerun,
            next=_names(next),
            depends_on=_depends_on(after, after_any),
            description=description,
        )

    def fan_out(
        self,
        name: str,
        *,
        source: str,
        handler: Handler,
        params: Mapping[str, Any] | None = None,
        after: Names = None,
        after_any: Names = None,
        next: Names = None,
        queue: str | None = None,
        timeout_seconds: float | None = None,
        queue_timeout_seconds: float | None = None,
        retry: Retry | Mapping[str, Any] | None = None,
        errors: Sequence[ErrorRule | Mapping[str, Any]] | None = None,
        breaker: str | None = None,
        concurrency: Mapping[str, Any] | None = None,
        rate: Mapping[str, Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        tolerate: Mapping[str, Any] | None = None,
        on_item_failure: str | None = None,
        importance: str | None = None,
        deliverable: Mapping[str, Any] | None = None,
        rerun: Mapping[str, Any] | None = None,
        description: str | None = None,
    ) -> str:
        """One task per item of `source`; the params also see `item` and `index`."""
        task = _given(
            handler=self._handler(name, handler),
            params=params,
            queue=queue or _own_queue(handler),
            timeout_seconds=timeout_seconds,
            queue_timeout_seconds=queue_timeout_seconds,
            retry=_retry(retry),
            errors=_errors(errors),
            breaker=breaker,
            concurrency=concurrency,
            rate=rate,
            output_schema=output_schema,
        )
        return self._add(
            name,
            type="fan_out",
            source=source,
            task=task,
            tolerate=tolerate,
            on_item_failure=on_item_failure,
            importance=importance,
            deliverable=deliverable,
            rerun=rerun,
            next=_names(next),
            depends_on=_depends_on(after, after_any),
            description=description,
        )

    def fan_in(
        self,
        name: str,
        *,
        aggregation: str | None = None,
        handler: Handler | None = None,
        batch: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        after: Names = None,
        after_any: Names = None,
        next: Names = None,
        queue: str | None = None,
        timeout_seconds: float | None = None,
        queue_timeout_seconds: float | None = None,
        retry: Retry | Mapping[str, Any] | None = None,
        errors: Sequence[ErrorRule | Mapping[str, Any]] | None = None,
        breaker: str | None = None,
        concurrency: Mapping[str, Any] | None = None,
        rate: Mapping[str, Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        importance: str | None = None,
        deliverable: Mapping[str, Any] | None = None,
        rerun: Mapping[str, Any] | None = None,
        description: str | None = None,
    ) -> str:
        """Brings the items of the fan-out before it together; with `batch={"handler": f, "size": 100}` page by page."""
        return self._add(
            name,
            type="fan_in",
            aggregation=aggregation,
            handler=self._handler(name, handler) if handler is not None else None,
            batch=self._batch(name, batch) if batch is not None else None,
            params=params,
            queue=queue or _own_queue(handler),
            timeout_seconds=timeout_seconds,
            queue_timeout_seconds=queue_timeout_seconds,
            retry=_retry(retry),
            errors=_errors(errors),
            breaker=breaker,
            concurrency=concurrency,
            rate=rate,
            output_schema=output_schema,
            importance=importance,
            deliverable=deliverable,
            rerun=rerun,
            next=_names(next),
            depends_on=_depends_on(after, after_any),
            description=description,
        )

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
        """Chooses what follows: by on_true and on_false, by a list or by a map of branches."""
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
        """What a job gives back: a template of any shape."""
        self._head["result"] = template

    def definition(self) -> Definition:
        """The model that the same workflow in YAML gives. Raises InvalidDefinition with all that is wrong."""
        data = {**self._head, "nodes": self._nodes}
        problems = list(self._problems)
        for path, fault in faults(data):
            problems.append(Detail(f"{path_text(path)} {fault}.", path=path_text(path)))
        if problems:
            return valid(None, problems, f"the workflow {self.workflow_id}")
        definition, problems = check_source(Source(_copied(data)))
        return valid(definition, problems, f"the workflow {self.workflow_id}")

    def _add(self, name: str, **keys: Any) -> str:
        if name in self._nodes:
            self._problems.append(Detail(f"The node '{name}' is added twice.", path=f"nodes.{name}"))
        self._nodes[name] = _given(**keys)
        return name

    def _batch(self, node: str, batch: Mapping[str, Any]) -> dict[str, Any]:
        given = dict(batch)
        if "handler" in given:
            own_queue = _own_queue(given["handler"])
            given["handler"] = self._handler(f"{node}.batch", given["handler"])
            if own_queue is not None:
                given.setdefault("queue", own_queue)
        return given | _given(retry=_retry(given.get("retry")), errors=_errors(given.get("errors")))

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
    """Makes a Workflow of the function that adds its nodes; takes what Workflow takes."""

    def build(function: Callable[[Workflow], Any]) -> Workflow:
        description = (function.__doc__ or "").strip() or None
        flow = Workflow(workflow_id, **{"description": description, **settings})
        function(flow)
        return flow

    return build


def _own_queue(handler: Any) -> str | None:
    """The queue that a decorated function asks for; a name alone asks for none."""
    return getattr(getattr(handler, "__holdfast_handler__", None), "queue", None)


def _given(**keys: Any) -> dict[str, Any]:
    return {key: value for key, value in keys.items() if value is not None}


def _names(names: Names) -> Any:
    return [names] if isinstance(names, str) else names


def _depends_on(after: Names, after_any: Names) -> dict[str, Any] | None:
    return _given(all_of=_names(after), any_of=_names(after_any)) or None


def _retry(retry: Retry | Mapping[str, Any] | None) -> Any:
    if not isinstance(retry, Retry):
        return retry
    data = retry.to_json()
    if "jitter_seconds" in data:
        least, most = data.pop("jitter_seconds")
        data["jitter"] = {"min_seconds": least, "max_seconds": most}
    without = ("backoff", "initial_delay_seconds", "max_delay_seconds") if retry.schedule else ("schedule",)
    return {key: value for key, value in data.items() if key not in without}


def _errors(rules: Sequence[ErrorRule | Mapping[str, Any]] | None) -> Any:
    if rules is None:
        return None
    return [_given(**rule.to_json()) if isinstance(rule, ErrorRule) else rule for rule in rules]


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
    """A branch's value as a file would write it as a key."""
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key) if isinstance(key, int | float) else key


def _copied(value: Any) -> Any:
    """Plain data of its own, so that what the caller changes later changes nothing here."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list | tuple) else value
