"""Requests of runs that nobody waits for: of the schedule, and of what else starts runs by itself. They are kept as the
fields that `POST /runs` takes, without `kind` and `by`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from chordesk.models.errors import UsageError
from chordesk.tasks.engine import kinds


def lack_of(kind: str) -> str | None:
    """Return why no run of a kind is started by itself, with the remedy where there is one; None where it can be."""
    workflow = kinds.workflow_of(kind)
    if workflow is None:
        why = kinds.missing(kind)
        return (
            f"runs of the kind {kind}, {why.reason}; {why.remedy}" if why is not None else f"no kind of run is {kind}"
        )
    if workflow.by_hand:
        return f"{kind} is started by a person alone: {workflow.by_hand}"
    if workflow.request is None and kind not in kinds.scheduled():
        return f"no request starts a run of the kind {kind}"
    return None


def startable() -> list[str]:
    """Return the kinds of runs that can be started by themselves."""
    return [kind for kind in kinds.run_kinds() if lack_of(kind) is None]


def checked(kind: str, given: Mapping[str, Any], by: str) -> dict[str, Any]:
    """Return the fields of a request as JSON has them. Raises UsageError for a field or value that does not fit."""
    return made(kind, given, by).model_dump(mode="json", exclude_unset=True, exclude={"kind", "by"})  # type: ignore[no-any-return]


def made(kind: str, given: Mapping[str, Any], by: str) -> Any:
    """Return the `Request` of a kind. by: who starts the run, for its record."""
    if (why := lack_of(kind)) is not None:
        raise UsageError(f"{kind!r} is not started by itself: {why}", remedy=f"choose among {', '.join(startable())}")
    workflow = kinds.workflow_of(kind)
    assert workflow is not None
    if workflow.request is None:
        raise UsageError(f"{kind} takes no fields", remedy="leave them out")
    try:
        return workflow.request.model_validate({**given, "kind": kind, "by": by})
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, one['loc']))}: {one['msg']} ({_short(one['input'])})" for one in error.errors()
        )
        raise UsageError(f"{kind} does not take this: {wrong}", remedy=f"it takes {_fields(kind)}") from None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def from_texts(kind: str, texts: Iterable[str]) -> dict[str, Any]:
    """Read NAME=VALUE, where a list has its items with commas between them. Raises UsageError."""
    found: dict[str, Any] = {}
    known = _properties(kind)
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or name not in known:
            what = f"no field of {kind}" if equals else "no NAME=VALUE"
            raise UsageError(f"{text!r} is {what}", remedy=f"{kind} takes {_fields(kind)}")
        if name in found:
            raise UsageError(f"{name} is given twice", remedy="write a list with commas: symbols=AAPL,MSFT")
        found[name] = _value(known[name], value)
    return found


def takes(kind: str, name: str) -> bool:
    """Return whether a kind's request has a field."""
    return name in _properties(kind)


def _value(schema: Mapping[str, Any], text: str) -> Any:
    """Return a text as the JSON value that its field takes; one that is none of it is refused by the field."""
    types = {one.get("type") for one in schema.get("anyOf", [schema])}
    if "array" in types:
        return [item.strip() for item in text.split(",") if item.strip()]
    if types & {"integer", "number", "boolean", "object"}:
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


def _properties(kind: str) -> dict[str, Any]:
    workflow = kinds.workflow_of(kind)
    if workflow is None or workflow.request is None:
        return {}
    found = workflow.request.model_json_schema()["properties"]
    return {name: schema for name, schema in found.items() if name not in ("kind", "by")}


def _fields(kind: str) -> str:
    return ", ".join(_properties(kind)) or "no fields"
