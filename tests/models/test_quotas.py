"""The windows of a plan, and whether one more run fits."""

from __future__ import annotations

import datetime as dt
import random

from chordesk.models.quotas import LEAST_RUNS, forecast, quota_of

NOW = dt.datetime(2026, 11, 28, 16, tzinfo=dt.UTC)
PRIMARY = {"usedPercent": 60, "windowDurationMins": 300, "resetsAt": NOW.timestamp() + 7200}


def test_an_update_keeps_what_it_leaves_out_and_another_limit_is_not_the_accounts() -> None:
    first = quota_of({"limitId": "codex", "primary": PRIMARY, "secondary": {"usedPercent": 10}}, None, NOW)
    assert first is not None
    later = quota_of({"primary": {**PRIMARY, "usedPercent": 100}, "secondary": None}, first, NOW)
    assert later is not None
    assert [one.used for one in later.windows] == [100, 10]
    assert later.resets_at(NOW) == NOW + dt.timedelta(hours=2)
    assert quota_of({"limitId": "codex_other", "primary": {"usedPercent": 99}}, later, NOW) == later
    assert quota_of({"primary": None}, None, NOW) is None
    assert "0 % of the 5 h window left" in later.said(NOW)
    assert "not known yet" in later.said(NOW + dt.timedelta(hours=3)), "the window began anew since"


def test_a_forecast_needs_its_runs_and_takes_the_most_of_them() -> None:
    quota = quota_of({"primary": PRIMARY}, None, NOW)
    assert quota is not None
    few = [{"primary": 3}] * (LEAST_RUNS - 1)
    assert "unknown" in forecast(quota, "screen", few, NOW)
    assert "a screen fits: up to 9 %" in forecast(quota, "screen", [*few, {"primary": 8}], NOW)
    assert "may not fit" in forecast(quota, "screen", [*few, {"primary": 40}], NOW), "the provider rounds"
    assert "unknown" in forecast(quota, "screen", [*few, *few], NOW + dt.timedelta(hours=3))


def test_the_chance_that_is_told_holds_for_skewed_use_and_is_missed_where_runs_grow() -> None:
    """The chance of 1 in n + 1 needs runs like each other: with use that grows from run to run it is too small."""
    random.seed(5)

    def exceeds(growth: float, n: int = 9) -> bool:
        uses = [random.lognormvariate(1, 1) * growth**place for place in range(n + 1)]
        return uses[-1] > max(uses[:-1])

    alike = sum(exceeds(1.0) for _ in range(4000)) / 4000
    grown = sum(exceeds(1.2) for _ in range(4000)) / 4000
    assert 0.08 < alike < 0.12
    assert grown > 0.2
