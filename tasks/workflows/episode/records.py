"""The past of an account's voices as their prompts and the tally need it, none of it later than the market's now."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np
import sqlalchemy
from sqlalchemy import bindparam
from sqlmodel import Session, col, func, select

from chordesk.agents.board.memory import PastPosition, PastRecord, voice_memory
from chordesk.models.board.forecasts import ROUNDS
from chordesk.models.board.karma import KarmaSum
from chordesk.models.tables.board import Forecast, KarmaEntry
from chordesk.models.tables.composing import composed_once
from chordesk.models.tables.questions import Question
from chordesk.models.tables.runs import Run
from chordesk.tools.questions.reading import known_column
from chordesk.tools.scoring.consensus import error_correlation
from chordesk.tools.scoring.points import alpha, brier
from chordesk.tools.scoring.records.voices import voice_forecasts
from chordesk.tools.scoring.revision import BLIND, INFORMED, last_positions
from chordesk.tools.scoring.summary import ScoredForecast, mean_of

_LAST = 40  # forecasts that are read for the last positions
_LEAST_TOGETHER = 20  # questions that all voices forecast, before their errors' correlation is used


def memory_of(session: Session, run: Run, voice: str, now: dt.datetime, unused: Sequence[str]) -> str | None:
    """Return what a voice remembers, None before its first position. now: market time. unused: tools of the last
    episode without a citation."""
    own = [one for one in voice_forecasts(session, run.account, now) if one.source == voice]
    last = last_positions(own)
    record = PastRecord(
        mean_of(last, lambda one: brier(one.probability, one.outcome)),
        mean_of(last, lambda one: alpha(one.probability, one.baseline, one.outcome)),
    )
    karma = karma_of(session, run.account, voice, now)
    return voice_memory(record, _past(session, run, voice, now), karma, now=now, unused=unused) or None


def karma_of(session: Session, account: str, voice: str, until: dt.datetime) -> dict[KarmaSum, float]:
    """Return the sums of a voice's entries up to a market time; a sum without an entry is left out."""
    mine = (KarmaEntry.account == account, KarmaEntry.voice == voice, col(KarmaEntry.market_at) <= until)
    rows = session.exec(select(KarmaEntry.ledger, func.sum(KarmaEntry.amount)).where(*mine).group_by(KarmaEntry.ledger))
    return {KarmaSum(ledger): float(amount) for ledger, amount in rows}


def _past(session: Session, run: Run, voice: str, now: dt.datetime) -> list[PastPosition]:
    """Return a voice's last forecasts on the run's market, each question of a run once: the last round's."""
    parameters = {"account": run.account, "voice": voice, "run": run.id, "market": run.market, "now": now}
    rows = session.execute(_last_forecasts(), parameters)
    return list({(run_id, question): PastPosition(*values) for run_id, question, *values in rows}.values())


@composed_once
def _last_forecasts() -> Any:
    """Return the query of a voice's last forecasts, the newest first and of a run the first round first: run, question
    and the fields of a PastPosition. Parameters: account, voice, run (left out), market, now."""
    return (
        sqlalchemy.select(
            col(Forecast.run_id),
            col(Question.id),
            col(Question.text),
            col(Forecast.probability),
            col(Forecast.baseline),
            col(Forecast.market_at),
            col(Question.outcome),
            known_column(),
        )
        .join(Question, col(Question.id) == col(Forecast.question_id))
        .join(Run, col(Run.id) == col(Forecast.run_id))
        .where(
            col(Forecast.account) == bindparam("account"),
            col(Forecast.voice) == bindparam("voice"),
            col(Forecast.run_id) != bindparam("run"),
            col(Run.market) == bindparam("market"),
            col(Forecast.market_at) <= bindparam("now"),
        )
        .order_by(col(Forecast.market_at).desc(), col(Forecast.round), col(Forecast.id))
        .limit(_LAST)
    )


def correlation_of(forecasts: Sequence[ScoredForecast]) -> float | None:
    """Return the mean correlation of the voices' errors over the questions that all of them forecast; None while these
    are few."""
    errors: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for one in last_positions(forecasts):
        errors[one.run, one.question][one.source] = one.probability - one.outcome
    voices = sorted({one.source for one in forecasts})
    together = [found for found in errors.values() if found.keys() == set(voices)]
    if len(together) < _LEAST_TOGETHER:
        return None
    return error_correlation(np.array([[found[voice] for found in together] for voice in voices]))


def revision_gains(forecasts: Sequence[ScoredForecast]) -> list[float]:
    """Return the fall of the Brier score of the voices' mean from round 1 to round 2, of each resolved question of an
    episode with both, oldest first."""
    rounds: dict[tuple[str, str], dict[int, list[ScoredForecast]]] = defaultdict(lambda: defaultdict(list))
    for one in sorted(forecasts, key=lambda one: one.at):
        rounds[one.run, one.question][one.round].append(one)
    return [_points(found[BLIND]) - _points(found[INFORMED]) for found in rounds.values() if len(found) == len(ROUNDS)]


def _points(forecasts: Sequence[ScoredForecast]) -> float:
    return brier(min(fmean(one.probability for one in forecasts), 1.0), forecasts[0].outcome)
