"""The limits in force: every denial code with its settings, and the mandates."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from sqlmodel import Session

from chordesk.models.answers import Frozen
from chordesk.models.orders import DenialCode, MandateTerms
from chordesk.models.settings import REAL_MONEY, Settings
from chordesk.tools.orders.mandates import in_force, usage_of
from chordesk.tools.risk.codes import CODES


class LimitRow(Frozen):
    """One denial code. limits: variables with the values in force; exits: it binds orders that only reduce, too."""

    code: DenialCode
    denies: str
    exits: bool
    limits: dict[str, str]


class MandateState(Frozen):
    """The mandate of a broker with real money. why: why none is in force; terms and what is used of it otherwise.
    notional in account currency."""

    broker: str
    in_force: bool
    why: str | None
    terms: dict[str, Any] | None
    used_orders: int | None
    used_notional: Decimal | None


class LimitsView(Frozen):
    limits: list[LimitRow]
    approval: str | None
    mandates: list[MandateState]


def limits_view(session: Session, settings: Settings) -> LimitsView:
    rows = [
        LimitRow(code=code, denies=one.denies, exits=one.exits, limits=dict(one.limits(settings)))
        for code, one in CODES.items()
    ]
    return LimitsView(limits=rows, approval=settings.approval, mandates=mandate_states(session, settings))


def mandate_states(session: Session, settings: Settings) -> list[MandateState]:
    """Return the mandate of each broker with real money."""
    return [_mandate(session, settings, broker) for broker in sorted(REAL_MONEY)]


def _mandate(session: Session, settings: Settings, broker: str) -> MandateState:
    found = in_force(session, settings, broker)
    if not isinstance(found, MandateTerms):
        return MandateState(
            broker=broker, in_force=False, why=found.reason, terms=None, used_orders=None, used_notional=None
        )
    used = usage_of(session, broker, found.version)
    return MandateState(
        broker=broker, in_force=True, why=None, terms=found.model_dump(mode="json"), used_orders=used.orders,
        used_notional=used.notional,
    )  # fmt: skip
