"""Which mode a step and a kind of run belong to, and which symbol a role looks at."""

from __future__ import annotations

from collections.abc import Mapping

from agents.roles import mode_of
from models.modes import RunMode
from models.states import RunKind, StepKind

MODE_OF_RUN: Mapping[str, RunMode] = {
    RunKind.SCREEN: "screener",
    RunKind.RESEARCH: "research",
    RunKind.TRADE: "trader",
}
MODE_OF_STEP: Mapping[str, RunMode] = {
    StepKind.SCREEN: "screener",
    StepKind.SCREEN_SHARD: "screener",
    StepKind.MERGE: "screener",
    StepKind.REPORT: "research",
    StepKind.CONCLUDE: "research",
    StepKind.DECIDE: "trader",
    StepKind.SUBMIT: "trader",
}


def symbol_of(role: str, subject: str) -> str | None:
    """The symbol that a role's subject is; None for roles that look at more than one."""
    return subject if subject and mode_of(role) == "research" else None
