"""Terminal output of a model's request to a person, in full: the person must see all that they approve."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from chordesk.models.tables.columns import utcnow
from chordesk.tasks.approvals import WaitingRequest
from chordesk.tasks.cli.output import inert

# Before each line that the model wrote, so that none can look like the desk's own.
_MARGIN = "  | "


def request_text(row: WaitingRequest) -> str:
    """Return the whole request as some lines of text."""
    minutes = (row.expires_at - utcnow()) / dt.timedelta(minutes=1)
    left = f"{minutes:.0f} minutes left" if minutes > 0 else "expired"
    head = f"request {row.approval}  {row.role} asks for {row.kind}, run {row.run_id}, {left}"
    return "\n".join((head, *(_MARGIN + line for line in _quoted(_DETAILS[row.kind](row.detail)))))


def _quoted(parts: Iterator[str]) -> Iterator[str]:
    for part in parts:
        yield from inert(part).splitlines()


def _command(detail: Mapping[str, Any]) -> Iterator[str]:
    yield f"{detail['command']}"
    yield f"in {detail['cwd']}"
    yield from _others(detail, "reason", "permissions", "network")


def _file_change(detail: Mapping[str, Any]) -> Iterator[str]:
    for change in detail["changes"]:
        yield f"{change['change']} {change['path']}"
        yield change["diff"]
    yield from _others(detail, "reason", "root")


def _permissions(detail: Mapping[str, Any]) -> Iterator[str]:
    yield orjson.dumps(detail["permissions"]).decode()
    yield from _others(detail, "cwd", "reason")


def _user_input(detail: Mapping[str, Any]) -> Iterator[str]:
    for question in detail["questions"]:
        options = f" ({', '.join(question['options'])})" if question["options"] else ""
        yield f"{question['id']}: {question['question']}{options}"


def _others(detail: Mapping[str, Any], *names: str) -> Iterator[str]:
    for name in names:
        value = detail.get(name)
        if value is not None:
            yield f"{name}: {value if isinstance(value, str) else orjson.dumps(value).decode()}"


_DETAILS: Mapping[str, Callable[[Mapping[str, Any]], Iterator[str]]] = {
    "command": _command,
    "file_change": _file_change,
    "permissions": _permissions,
    "user_input": _user_input,
}
