"""The two lengths of the rehearsal."""

from __future__ import annotations

from dataclasses import dataclass

from tests.fleet.scaler import Rule

LATENCY = 1.0  # seconds of each model call; a turn makes two: a tool's, and its answer's
TURNS = 8  # at once of one worker


@dataclass(frozen=True, slots=True)
class Plan:
    """Seconds, if not named otherwise.

    window: each steady measurement. screens: when screens are opened, from
    the begin of the main part; ten an hour are one each 360 s. names: symbols of a screen, all of which become
    candidates. load: symbols of the research that goes with a screen, so that four workers have to do. apart: between
    two faults. main: least length of the main part. settle: stabilisation window. limit: longest length of all.
    """

    window: float
    screens: tuple[float, ...]
    names: int
    load: tuple[int, ...]
    apart: float
    main: float
    settle: float
    poll: float
    limit: float

    @property
    def rule(self) -> Rule:
        return Rule(TURNS, least=1, most=4, poll=self.poll, settle=self.settle)


FULL = Plan(
    window=30,
    screens=(0, 360),
    names=20,
    load=(400, 400),
    apart=20,
    main=600,
    settle=60,
    poll=5,
    limit=900,
)
QUICK = Plan(window=10, screens=(0, 70), names=6, load=(220, 40), apart=6, main=110, settle=10, poll=2, limit=900)
