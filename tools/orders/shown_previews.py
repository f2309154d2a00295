"""The preview that a person saw, held against the one that an answer would be about."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from sqlmodel import Session, col, select

from chordesk.models.errors import OrderError, UsageError
from chordesk.models.orders import HASH_SHOWN
from chordesk.models.settings import Settings
from chordesk.models.tables.orders import Order, Preview
from chordesk.models.text import one_line
from chordesk.tools.orders.audit import log_path, parse

_RULE = re.compile(HASH_SHOWN.strip("^$"))
_SHOWN = 12  # letters of a hash in a message
_MOST_DIFFERENCES = 8
_LONGEST_VALUE = 60
# They differ between any two orders, so they say something only where nothing else differs.
_IDENTITY = ("clientOrderId", "decisionId", "verdictId", "expiresAt", "pricedAt", "rateAt")


def require_shown(session: Session, settings: Settings, order: Order, found: Preview, expect: str) -> None:
    """Raise OrderError with what differs unless `expect` is the hash of the preview, or its beginning; UsageError for
    a text that is no hash."""
    if found.payload_hash.startswith(_checked(expect)):
        return
    shown = _payload_of(session, settings, expect)
    if shown is None:
        differs = "the desk has no preview with that hash"
    else:
        differs = "; ".join(_differences(shown, _fields(found.payload))) or "their texts differ"
    raise OrderError(
        f"order {order.id}: the preview that was shown ({expect[:_SHOWN]}) is not the one that waits "
        f"({found.payload_hash[:_SHOWN]}): {differs}; nothing was decided",
        remedy=f"look at it again with `desk approvals show {order.id}`, then answer",
    )


def _checked(expect: str) -> str:
    if not _RULE.fullmatch(expect):
        remedy = f"give at least {_SHOWN} of its letters, as `desk approvals` shows them"
        raise UsageError(f"{one_line(expect, 70)!r} is not the hash of a preview", remedy=remedy)
    return expect


def _payload_of(session: Session, settings: Settings, expect: str) -> Mapping[str, Any] | None:
    """Return the fields of the preview with a hash: from the previews of all orders, else from this machine's audit
    log, which has those too that were altered or removed since."""
    kept = session.exec(select(Preview).where(col(Preview.payload_hash).startswith(expect, autoescape=True))).first()
    if kept is not None:
        return _fields(kept.payload)
    mark = f'"payload_hash":"{expect}'.encode()
    try:
        with log_path(settings).open("rb") as log:
            lines = [found for raw in log if mark in raw and (found := parse(raw)) is not None]
    except OSError:
        return None
    payloads = (found.facts.get("payload") for found in lines if found.kind == "previewed")
    return next((_fields(text) for text in payloads if isinstance(text, str)), None)


def _fields(payload: str) -> Mapping[str, Any]:
    try:
        found = json.loads(payload)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    before, after = dict(_leaves(then)), dict(_leaves(now))
    names = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    telling = [name for name in names if name not in _IDENTITY] or names
    for name in telling[:_MOST_DIFFERENCES]:
        yield f"{_words(name)} was {_value(before.get(name))}, is {_value(after.get(name))}"
    if (more := len(telling) - _MOST_DIFFERENCES) > 0:
        yield f"and {more} more"


def _leaves(fields: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each field with its value, those of a field within another by both names: its stop is told, and no JSON."""
    for name, value in fields.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{above}{name} ")
        else:
            yield f"{above}{name}", value


def _words(name: str) -> str:
    return re.sub(r"(?<=[a-z])[A-Z]", lambda found: f" {found.group().lower()}", name)


def _value(value: Any) -> str:
    return "none" if value is None else one_line(_text(value), _LONGEST_VALUE)


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{_words(name)} {_text(one)}" for name, one in value.items())
    if isinstance(value, list):
        return ", ".join(" ".join(map(_text, one)) if isinstance(one, list) else _text(one) for one in value)
    return str(value)
