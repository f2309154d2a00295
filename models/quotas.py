"""The windows of a provider's plan, such as 5 hours and 7 days, and how much of each is used up."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any

from chordesk.models.answers import Frozen
from chordesk.models.text import span, utc

NAMES = ("primary", "secondary")  # of the app-server's windows: the short one and the long one


class QuotaWindow(Frozen):
    """One window. used: percent, rounded by the provider. minutes: its length, resets_at: its end, None if unknown."""

    name: str
    used: int
    minutes: int | None = None
    resets_at: dt.datetime | None = None

    @property
    def label(self) -> str:
        return f"{span(self.minutes * 60)} window" if self.minutes else f"{self.name} window"

    def over(self, now: dt.datetime) -> bool:
        """Return whether it has begun anew since, so that its use is not known."""
        return self.resets_at is not None and self.resets_at <= now

    def said(self, now: dt.datetime) -> str:
        if self.over(now):
            return f"the {self.label} began anew since: its use is not known yet"
        at = f", begins anew {utc(self.resets_at)}" if self.resets_at is not None else ""
        return f"{max(100 - self.used, 0)} % of the {self.label} left{at}"


class Quota(Frozen):
    """What a provider last told of an account's plan. at: when it did."""

    windows: tuple[QuotaWindow, ...]
    at: dt.datetime
    plan: str | None = None

    def said(self, now: dt.datetime) -> str:
        return "; ".join(one.said(now) for one in self.windows)

    def resets_at(self, now: dt.datetime) -> dt.datetime | None:
        """Return when the last of its used-up windows begins anew; None where none is used up, or no time is known."""
        ends = [one.resets_at for one in self.windows if one.used >= 100 and one.resets_at is not None]
        return max((end for end in ends if end > now), default=None)


def quota_of(told: Mapping[str, Any], before: Quota | None, at: dt.datetime) -> Quota | None:
    """Return the plan by the app-server's `rateLimits`, whose updates leave out what has not changed. None while no
    window is known, and for the windows of a single model, which are told beside those of the account."""
    if told.get("limitId") not in (None, "codex"):
        return before
    known = {one.name: one for one in (before.windows if before is not None else ())}
    windows = [_window(name, told.get(name)) or known.get(name) for name in NAMES]
    found = tuple(one for one in windows if one is not None)
    if not found:
        return None
    plan = told.get("planType") or (before.plan if before is not None else None)
    return Quota(windows=found, at=at, plan=str(plan) if plan else None)


def _window(name: str, told: Any) -> QuotaWindow | None:
    if not isinstance(told, Mapping) or type(told.get("usedPercent")) not in (int, float):
        return None
    minutes, resets = told.get("windowDurationMins"), told.get("resetsAt")
    try:
        end = dt.datetime.fromtimestamp(float(resets), dt.UTC) if resets is not None else None
    except (TypeError, ValueError, OverflowError, OSError):
        end = None
    used = min(max(round(told["usedPercent"]), 0), 100)
    return QuotaWindow(
        name=name, used=used, minutes=minutes if type(minutes) is int and minutes > 0 else None, resets_at=end
    )


LEAST_RUNS = 4


def forecast(quota: Quota, name: str, uses: Iterable[Mapping[str, int]], now: dt.datetime) -> str:
    """Return whether a further run fits the plan, by the percent points of each window that past runs used. name: of
    such runs, in the singular.

    Assumption: the runs are exchangeable, the next one being as likely as any other the largest of the n + 1. Then it
    uses more than the most of n with a chance of at most 1 in n + 1, whatever the distribution. Below LEAST_RUNS that
    is a third or more, and nothing is said. What others used meanwhile counts as the run's own, and a point is added
    since the provider rounds: both make the forecast larger.
    """
    known = [dict(one) for one in uses]
    if len(known) < LEAST_RUNS:
        return f"a {name}: unknown whether it fits, {len(known)} of {LEAST_RUNS} runs are on record"
    parts, fits = [], True
    for window in quota.windows:
        if window.over(now):
            continue
        most = max(one.get(window.name, 0) for one in known) + 1
        left = max(100 - window.used, 0)
        fits = fits and most <= left
        parts.append(f"up to {most} % of the {window.label}, {left} % are left")
    if not parts:
        return f"a {name}: unknown whether it fits, the windows began anew since the plan was last seen"
    verdict = "fits" if fits else "may not fit, and would wait for the plan"
    return f"a {name} {verdict}: {'; '.join(parts)} (the most of {len(known)} runs; 1 in {len(known) + 1} uses more)"
