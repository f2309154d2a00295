"""What each rule measured when an order was last checked, kept for whoever asks later."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from pydantic import TypeAdapter
from sqlmodel import Session

from chordesk.models.orders import DenialCode, Denied
from chordesk.models.research import Frozen
from chordesk.models.tables.orders import OrderCheck
from chordesk.tools.risk.measures import Measured


class RuleAnswer(Frozen):
    """One rule on one order. codes: those that it denies with; denied: its denial, None when the order passed; figure:
    what it measured, None where it has no figure unless it denies; binds: False for a rule on entries, and an order
    that only reduces."""

    codes: list[DenialCode]
    denied: Denied | None
    figure: str | None
    binds: bool


class RecordedChecks(Frozen):
    """The answers at a market time, in the order of the rules; none for an order without a price or size, which no
    rule saw."""

    at: dt.datetime
    answers: list[RuleAnswer]


_ANSWERS = TypeAdapter(list[RuleAnswer])


def keep(session: Session, order_id: str, at: dt.datetime, found: Sequence[Measured]) -> None:
    """Keep the answers in place of those of an earlier check, in the caller's transaction. at: market time."""
    answers = [
        RuleAnswer(codes=list(one.codes), denied=one.denied, figure=one.figure, binds=one.binds) for one in found
    ]
    session.merge(OrderCheck(order_id=order_id, market_at=at, answers=_ANSWERS.dump_python(answers, mode="json")))


def kept(session: Session, order_id: str) -> RecordedChecks | None:
    """Return an order's last answers; None for one that was not checked, or was before answers were kept."""
    row = session.get(OrderCheck, order_id)
    return None if row is None else RecordedChecks(at=row.market_at, answers=_ANSWERS.validate_python(row.answers))
