"""How figures, states and ids look to a person: one table for the page, the terminal, reports and notifications.

`docs/generate.py` writes the page's copy, static/lib/looks.js, and the tables of docs/reference/looks.md."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import NamedTuple

MISSING = "-"


class Figure(NamedTuple):
    """A kind of figure. least, most: decimals, so that a column of one kind aligns at the point; unit: stands behind
    the figure; per_cent: a fraction is shown as per cent; signed: with its sign, as it is a change; sample: a value."""

    what: str
    least: int
    most: int
    sample: float
    unit: str = ""
    per_cent: bool = False
    signed: bool = False


# Money is not among them: its decimals are those of its currency, and its sign stands before it.
FIGURES: Mapping[str, Figure] = {
    "count": Figure("things: runs, turns, sessions", 0, 0, 1234),
    "shares": Figure("shares, contracts, coins: as many decimals as it has", 0, 8, 208),
    "ratio": Figure("one figure divided by another: turnover, profit for each unit at risk", 2, 2, 1.5),
    "score": Figure("a score of forecasts: Brier, log", 4, 4, 0.1875),
    "percent": Figure("a part of a whole: share of equity, drawdown, exposure", 1, 1, 0.371822, "%", per_cent=True),
    "change": Figure("a return or another change", 2, 2, 0.0123, "%", per_cent=True, signed=True),
    "probability": Figure("a probability, a hit rate and their intervals", 0, 0, 0.365, "%", per_cent=True),
}


def written(kind: str, value: float | None) -> str:
    """Return a figure as text for a terminal, a report or a notification: the page has the same digits."""
    if value is None or not math.isfinite(value):
        return MISSING
    look = FIGURES[kind]
    exact = Decimal(repr(float(value))) * (100 if look.per_cent else 1)
    size = exact.quantize(Decimal(1).scaleb(-look.most), ROUND_HALF_UP)  # as a browser rounds
    text = f"{abs(size):,f}"
    if look.most > look.least:
        whole, _, decimals = text.partition(".")
        text = f"{whole}.{kept}" if (kept := decimals.rstrip("0").ljust(look.least, "0")) else whole
    sign = "-" if size < 0 else "+" if size and look.signed else ""
    return f"{sign}{text} {look.unit}" if look.unit else f"{sign}{text}"


class Tone(NamedTuple):
    """A colour with its shape: neither is ever the only sign."""

    shape: str
    means: str


TONES: Mapping[str, Tone] = {
    "good": Tone("●", "has come to a good end, or is in order"),
    "busy": Tone("◐", "is under way"),
    "warn": Tone("▲", "needs a look, or ended before its time"),
    "bad": Tone("■", "failed, was refused, or is against the position"),
    "plain": Tone("○", "says nothing good or bad"),
}


class State(NamedTuple):
    words: str
    tone: str


# By what has the state, then by its stored value. `any`: words of steps, turns, reports and programs.
STATES: Mapping[str, Mapping[str, State]] = {
    "run": {
        "running": State("running", "busy"),
        "stopping": State("stopping", "warn"),
        "done": State("done", "good"),
        "partial": State("not whole", "warn"),
        "failed": State("failed", "bad"),
        "stopped": State("stopped", "warn"),
    },
    "order": {
        "drafted": State("drafted", "plain"),
        "denied": State("refused by a rule", "bad"),
        "previewed": State("checked", "plain"),
        "approval_pending": State("waits for a person", "warn"),
        "approved": State("approved", "busy"),
        "submitting": State("being sent", "busy"),
        "unknown": State("outcome not known", "bad"),
        "submitted": State("at the broker", "busy"),
        "partially_filled": State("filled in part", "busy"),
        "filled": State("filled", "good"),
        "cancelled": State("cancelled", "warn"),
        "rejected": State("refused by the broker", "bad"),
        "expired": State("expired", "warn"),
    },
    "approval": {
        "pending": State("waits", "warn"),
        "approved": State("approved", "good"),
        "denied": State("denied", "bad"),
        "expired": State("not answered in time", "warn"),
    },
    "trading": {
        "active": State("active", "good"),
        "reducing": State("only closing", "warn"),
        "halted": State("halted", "bad"),
    },
    "any": {
        **dict.fromkeys(
            ("done", "filled", "confirmed", "buy", "strong buy", "bullish", "resolved", "ok", "active", "approved",
             "completed", "up", "runs"), State("", "good"),
        ),
        **dict.fromkeys(
            ("running", "pending", "open", "ready", "started", "submitted", "waiting", "previewed", "submitting",
             "accepted", "draft", "sent"), State("", "busy"),
        ),
        **dict.fromkeys(
            ("stopping", "caution", "expired", "retry", "reducing", "hold", "late", "stopped", "cancelled", "skipped",
             "lost", "preview", "interrupted", "again", "void", "slow", "partial"), State("", "warn"),
        ),
        **dict.fromkeys(
            ("failed", "reject", "bearish", "rejected", "denied", "halted", "sell", "strong sell", "down", "refused",
             "error", "unknown", "live", "real money", "frozen", "dead", "unreachable"), State("", "bad"),
        ),
    },
}  # fmt: skip


def state(of: str, value: str) -> State:
    """Return how a state looks; one that the table lacks is shown by its own words."""
    own = value.replace("_", " ")
    found = STATES[of].get(value) or STATES["any"].get(own.lower()) or State("", "plain")
    return State(found.words or own, found.tone)
