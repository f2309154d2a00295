"""Which mode a role, a step and a kind of run belong to, and which symbol a role looks at."""

from __future__ import annotations

from collections.abc import Mapping

from agents.roles import ROLES, Kind
from models.states import RunKind, StepKind
from models.telemetry import Mode, RunMode

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
_MODE_OF_KIND: Mapping[Kind, RunMode] = {"screener": "screener", "validator": "research", "trader": "trader"}


def mode_of(role: str) -> Mode:
    """`other` for a role that is none of the desk's own."""
    known = ROLES.get(role)
    return _MODE_OF_KIND[known.kind] if known is not None else "other"


def symbol_of(role: str, subject: str) -> str | None:
    """The symbol that a role's subject is; None for roles that look at more than one."""
    return subject if subject and mode_of(role) == "research" else None
