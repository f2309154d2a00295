"""A trader's plan that contradicts itself is refused: its model gets one turn to repair it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from chordesk.agents.answers import AnswerError, RecordedCall
from chordesk.models.answers import ActionKind

_ENTRIES = (ActionKind.OPEN, ActionKind.ADD)
Action = Mapping[str, Any]


def complete_plan(answer: dict[str, Any], subject: Mapping[str, Any], calls: Sequence[RecordedCall]) -> dict[str, Any]:
    """Return the answer as it is. Raises AnswerError for a stop or target on the wrong side of its entry, a review
    before today, and two listings of one company."""
    sizes = {row["symbol"]: row["sizing"] for row in subject["verdicts"] if row.get("sizing")}
    companies: dict[str, str] = {}
    for one in answer["actions"]:
        if one["action"] not in _ENTRIES:
            continue
        size = sizes.get(one["symbol"], {})
        if not one.get("contract") and not one.get("legs"):
            _require_sides(one, size.get("price"))
        _require_later(one, str(subject.get("day") or ""))
        other = companies.setdefault(size.get("company", one["symbol"]), one["symbol"])
        if other != one["symbol"]:
            raise AnswerError(f"{other} and {one['symbol']} are listings of one company: open or add to one of them")
    return answer


def _require_sides(action: Action, price: float | None) -> None:
    plan, entry = action.get("plan") or {}, action.get("limit_price") or price
    if entry is None:
        return
    long, symbol = action["side"] != "sell", action["symbol"]
    for name, below in (("stop", long), ("target", not long)):
        level = plan.get(name)
        if level is not None and (level >= entry if below else level <= entry):
            side = "below" if below else "above"
            raise AnswerError(f"{symbol}: the {name} {level:g} is not {side} its entry of {entry:g}")


def _require_later(action: Action, today: str) -> None:
    day = (action.get("plan") or {}).get("review")
    if day is None:
        return
    try:
        dt.date.fromisoformat(day)
    except ValueError:
        raise AnswerError(f"{action['symbol']}: the review {day!r} is no day: write YYYY-MM-DD") from None
    if today and day < today:
        raise AnswerError(f"{action['symbol']}: the review {day} is before today, {today}")
