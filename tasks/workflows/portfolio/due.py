"""The rules by which a role is due to review a holding again, and why. Pure."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from enum import StrEnum

from chordesk.models.settings import Settings


class DueReason(StrEnum):
    """Reasons why a role runs, in the order of the checks: the first that holds is given."""

    MANUAL = "manual"  # a person wants it, due or not
    INITIAL_RUN = "initial_run"
    UNREALIZED_CHANGE = "unrealized_change_trigger"
    PRICE_MOVE = "price_move_trigger"
    AGE_TIMEOUT = "age_timeout"


@dataclass(frozen=True, slots=True)
class HoldingSnapshot:
    """A holding at one review, past or present: market time and figures.

    price in account currency, unrealized as a share of the cost; None where it was not known.
    """

    at: dt.datetime
    price: float | None
    unrealized: float | None


@dataclass(frozen=True, slots=True)
class Limits:
    """The settings that make a role due.

    age: time after which a role reviews again whatever the figures. price_move: a fraction of the price at the last
    review. unrealized_change: by how much the gain differs from that at the last review.
    """

    age: dt.timedelta
    price_move: float
    unrealized_change: float


@dataclass(frozen=True, slots=True)
class Due:
    """A role that is due. text: the reason with its figure."""

    reason: DueReason
    text: str


@dataclass(frozen=True, slots=True)
class NotDue:
    """due_at: market time at which its age makes the role due, if no figure does so before. blind: the figures that
    cannot, and why."""

    due_at: dt.datetime
    blind: tuple[str, ...]


def limits_of(settings: Settings) -> Limits:
    return Limits(dt.timedelta(hours=settings.role_age_hours), settings.price_move, settings.unrealized_change)


def due(last: HoldingSnapshot | None, now: HoldingSnapshot, limits: Limits, *, asked: bool = False) -> Due | NotDue:
    """Return whether a role is due, and why, or when it is next.

    last: None when the role never reviewed the holding; a review of later than now counts as none. asked: a person
    wants it. A figure that is missing at either review triggers nothing.
    """
    if asked:
        return Due(DueReason.MANUAL, "manual")
    if last is None or last.at > now.at:
        return Due(DueReason.INITIAL_RUN, "initial run")
    gained, moved = _difference(last.unrealized, now.unrealized), _move(last.price, now.price)
    if _reaches(gained, limits.unrealized_change):
        return Due(DueReason.UNREALIZED_CHANGE, f"unrealized {signed(gained)}")
    if _reaches(moved, limits.price_move):
        return Due(DueReason.PRICE_MOVE, f"price {signed(moved)}")
    if now.at - last.at >= limits.age:
        return Due(DueReason.AGE_TIMEOUT, f"{ago(now.at - last.at)} old")
    figures = (("price", last.price, now.price, moved), ("unrealized", last.unrealized, now.unrealized, gained))
    blind = tuple(_blind(name, then, today) for name, then, today, change in figures if change is None)
    return NotDue(last.at + limits.age, blind)


def signed(change: float | None) -> str:
    """Return a fraction as a percentage of three digits with its sign, such as +7% or -5.25%."""
    return "unknown" if change is None else f"{100 * change:+.3g}%"


def ago(span: dt.timedelta) -> str:
    """Return a span of time in the largest unit that is precise enough: 45 min, 26 h, 9 d."""
    minutes = int(span.total_seconds() // 60)
    if minutes < 120:
        return f"{minutes} min"
    hours = minutes // 60
    return f"{hours} h" if hours < 72 else f"{hours // 24} d"


def _difference(then: float | None, now: float | None) -> float | None:
    return None if then is None or now is None else now - then


def _move(then: float | None, now: float | None) -> float | None:
    return None if not then or now is None else now / then - 1


def _reaches(change: float | None, limit: float) -> bool:
    # A move from 100 to 95 is one of 5 %, whatever its last binary digit.
    return change is not None and round(abs(change), 12) >= limit


def _blind(name: str, then: float | None, now: float | None) -> str:
    return f"{name} not known {'now' if now is None else 'at the last look'}"
