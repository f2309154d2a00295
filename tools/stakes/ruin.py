"""The chance that a bankroll on Kelly stakes ever falls to a share of itself."""

from __future__ import annotations

from chordesk.models.errors import UsageError
from chordesk.tools.scoring.points import probability


def chance_of_falling_to(share: float, fraction: float) -> float:
    """Return x^(2 / l - 1) for the share x and the fraction l of full Kelly; from twice Kelly on it is certain.

    The limit of many small bets (Thorp, 2006); single large bets overshoot the share and reach it less often.
    """
    probability(share, "share")
    if not fraction > 0:
        raise UsageError(f"fraction {fraction:g} of Kelly is not above 0", remedy="0.25 is usual")
    return share ** (2 / fraction - 1) if fraction < 2 else 1.0
