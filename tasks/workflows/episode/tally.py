"""The tally of an episode: citations are judged, conduct is booked, rounds are aggregated, and the content is written,
all in the transaction that ends the step."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from sqlmodel import Session, select

from chordesk.agents.board.aggregate import aggregate
from chordesk.agents.board.citations import JudgedCitation, judge
from chordesk.agents.board.content import EpisodeTally, VoiceStanding, content, markdown
from chordesk.agents.board.karma import conduct
from chordesk.agents.board.lint import convergence, herding
from chordesk.agents.board.voices import VOICES, voice_of
from chordesk.models.board.forecasts import VoicePosition
from chordesk.models.board.karma import KarmaSum
from chordesk.models.events import event_log
from chordesk.models.events.artifact_events import written
from chordesk.models.states import StepKind
from chordesk.models.tables.board import Episode, SignalCitation
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.models.tables.orders import Account
from chordesk.models.tables.runs import Run, Step
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine.leases import HeldStep
from chordesk.tasks.engine.steps import ClaimedStep
from chordesk.tasks.worker.work import Done, Ending
from chordesk.tasks.workflows.episode.booking import book, entry_of, stake
from chordesk.tasks.workflows.episode.harvesting import FACTIONS
from chordesk.tasks.workflows.episode.payloads import EpisodePlan, plan_in
from chordesk.tasks.workflows.episode.reading import number_of, positions, read_board
from chordesk.tasks.workflows.episode.records import correlation_of, karma_of, revision_gains
from chordesk.tasks.workflows.episode.voicing import round_of
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.scoring.records.voices import better_round, voice_forecasts, voice_records

NO_POSITION = "no voice has a position"


def tally(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    """Judge, book, aggregate and write the content of an episode, in the transaction that ends the step."""
    now = desk.market_of(step.run_id).clock.now()
    with desk.store.read() as session:
        run = session.get_one(Run, step.run_id)
        plan = plan_in(step.payload)
        found = tally_of(session, run, plan, now)
    judged: dict[tuple[str, int, str], list[JudgedCitation]] = defaultdict(list)
    for cited in found.judged:
        judged[cited.voice, cited.round, cited.question].append(cited)
    citations = [
        row
        for one in found.positions
        for row in _citation_rows(run.id, one, judged[one.voice, one.round, one.forecast.question])
    ]
    counting = sum(one.counts for one in found.judged)
    notes = [] if found.positions else [NO_POSITION]
    ids = {label: one.id for label, one in found.board.questions_by_label.items()}
    beliefs = {ids[one.question]: one.probability for one in found.aggregates}
    notes += stake(desk, desk.tool_context(run.id), run.id, beliefs)
    result = {
        "forecasts": len(found.positions),
        "citations": len(citations),
        "counting": counting,
        "notes": notes,
    }
    return Done(result, (citations,), also=partial(_write, run=run, found=found, now=now))


def tally_of(session: Session, run: Run, plan: EpisodePlan, now: dt.datetime) -> EpisodeTally:
    """Return what code makes of an episode, before its bookings are written. now: market time."""
    board, held = read_board(session, run, exchange_day(now)), positions(session, run.id)
    judged = [one for position in held for one in judge(position, board)]
    steps = session.exec(select(Step).where(Step.run_id == run.id, Step.kind == StepKind.VOICE)).all()
    answered = {voice_of(row.role) for row in steps if row.result.get("status") == "completed"}
    bookings = [
        booking
        for voice in VOICES.values()
        for booking in conduct(voice.key, voice.tool, held, judged, board, answered=voice.key in answered)
    ]
    past = voice_forecasts(session, run.account, now)
    rounds = max((one.round for one in held), default=0)
    used = min(better_round(session, run.account, now), rounds) or None
    taking_part = [*plan.voices, *(one.voice for one in held if one.voice not in plan.voices)]
    shares = {voice: one.share for voice, one in plan.voices.items()}
    records = {one.voice: one for one in voice_records(past, dict.fromkeys(taking_part))}
    return EpisodeTally(
        board=board,
        standings=tuple(
            VoiceStanding(one.voice, FACTIONS.get(one.voice, ""), alpha=one.alpha) for one in records.values()
        ),
        positions=tuple(held),
        judged=tuple(judged),
        bookings=tuple(bookings),
        aggregates=tuple(aggregate(held, board, used, shares, FACTIONS, correlation_of(past)) if used else ()),
        used_round=used,
        convergence=tuple(convergence(held)),
        herding=herding(held, revision_gains(past)) if rounds > 1 else None,
        notes=_notes(steps),
    )


def _notes(steps: Sequence[Step]) -> dict[str, list[str]]:
    """Return by voice a line for each round without an answer, and for each part of an answer that was left out."""
    found: dict[str, list[str]] = defaultdict(list)
    for row in sorted(steps, key=lambda row: row.subject):
        voice, number = voice_of(row.role), round_of(row.subject)
        status = str(row.result.get("status") or row.state)
        if status != "completed":
            why = row.result.get("reason") or row.error
            found[voice].append(f"no position in round {number}: {status}" + (f", {why}" if why else ""))
        elif not row.result.get("forecasts"):
            found[voice].append(f"no position in round {number}: it forecast no question of the board")
        found[voice] += [f"round {number}, {line}" for line in row.result.get("left_out", ())]
    return dict(found)


def _citation_rows(run_id: str, position: VoicePosition, judged: Sequence[JudgedCitation]) -> list[SignalCitation]:
    return [
        SignalCitation(
            id=new_id(),
            run_id=run_id,
            forecast_id=position.forecast_id,
            signal_id=one.signal.id if one.signal is not None else None,
            ordinal=one.ordinal,
            label=one.cited.signal,
            stance=one.cited.stance,
            claim=one.cited.claim,
            counts=one.counts,
            reason=one.reason,
            copied=one.copied,
        )
        for one in judged
    ]


def _write(session: Session, run: Run, found: EpisodeTally, now: dt.datetime) -> None:
    """Write karma and the episode; the account's row is held, so that two episodes never get one number."""
    session.get(Account, run.account, with_for_update=True)
    number = number_of(session, run)
    book(session, [entry_of(run.account, run.id, one, now) for one in found.bookings])
    standings = tuple(_standing(session, run, one, now) for one in found.standings)
    whole = replace(found, board=replace(found.board, number=number), standings=standings)
    summary = content(whole)
    row = Episode(
        run_id=run.id,
        account=run.account,
        number=number,
        rounds=max((one.round for one in found.positions), default=0),
        used_round=found.used_round,
        content=markdown(summary),
        summary=summary,
        created_at=utcnow(),
    )
    event_log.append(session, [written(row)])
    session.add(row)


def _standing(session: Session, run: Run, one: VoiceStanding, now: dt.datetime) -> VoiceStanding:
    """Return a voice's standing with its sums after this episode."""
    sums = karma_of(session, run.account, one.voice, now)
    return replace(one, conduct=sums.get(KarmaSum.CONDUCT, 0.0), skill=sums.get(KarmaSum.SKILL, 0.0))
