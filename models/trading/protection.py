"""Rules that protect a position: a stop at a percentage from its cost, or one that trails its best price."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

LEAST_PERCENT, MOST_PERCENT = 0.1, 50.0
_RULE = re.compile(r"(stop|trail):(\d+(?:\.\d+)?)%")
_ALLOWED = f"allowed are none, stop:N% and trail:N% with N from {LEAST_PERCENT} to {MOST_PERCENT:g}, such as stop:8%"


class Protection(NamedTuple):
    """A rule of DESK_PROTECT. percent: of the price that it is measured from."""

    kind: Literal["stop", "trail"]
    percent: float


def parse_protection(rule: str) -> Protection | None:
    """Return the rule of a setting's text, None for `none`. Raises ValueError for anything else."""
    if rule == "none":
        return None
    found = _RULE.fullmatch(rule)
    if found is None:
        raise ValueError(_ALLOWED)
    percent = float(found[2])
    if not LEAST_PERCENT <= percent <= MOST_PERCENT:
        raise ValueError(f"{found[2]}% is out of range: {_ALLOWED}")
    return Protection("stop" if found[1] == "stop" else "trail", percent)


def require_protection(rule: str) -> str:
    """Return the text as it is. Raises ValueError unless it is a rule."""
    parse_protection(rule)
    return rule
