"""Episodes with a worker that dies: each voice has one position a round and question, and karma is booked once."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

from sqlmodel import Session, select

from chordesk.agents.board.voices import VOICES
from chordesk.models.tables.board import Episode, EpisodeQuestion, Forecast, KarmaEntry, Signal, SignalCitation
from chordesk.tasks.workflows.episode.opening import open_episode
from chordesk.tools.board.registry import HARVESTERS
from tests.faults.check import Expected, Findings, check
from tests.faults.desk import WORKERS, FaultDesk
from tests.faults.scenario import Result

ROUNDS = 2
SYMBOLS = ("AAPL", "IBM", "KO", "GE")


def worker_killed(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """SIGKILL to a worker while voices are at work, in either round."""
    run = open_episode(desk.processes.app, SYMBOLS, rounds=ROUNDS)
    assert run is not None
    victim = chance.choice(WORKERS)
    time.sleep(chance.uniform(0.0, 3.0) * desk.pace.latency)
    held = desk.kill_in_flight(victim, [run.id])
    result.took(desk.takeover(held))
    desk.await_end(run.id)
    result.runs += 1
    result.findings.add(check(desk, [run.id], Expected(whole=False)))
    result.findings.add(episode_findings(desk, run.id))
    desk.await_worker(victim)


def episode_findings(desk: FaultDesk, run_id: str) -> Findings:
    """Look at what an episode left, and at all sums of karma."""
    found = Findings()
    with desk.store.read() as session:
        forecasts = _rows(session, Forecast, run_id)
        questions = {row.question_id for row in _rows(session, EpisodeQuestion, run_id)}
        given = [(row.voice, row.round, row.question_id) for row in forecasts]
        found.lost += [str(one) for one in set(product(VOICES, range(1, ROUNDS + 1), questions)) - set(given)]
        found.doubled += _twice("forecast", given)
        labels = [row.label for row in _rows(session, Signal, run_id)]
        found.doubled += _twice("signal", labels)
        found.lost += [f"signals of {tool}" for tool in HARVESTERS if f"{tool}-1" not in labels]
        cited = [(row.forecast_id, row.ordinal) for row in _rows(session, SignalCitation, run_id)]
        found.doubled += _twice("citation", cited)
        if len(cited) != sum(len(row.citations) for row in forecasts):
            found.lost.append(f"citations: {len(cited)} rows")
        episodes = _rows(session, Episode, run_id)
        entries = _rows(session, KarmaEntry, run_id)
        found.doubled += _twice("karma", [(row.voice, row.key) for row in entries])
        found.lost += [] if episodes else ["the tally"]
        if episodes and entries:
            found.wrong += _sums(session, episodes[0])
    return found


def _sums(session: Session, episode: Episode) -> list[str]:
    """Return the voices with a shown sum that is not that of their entries up to this episode."""
    booked = session.exec(select(KarmaEntry).where(KarmaEntry.ledger == "conduct")).all()
    upto = [row for row in booked if row.run_id <= episode.run_id]
    shown = {row["voice"]: row["conduct"] for row in episode.summary["leaderboard"]}
    sums = {voice: sum(row.amount for row in upto if row.voice == voice) for voice in shown}
    wrong = [voice for voice in shown if shown[voice] != sums[voice]]
    return [f"karma of {voice}: {shown[voice]} shown, {sums[voice]} booked" for voice in wrong]


def _rows(session: Session, table: Any, run_id: str) -> Sequence[Any]:
    return session.exec(select(table).where(table.run_id == run_id)).all()


def _twice(name: str, keys: Iterable[object]) -> list[str]:
    every = list(keys)
    return [f"{name} {key}" for key in dict.fromkeys(every) if every.count(key) > 1]
