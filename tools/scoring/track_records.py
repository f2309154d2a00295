"""Track records of voices, lenses, validator roles, verdicts and tools, and what each voice may spend by its own."""

from __future__ import annotations

import datetime as dt
import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, get_args

import sqlalchemy
from sqlmodel import Session, col, select

from chordesk.models.analysis import Depth
from chordesk.models.answers import ReportStatus
from chordesk.models.exchanges import exchange_code
from chordesk.models.questions import ROUNDS, QuestionState, SignalState, implied
from chordesk.models.settings import Settings
from chordesk.models.tables.board import (
    Episode,
    EpisodeQuestion,
    Forecast,
    Question,
    Signal,
    SignalFinding,
    VerdictQuestion,
)
from chordesk.models.tables.runs import Report, Run, ScreenHit, Turn, Verdict, lens_title
from chordesk.tools.market.clock import day_of, exchange_day
from chordesk.tools.questions.asking import RELATIVE
from chordesk.tools.questions.stored_questions import known_column
from chordesk.tools.scoring.inference import TOO_FEW, Observation, estimate
from chordesk.tools.scoring.statistics import CODE, ScoredForecast, alpha, mean_of
from chordesk.tools.scoring.voice_scores import VoiceRecord, compute_shares, extinct, last_positions, plan_turns

# Of questions that closed before that nothing is learned: an episode in the tenth year reads as much as in the second.
LEARNED = dt.timedelta(days=365)


def voice_forecasts(
    session: Session,
    account: str,
    until: dt.datetime | None = None,
    voice: str | None = None,
    since: dt.datetime | None = None,
) -> list[ScoredForecast]:
    """Return an account's forecasts of resolved questions, by time; source is the voice. until: market time; a question
    whose outcome was known later is left out, so that a replay of an earlier day never draws on it. voice: of this
    one alone. since: of questions that closed from then on."""
    own = [] if voice is None else [col(Forecast.voice) == voice]
    query = (
        sqlalchemy.select(
            col(Forecast.voice),
            col(Forecast.question_id),
            col(Forecast.market_at),
            known_column(),
            col(Forecast.probability),
            col(Forecast.baseline),
            col(Question.outcome),
            col(Forecast.author),
            col(Forecast.run_id),
            col(Forecast.round),
            col(Question.subjects),
        )
        .join(Question, col(Question.id) == col(Forecast.question_id))
        .where(col(Forecast.account) == account, *own, *resolved(until, since))
        .order_by(col(Forecast.market_at), col(Forecast.round), col(Forecast.id))
    )
    return [
        ScoredForecast(*row[:-1], name=row.subjects[0] if row.subjects else "")  # type: ignore[misc]
        for row in session.execute(query)
    ]


def resolved(
    until: dt.datetime | None = None, since: dt.datetime | None = None
) -> tuple[sqlalchemy.ColumnElement[bool], ...]:
    """Return the conditions of a question that has its outcome; with `until`, market time, known by then and closed
    within the year before; with `since`, closed from then on."""
    conditions = (col(Question.state) == QuestionState.RESOLVED, col(Question.outcome).is_not(None))
    if until is not None:
        return (*conditions, known_column() <= until, col(Question.closes_at) >= until - LEARNED)
    return conditions if since is None else (*conditions, col(Question.closes_at) >= since)


def voice_records(forecasts: Iterable[ScoredForecast], voices: Iterable[str]) -> list[VoiceRecord]:
    own: dict[str, list[ScoredForecast]] = defaultdict(list)
    for one in last_positions(forecasts):
        own[one.source].append(one)
    return [
        VoiceRecord(voice, mean_of(own[voice], lambda one: alpha(one.probability, one.baseline, one.outcome)))
        for voice in voices
    ]


# Probabilities of judgements that state none, such as a lens's hit or a BUY: from their own record up to that day.
#
# Each is scored by what its label turned out to be worth before: h hits of n, drawn to the baseline q by PRIOR imagined
# questions, (h + PRIOR q) / (n + PRIOR). Nothing later than the judgement enters, so the score is out of sample, and a
# label without a record is worth the baseline and earns nothing.

PRIOR = 30.0


def walked(judgements: Iterable[ScoredForecast]) -> list[ScoredForecast]:
    """Return the judgements as forecasts by the record of their source and label before them, in the order of time; as
    one with its count where those of a day are alike, as a busy desk's are by the hundred."""
    records: dict[tuple[str, str], _Record] = defaultdict(_Record)
    found: dict[tuple[Any, ...], ScoredForecast] = {}
    alike: dict[tuple[Any, ...], int] = defaultdict(int)
    days: dict[tuple[dt.datetime, str], dt.date] = {}
    for place, one in enumerate(sorted(judgements, key=lambda one: one.at)):
        record = records[one.source, one.label]
        record.come_to(one.at)
        there = one.at, exchange_code(one.name)
        if there not in days:
            days[there] = exchange_day(one.at, there[1])
        key = (one.source, one.label, one.question, one.author, days[there], record.n)
        if key not in found:
            found[key] = replace(one, probability=record.worth(one.baseline), evidence=record.n)
        alike[key] += 1
        record.judge(place, one)
    return [one if alike[key] == 1 else replace(one, alike=alike[key]) for key, one in found.items()]


@dataclass(slots=True)
class _Record:
    """The questions that a source has judged alike and whose outcomes are known, each once. waiting: those whose
    outcomes are not, by the time from which they are."""

    hits: float = 0.0
    n: int = 0
    seen: set[str] = field(default_factory=set)
    waiting: list[tuple[dt.datetime, int, float]] = field(default_factory=list)

    def come_to(self, moment: dt.datetime) -> None:
        while self.waiting and self.waiting[0][0] <= moment:
            self.hits += heapq.heappop(self.waiting)[2]
            self.n += 1

    def judge(self, place: int, one: ScoredForecast) -> None:
        if one.question not in self.seen:
            self.seen.add(one.question)
            heapq.heappush(self.waiting, (one.known, place, one.outcome))

    def worth(self, baseline: float) -> float:
        return min(1.0, (self.hits + PRIOR * baseline) / (self.n + PRIOR))


class _Asked(NamedTuple):
    """Resolved questions of the desk: by run and symbol where a verdict names one, else by market, symbol and day."""

    by_verdict: Mapping[tuple[str, str], Question]
    by_day: Mapping[tuple[str, str, dt.date], Question]

    def all(self) -> Iterable[Question]:
        return (*self.by_verdict.values(), *self.by_day.values())

    def of(self, run: str, symbol: str, market: str, day: dt.date) -> Question | None:
        return self.by_verdict.get((run, symbol)) or self.by_day.get((market, symbol, day))


def lens_judgements(session: Session, account: str, since: dt.datetime | None = None) -> list[ScoredForecast]:
    """Return an account's screen hits on symbols with a resolved question; source is the lens, label its confidence.
    since: as in `voice_forecasts`."""
    query = (
        sqlalchemy.select(lens_title(), col(ScreenHit.confidence), col(ScreenHit.symbol), col(Turn.model), col(Run.id))
        .join(Run, col(Run.id) == col(ScreenHit.run_id))
        .join(Turn, col(Turn.id) == col(ScreenHit.turn_id))
        .where(col(Run.account) == account)
        .order_by(col(Run.market_now), col(ScreenHit.id))
    )
    return _judgements(session, account, since, query)


def role_judgements(session: Session, account: str, since: dt.datetime | None = None) -> list[ScoredForecast]:
    """Return an account's completed reports alike; source is the role, label its stance and confidence."""
    label = col(Report.verdict) + " " + col(Report.confidence)
    query = (
        sqlalchemy.select(col(Report.role), label, col(Report.symbol), col(Report.author), col(Run.id))
        .join(Run, col(Run.id) == col(Report.run_id))
        .where(
            col(Run.account) == account,
            col(Report.status) == ReportStatus.COMPLETED,
            col(Report.verdict).is_not(None),
            col(Report.confidence).is_not(None),
        )
        .order_by(col(Run.market_now), col(Report.id))
    )
    return _judgements(session, account, since, query)


def verdict_judgements(session: Session, account: str, since: dt.datetime | None = None) -> list[ScoredForecast]:
    """Return an account's verdicts alike; source is the rating, label rating and confidence, author the run's model."""
    label = col(Verdict.rating) + " " + col(Verdict.confidence)
    query = (
        sqlalchemy.select(col(Verdict.rating), label, col(Verdict.symbol), col(Run.model), col(Run.id))
        .join(Run, col(Run.id) == col(Verdict.run_id))
        .where(col(Run.account) == account)
        .order_by(col(Run.market_now), col(Verdict.id))
    )
    return _judgements(session, account, since, query)


def _judgements(
    session: Session, account: str, since: dt.datetime | None, query: sqlalchemy.Select[*tuple[Any, ...]]
) -> list[ScoredForecast]:
    asked = _asked(session, since)
    runs = sqlalchemy.select(col(Run.id), col(Run.market), col(Run.market_now)).where(col(Run.account) == account)
    if since is not None:  # who judged a question did so on the day that it was opened, or later
        first = min((one.opens_at for one in asked.all()), default=since)
        runs = runs.where(col(Run.market_now) >= first - dt.timedelta(days=1))
    times = {run: (market, at) for run, market, at in session.execute(runs)}
    if since is not None:
        query = query.where(col(Run.id).in_(times))
    found = []
    for source, label, symbol, author, run in session.execute(query):
        market, at = times[run]
        question = asked.of(run, symbol, market, day_of(at, symbol))
        if question is not None and question.baseline is not None and question.outcome is not None:
            known, worth = question.closes_at, (question.baseline, question.baseline, question.outcome)
            found.append(ScoredForecast(source, question.id, at, known, *worth, author, run, label=label, name=symbol))
    return found


def _asked(session: Session, since: dt.datetime | None) -> _Asked:
    verdicts = (
        sqlalchemy.select(col(Verdict.run_id), col(Verdict.symbol), Question)
        .join(VerdictQuestion, col(VerdictQuestion.verdict_id) == col(Verdict.id))
        .join(Question, col(Question.id) == col(VerdictQuestion.question_id))
        .where(*resolved(since=since))
    )
    rows = session.exec(
        select(Question).where(col(Question.source).in_(RELATIVE), *resolved(since=since)).order_by(Question.id)
    )
    by_day = {
        (question.market, question.rule["symbol"], dt.date.fromisoformat(question.rule["day"])): question
        for question in rows
        if question.rule.get("kind") == "beats_median"
    }
    by_verdict = {(run, symbol): question for run, symbol, question in session.execute(verdicts)}
    return _Asked(by_verdict, by_day)


PUBLISHED = "published"


def aggregates(
    session: Session, account: str, until: dt.datetime | None = None, since: dt.datetime | None = None
) -> list[ScoredForecast]:
    """Return what the voices of an account's episodes made of resolved questions together, by round and time; the label
    is `published` where the episode used the round. until, since: as in `voice_forecasts`."""
    used = select(Episode.run_id, Episode.used_round).where(Episode.account == account)
    rounds = dict(session.exec(used).all())
    found = [
        ScoredForecast(
            *("crowd", one.id, one.at, one.known, chance, one.baseline, one.outcome, CODE, run, number),
            label=PUBLISHED if number == rounds.get(run) else "",
            name=one.name,
        )
        for run, asked in _boards(session, account, until, since).items()
        for one in asked
        for number, chance in zip(ROUNDS, one.aggregates, strict=True)
        if chance is not None
    ]
    return sorted(found, key=lambda one: (one.round, one.at))


class _OnBoard(NamedTuple):
    """A resolved question on a run's board."""

    id: str
    names: frozenset[str]  # its label and its subjects
    name: str
    at: dt.datetime
    known: dt.datetime
    baseline: float
    outcome: float
    aggregates: tuple[float | None, float | None]  # by round


def tool_forecasts(session: Session, account: str, since: dt.datetime | None = None) -> list[ScoredForecast]:
    """Return what an account's signals implied for the questions of their boards, by time; source is the tool. A signal
    on no subject implies nothing for any one question. since: as in `voice_forecasts`."""
    return [
        ScoredForecast(
            row.tool, one.id, one.at, one.known, chance, one.baseline, one.outcome, CODE, row.run_id, name=one.name
        )
        for row, one in _on_questions(session, account, since=since)
        if (chance := implied(row, one.baseline)) is not None
    ]


def _on_questions(
    session: Session, account: str, until: dt.datetime | None = None, since: dt.datetime | None = None
) -> Iterable[tuple[Any, _OnBoard]]:
    """Yield an account's live signals, each with the resolved questions of its board that it names, by time."""
    boards = _boards(session, account, until, since)
    columns = (Signal.run_id, Signal.tool, Signal.subjects, Signal.direction, Signal.confidence, Signal.probability)
    query = (
        sqlalchemy.select(*(col(one) for one in columns), col(Signal.precision))
        .join(Run, col(Run.id) == col(Signal.run_id))
        .where(col(Run.account) == account, col(Signal.state) == SignalState.LIVE)
        .where(*([col(Run.id).in_(boards)] if until or since else []))
        .order_by(col(Run.market_now), col(Run.id), col(Signal.label))
    )
    for row in session.execute(query):
        yield from ((row, one) for one in boards.get(row.run_id, ()) if not one.names.isdisjoint(row.subjects))


MOST_PRECISION = 2.0


class Precision(NamedTuple):
    """By how much of what a tool states its directions shift a question, learned from so many resolved questions."""

    factor: float = 1.0
    resolved: int = 0


def precisions(session: Session, account: str, until: dt.datetime) -> dict[str, Precision]:
    """Return each tool's precision by its record known by `until`, market time; 1 while that is too little. The slope
    of outcome less baseline on the move that the tool stated, drawn to 1 as one with the error of 1 would be: from 0,
    which says nothing, to twice what is stated. It never turns a direction round."""
    moves: dict[str, dict[str, list[tuple[float, _OnBoard]]]] = defaultdict(lambda: defaultdict(list))
    for row, one in _on_questions(session, account, until):
        if row.probability is not None:
            continue
        stated = SignalFinding(headline="", source="", as_of=one.at, direction=row.direction, confidence=row.confidence)
        if (chance := implied(stated, one.baseline)) is not None and chance != one.baseline:
            moves[row.tool][one.id].append((chance - one.baseline, one))
    return {tool: _precision(groups) for tool, groups in moves.items()}


def _precision(moves: Mapping[str, Sequence[tuple[float, _OnBoard]]]) -> Precision:
    """moves: by question."""
    found = estimate(_slope(group) for group in moves.values())
    if found is None or found.lack == TOO_FEW:
        return Precision(resolved=len(moves))
    evidence = found.spans if found.error is None else 1 / found.error**2  # all alike: one try a span
    factor = (1 + evidence * found.mean) / (1 + evidence)
    return Precision(min(max(factor, 0.0), MOST_PRECISION), len(moves))


def _slope(group: Sequence[tuple[float, _OnBoard]]) -> Observation:
    """Return the slope of one question, however often a tool named it, weighed by its squared moves."""
    weight = math.fsum(move**2 for move, _ in group) / len(group)
    slope = math.fsum(move * (one.outcome - one.baseline) for move, one in group) / (weight * len(group))
    first, last = min(one.at for _, one in group), max(one.known for _, one in group)
    name = group[0][1].name
    days = day_of(first, name).toordinal(), day_of(last, name).toordinal()
    return Observation(slope, *days, name or group[0][1].id, weight)


def _boards(
    session: Session, account: str, until: dt.datetime | None, since: dt.datetime | None
) -> dict[str, list[_OnBoard]]:
    baseline = sqlalchemy.func.coalesce(col(EpisodeQuestion.baseline), col(Question.baseline))
    query = (
        sqlalchemy.select(
            col(Run.id),
            col(Question.id),
            col(EpisodeQuestion.label),
            col(Question.subjects),
            col(Run.market_now),
            known_column(),
            baseline,
            col(Question.outcome),
            col(EpisodeQuestion.blind),
            col(EpisodeQuestion.informed),
        )
        .join(EpisodeQuestion, col(EpisodeQuestion.run_id) == col(Run.id))
        .join(Question, col(Question.id) == col(EpisodeQuestion.question_id))
        .where(col(Run.account) == account, baseline.is_not(None), *resolved(until, since))
        .order_by(col(Run.id), col(EpisodeQuestion.label))
    )
    found: dict[str, list[_OnBoard]] = defaultdict(list)
    for run, question, label, subjects, at, known, base, outcome, *pools in session.execute(query):
        name, names = subjects[0] if subjects else "", frozenset({label, *subjects})
        found[run].append(_OnBoard(question, names, name, at, known, base, outcome, (pools[0], pools[1])))
    return found


_DEPTHS: tuple[Depth, ...] = get_args(Depth)


@dataclass(frozen=True, slots=True)
class VoicePlan:
    """What a voice may spend."""

    share: float  # of all compute, 0 to 1
    turns: int  # what the share is worth
    rounds: int  # from the first on
    depth: Depth  # of its turns
    tier: int | None = None  # place of its model in DESK_VOICE_MODELS, from 0, None where there are none


def voice_plans(
    session: Session,
    settings: Settings,
    account: str,
    voices: Sequence[str],
    *,
    rounds: int = 2,
    until: dt.datetime | None = None,
) -> dict[str, VoicePlan]:
    """Return the plan of each voice that takes part, in their order; an extinct one has none. until: market time of the
    episode; what closed later is unknown to it."""
    forecasts = voice_forecasts(session, account, until) if settings.voice_compute == "skill" else []
    return plan_voices(voice_records(forecasts, dict.fromkeys(voices)), settings, rounds)


def plan_voices(records: Sequence[VoiceRecord], settings: Settings, rounds: int) -> dict[str, VoicePlan]:
    voices = [record.voice for record in records]
    if settings.voice_compute == "skill":
        ending = extinct(records, voices)
        shares = compute_shares([record for record in records if record.voice not in ending])
    else:
        shares = compute_shares([VoiceRecord(voice) for voice in voices])
    turns = plan_turns(shares, list(shares), rounds)
    tiers = tiers_of(shares, sum(bool(part.strip()) for part in settings.voice_models.split(";")))
    return {
        voice: VoicePlan(
            share, turns[voice], min(rounds, turns[voice]), depth_of(turns[voice], rounds, settings), tiers[voice]
        )
        for voice, share in shares.items()
    }


def depth_of(turns: int, rounds: int, settings: Settings) -> Depth:
    """Return the settings' depth, or the next deeper one for a voice with more turns than rounds: it spends them so."""
    at = _DEPTHS.index(settings.depth) + (turns > rounds)
    return _DEPTHS[min(at, len(_DEPTHS) - 1)]


def tiers_of(shares: Mapping[str, float], tiers: int) -> dict[str, int | None]:
    """Return each voice's tier, the first for the largest shares, in parts as equal as they can be. Equal shares lie in
    one tier, that of the middle of their ranks, so without records all are in the middle one."""
    if tiers == 0:
        return dict.fromkeys(shares)
    ahead = {voice: sum(other > share + 1e-9 for other in shares.values()) for voice, share in shares.items()}
    level = {voice: sum(abs(other - share) <= 1e-9 for other in shares.values()) for voice, share in shares.items()}
    return {voice: (2 * ahead[voice] + level[voice] - 1) * tiers // (2 * len(shares)) for voice in shares}
