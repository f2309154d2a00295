"""The signals of an episode: each tool's findings or its tombstone, and what steps carry from one to the next."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from chordesk.agents.board.voices import VOICES, owner_of
from chordesk.models.answers import Frozen
from chordesk.models.board import Harvest, SignalState
from chordesk.models.states import StepKind
from chordesk.models.tables.board import Signal, SignalFinding
from chordesk.models.tables.columns import new_id
from chordesk.models.tables.runs import Step
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine import policy
from chordesk.tasks.engine.leases import HeldStep
from chordesk.tasks.engine.steps import ClaimedStep, NewStep
from chordesk.tasks.reading.boards import board_questions
from chordesk.tasks.worker.work import Done, Ending, RetryLater, attempts_of
from chordesk.tools.board.context import harvest_context
from chordesk.tools.board.registry import HARVESTERS, Tombstone, run_harvester
from chordesk.tools.scoring.track_records import Precision, VoicePlan

FACTIONS = {voice.key: voice.faction for voice in VOICES.values()}
OWN_RECORDS = "the desk"  # source of what code states about a tool


def harvest_steps(parent: str, learned: Mapping[str, Precision]) -> list[NewStep]:
    """Return a step for each tool, with its precision: the record of all is read once."""
    return [
        NewStep(StepKind.HARVEST, parent, tool, payload=learned.get(tool, Precision())._asdict()) for tool in HARVESTERS
    ]


def harvest(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    """Run one tool and post its findings. A failure that may pass is tried again; the last one leaves a tombstone."""
    tool, harvester = step.subject, HARVESTERS.get(step.subject)
    context = desk.tool_context(step.run_id)
    now = context.clock.now()
    if harvester is None:
        rows = [tombstone(step.run_id, step.id, tool, f"this version has no tool {tool}", now)]
        return Done({"state": SignalState.OFFLINE, "signals": 0}, (rows,))
    with desk.store.read() as session:
        questions = board_questions(session, step.run_id)
    found = run_harvester(harvester, harvest_context(context, questions, FACTIONS))
    if isinstance(found, Tombstone):
        return _failed(desk, step, found, now)
    rows = signals_of(step, found, Precision(**step.payload), now)
    return Done({"state": rows[0].state, "signals": len(found.findings)}, (rows,))


def _failed(desk: Desk, step: ClaimedStep, found: Tombstone, now: dt.datetime) -> Ending:
    """Return another attempt for a failure that may pass while there are some left, else the tombstone."""
    wait = policy.next_attempt("market_unavailable", *attempts_of(desk, step)) if found.retryable else None
    if wait is not None:
        return RetryLater(wait.seconds, policy.reason("market_unavailable", found.reason), counts=wait.counts)
    rows = [tombstone(step.run_id, step.id, step.subject, found.reason, now)]
    return Done({"state": SignalState.OFFLINE, "signals": 0, "reason": found.reason}, (rows,))


def signals_of(step: ClaimedStep, found: Harvest, learned: Precision, now: dt.datetime) -> list[Signal]:
    """Return the rows of a harvest, best first; a dormant tool has one with the reason."""
    if not found.findings:
        reason = found.dormant or "it found nothing"
        return [_stating(step.run_id, step.id, step.subject, SignalState.DORMANT, reason, now)]
    return [_row(step, place, one, learned) for place, one in enumerate(found.findings, start=1)]


def tombstone(run_id: str, step_id: str, tool: str, reason: str, now: dt.datetime) -> Signal:
    return _stating(run_id, step_id, tool, SignalState.OFFLINE, f"{tool} failed: {reason}", now)


def lost_with_its_worker(step: Step, now: dt.datetime) -> Signal:
    return tombstone(step.run_id, step.id, step.subject, step.error or "its step left nothing", now)


def _row(step: ClaimedStep, place: int, one: SignalFinding, learned: Precision) -> Signal:
    return Signal(
        id=new_id(),
        run_id=step.run_id,
        step_id=step.id,
        label=f"{step.subject}-{place}",
        tool=step.subject,
        owner=owner_of(step.subject),
        state=SignalState.LIVE,
        **{
            **one.model_dump(),
            "subjects": list(one.subjects),
            "precision": learned.factor,
            "resolved": learned.resolved,
        },
    )


def _stating(run_id: str, step_id: str, tool: str, state: SignalState, headline: str, now: dt.datetime) -> Signal:
    return Signal(
        id=new_id(),
        run_id=run_id,
        step_id=step_id,
        label=f"{tool}-1",
        tool=tool,
        owner=owner_of(tool),
        state=state,
        headline=headline,
        direction="neutral",
        source=OWN_RECORDS,
        as_of=now,
    )


class EpisodePlan(Frozen):
    """The plan of an episode, as steps carry it in their payload."""

    rounds: int  # held at most
    voices: dict[str, VoicePlan]  # that take part
    extinct: tuple[str, ...] = ()  # voices left out for their record
    unused: tuple[str, ...] = ()  # tools of the last episode without a citation

    def in_round(self, number: int) -> list[str]:
        return [voice for voice, plan in self.voices.items() if plan.rounds >= number]

    def of_voice(self, voice: str) -> dict[str, Any]:
        plan = self.voices[voice]
        return {"unused": list(self.unused), "depth": plan.depth, "tier": plan.tier}
