"""The options of `desk analyze` as the request that they mean."""

from __future__ import annotations

import re
from typing import cast, get_args

from chordesk.models.analysis import WRITES, AnalysisRequest, Depth, Strategy
from chordesk.models.errors import UsageError

_DAYS = re.compile(r"(\d{1,4})-(\d{1,4})")
_MOST_DAYS, _MOST_CONTRACTS = 400, 1000


def analysis_request(
    strategy: str,
    *,
    max_delta: float | None = None,
    min_roc: float | None = None,
    dte: str | None = None,
    contracts: int | None = None,
    chart: bool = True,
    research: bool = True,
    orders: bool = True,
) -> AnalysisRequest:
    """Return the request of the options; None takes its default. min_roc: percent a week. Raises UsageError."""
    chosen = _strategy(strategy)
    if chosen not in WRITES and not (chart and research):
        reason = f"the strategy {chosen} rests on chart and research alone, and one report decides nothing"
        raise UsageError(reason, remedy="leave --no-chart and --no-research out")
    given = {"--max-delta": max_delta, "--min-roc": min_roc, "--dte": dte, "--contracts": contracts}
    if chosen not in WRITES and (extra := [name for name, value in given.items() if value is not None]):
        reason = f"{' and '.join(extra)} is of a contract, and the strategy {chosen} writes none"
        raise UsageError(reason, remedy=f"leave it out, or choose --strategy {' or '.join(WRITES)}")
    found = {
        "max_delta": _within("--max-delta", max_delta, 0.01, 1),
        "min_weekly_roc": _share(_within("--min-roc", min_roc, 0, 100)),
        "contracts": _within("--contracts", contracts, 1, _MOST_CONTRACTS),
        **(_days(dte) if dte is not None else {}),
    }
    asked = {name: value for name, value in found.items() if value is not None}
    return AnalysisRequest.model_validate(
        {"strategy": chosen, "chart": chart, "research": research, "orders": orders, **asked}
    )


def analysis_depth(depth: str | None) -> Depth | None:
    """Return a depth; None is that of the settings. Raises UsageError."""
    if depth is not None and depth not in get_args(Depth):
        raise UsageError(f"--depth {depth!r} is no depth", remedy=f"choose among {', '.join(get_args(Depth))}")
    return cast("Depth | None", depth)


def _strategy(text: str) -> Strategy:
    if text not in get_args(Strategy):
        raise UsageError(f"--strategy {text!r} is no strategy", remedy=f"choose among {', '.join(get_args(Strategy))}")
    return cast(Strategy, text)


def _within(name: str, value: float | None, least: float, most: float) -> float | None:
    if value is not None and not least <= value <= most:  # a NaN, too
        raise UsageError(f"{name} {value:g} is out of range", remedy=f"give {least:g} to {most:g}")
    return value


def _share(percent: float | None) -> float | None:
    return percent / 100 if percent is not None else None


def _days(text: str) -> dict[str, int]:
    remedy = f"give the fewest and the most days to expiry, such as 14-45, 1 to {_MOST_DAYS}"
    found = _DAYS.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"--dte {text!r} is no range of days", remedy=remedy)
    first, last = int(found[1]), int(found[2])
    if first > last:
        raise UsageError(f"--dte {text} begins after its end", remedy=remedy)
    if first < 1 or last > _MOST_DAYS:
        raise UsageError(f"--dte {text} is out of range", remedy=remedy)
    return {"min_days": first, "max_days": last}
