"""Terminal output of events, one line each."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from chordesk.models.events import DESK, Domain, Envelope
from chordesk.tasks.cli.output import inert

_COLOURS = {
    Domain.RUN: "bold",
    Domain.THREAD: "dim",
    Domain.TURN: "cyan",
    Domain.ITEM: "dim",
    Domain.TOOL: "blue",
    Domain.STATUS: "",
    Domain.ORDER: "green",
    Domain.APPROVAL: "yellow",
    Domain.ARTIFACT: "blue",
}
_ILL = ("failed", "refused", "interrupted", "error", "expired")
# Fields that identify the subject come first, whatever order the payload has.
_FIRST = ("role", "kind", "subject", "symbol", "state", "outcome", "decision", "tool", "status", "type")
# Ids that only programs need; --json has them.
_LEFT_OUT = frozenset({"step", "order", "fill", "owner"})
RUN_CHARS, VALUE_CHARS = 14, 90


def event_line(one: Envelope, *, with_run: bool) -> Text:
    """Return local time, sequence, type and payload in a line. with_run: add the run's id, for several runs' events."""
    colour = "red" if one.type.value.endswith(_ILL) else _COLOURS[one.domain]
    which = f"{one.run_id if one.run_id == DESK else one.run_id[:RUN_CHARS]:<{RUN_CHARS}}  " if with_run else ""
    return Text.assemble(
        (f"{one.occurred_at.astimezone():%H:%M:%S}  ", "dim"),
        which,
        (f"{one.sequence if one.sequence is not None else '':>5}  ", "dim"),
        (f"{one.type.value:<18}", colour),
        inert(_payload(one.payload)),
    )


def _payload(payload: dict[str, Any]) -> str:
    names = [name for name in _FIRST if name in payload]
    names += [name for name in payload if name not in _FIRST and name not in _LEFT_OUT]
    values = ((name, _value(payload[name])) for name in names)
    return " ".join(text if name in _FIRST else f"{name}={text}" for name, text in values if text)


def _value(value: Any) -> str:
    if value is None or value == "" or value == []:
        return ""
    text = " ".join(str(value).split())
    return text if len(text) <= VALUE_CHARS else text[: VALUE_CHARS - 1] + "…"
