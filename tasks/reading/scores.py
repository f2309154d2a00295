"""The scores of everything that forecast or judged a resolved question, as the command and the service show them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Self, get_args

import sqlalchemy
from sqlalchemy import func
from sqlmodel import Session, col, select

from chordesk.models.answers import Frozen
from chordesk.models.database.store import Store
from chordesk.models.errors import NotFound
from chordesk.models.groups import by_key
from chordesk.models.questions import QuestionState
from chordesk.models.states import RUN_FINAL, RunState
from chordesk.models.tables.board import (
    EpisodeQuestion,
    EventPosition,
    Forecast,
    KarmaEntry,
    Question,
    ScoreMark,
    Signal,
    ThesisQuestion,
    VerdictQuestion,
)
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Report, Run, ScreenHit, Verdict, lens_title
from chordesk.tools.market.clock import day_of
from chordesk.tools.scoring.inference import Estimate, told_apart
from chordesk.tools.scoring.statistics import CalibrationRow, Score, ScoredForecast, score
from chordesk.tools.scoring.track_records import (
    LEARNED,
    PUBLISHED,
    aggregates,
    lens_judgements,
    role_judgements,
    tool_forecasts,
    verdict_judgements,
    voice_forecasts,
    walked,
)
from chordesk.tools.scoring.verdict_calibration import (
    CutoffSide,
    crossed_share,
    cutoffs_of,
    grouped,
    side_of,
    thesis_forecasts,
)
from chordesk.tools.scoring.voice_scores import crowd, last_positions, revision_gain

ScoreKind = Literal["voice", "tool", "lens", "role", "rating", "thesis"]
KINDS: tuple[ScoreKind, ...] = get_args(ScoreKind)
_JUDGEMENTS: Mapping[ScoreKind, Callable[[Session, str, dt.datetime | None], list[ScoredForecast]]] = {
    "lens": lens_judgements,
    "role": role_judgements,
    "rating": verdict_judgements,
}


class PartRow(Frozen):
    """The scores of a part of the forecasts: one round, a label such as BUY high, or one side of the models'
    cutoffs. rate: the share of its questions that came true."""

    name: str
    brier: Estimate
    log: Estimate
    alpha: Estimate
    rate: Estimate

    @classmethod
    def named(cls, name: str, found: Score, **more: Any) -> Self:
        return cls(name=name, brier=found.brier, log=found.log, alpha=found.alpha, rate=found.rate, **more)


class ScoreRow(PartRow):
    """The scores of one source. sides: of its models' cutoffs. rounds, revision and karma: of a voice alone; revision:
    fall of its Brier score from round 1 to 2. labels: of judgements without a probability of their own, which are
    scored by their label's record up to each day. unrecorded: judgements before their label had a record; they are
    worth the baseline. told: whether its alpha is told from 0 among all sources of its kind. crossed: share of theses
    whose invalidation was reached before their horizon."""

    kind: ScoreKind
    forecasts: int
    sides: list[PartRow]
    calibration: list[CalibrationRow]
    rounds: list[PartRow] = []
    revision: Estimate | None = None
    karma: float | None = None
    labels: list[PartRow] = []
    unrecorded: int = 0
    told: bool = False
    crossed: Estimate | None = None


class CrowdRow(Frozen):
    """The aggregate of all voices, blind and with all positions in view, on the same questions."""

    rounds: list[PartRow]
    gain: Estimate
    better_round: int


class ScoreBoard(Frozen):
    """All scores of an account. questions: those that it forecast or judged, by state; elsewhere: resolved ones of the
    desk that it did not, as of backtests. since: only questions that closed from then on are scored; null where all
    are. lacking: why there is no row, null where there is one."""

    account: str
    since: dt.datetime | None = None
    questions: dict[str, int]
    elsewhere: int = 0
    lacking: str | None = None
    rows: list[ScoreRow]
    crowd: CrowdRow | None
    published: PartRow | None


def kept_scores(
    store: Store,
    account: str,
    cutoffs: str,
    kind: ScoreKind | None = None,
    name: str | None = None,
    *,
    ever: bool = False,
) -> ScoreBoard:
    """Return `scores` as they were kept, where nothing that they rest on has changed since; else keep them anew. Those
    of all questions ever are never kept."""
    with store.read() as session:
        if ever:
            return scores(session, account, cutoffs, kind, name, ever=True)
        kept = session.get(ScoreMark, account)
        since = kept.since if kept is not None else utcnow() - _LONG_AGO
        rests_on = _rests_on(session, account, cutoffs, since)
        if kept is not None and kept.rests_on == rests_on:
            return _part(session, ScoreBoard.model_validate(kept.board), kind, name)
        since = utcnow() - _LONG_AGO
        rests_on = _rests_on(session, account, cutoffs, since)
        whole = _whole(session, account, cutoffs, _first(session, account))
        found = _part(session, whole, kind, name)
    if rests_on is not None:
        mark = ScoreMark(account=account, since=since, rests_on=rests_on, board=whole.model_dump(mode="json"))
        with store.session() as session:
            session.merge(mark)
    return found


def scores(
    session: Session,
    account: str,
    cutoffs: str,
    kind: ScoreKind | None = None,
    name: str | None = None,
    *,
    ever: bool = False,
) -> ScoreBoard:
    """Return the scores of an account, of one kind or of one source alone where they are given. cutoffs: the setting.
    ever: of all its questions, not of a year's. Raises NotFound for a name that has forecast or judged nothing."""
    return _part(session, _whole(session, account, cutoffs, None if ever else _first(session, account)), kind, name)


def _first(session: Session, account: str) -> dt.datetime | None:
    """Return the market time from which a question must have closed to be scored: a year before the account's newest
    run, from the beginning of that month, so that scores which were kept hold for longer than a day."""
    newest = select(Run.market_now).where(Run.account == account).order_by(col(Run.created_at).desc()).limit(1)
    found = session.exec(newest).first()
    return found and (found - LEARNED).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


_FIGURES = 4  # another with each change of a formula that they come from
_LONG_AGO = dt.timedelta(days=1)  # real time after which the row of a run has long been committed


def _rests_on(session: Session, account: str, cutoffs: str, since: dt.datetime) -> dict[str, Any] | None:
    """Return what tells whether scores are still those that they were: the questions that have ended, and the runs made
    since a real time that may have judged one of them; None while such a run is open. A run after the market time from
    which the last outcome was known has judged none of them."""
    resolved, closes = func.max(Question.resolved_at), func.max(Question.closes_at)
    closed = select(closes).where(col(Question.state) == QuestionState.RESOLVED)
    last = session.exec(select(resolved)).one(), session.exec(closed).one()
    runs: list[str] = []
    if (known := min(filter(None, last), default=None)) is not None:
        judged = select(Run.id, Run.state).where(col(Run.account) == account, col(Run.market_now) < known)
        is_open = col(Run.state).in_(set(RunState) - RUN_FINAL)
        made = col(Run.created_at) >= since
        found = [*session.exec(judged.where(is_open)), *session.exec(judged.where(made))]
        if any(state not in RUN_FINAL for _, state in found):
            return None
        runs = sorted(run for run, _ in found)
    times = [moment.isoformat() if moment else None for moment in (*last, _first(session, account))]
    return {"figures": _FIGURES, "cutoffs": cutoffs, "questions": _states(session), "times": times, "runs": runs}


def _states(session: Session) -> dict[str, int]:
    states = session.exec(select(Question.state, func.count()).group_by(Question.state).order_by(Question.state))
    return dict(states.all())


def _whole(session: Session, account: str, cutoffs: str, since: dt.datetime | None) -> ScoreBoard:
    days, whole = cutoffs_of(cutoffs), aggregates(session, account, since=since)
    rows = _voice_rows(voice_forecasts(session, account, since=since), days)
    rows += [row for one in KINDS for row in _rows(session, account, one, days, since)]
    told = {one: told_apart({row.name: row.alpha for row in rows if row.kind == one}) for one in KINDS}
    published = score([one for one in whole if one.label == PUBLISHED])
    return ScoreBoard(
        account=account,
        since=since,
        questions={},
        rows=[row.model_copy(update={"told": row.name in told[row.kind]}) for row in rows],
        crowd=_crowd(whole),
        published=PartRow.named(PUBLISHED, published) if published else None,
    )


def _own_states(session: Session, account: str) -> dict[str, int]:
    """Return how many questions the account has forecast or judged, by state."""
    of_verdicts = sqlalchemy.select(col(VerdictQuestion.question_id)).join(
        Verdict, col(Verdict.id) == col(VerdictQuestion.verdict_id)
    )
    of_theses = sqlalchemy.select(col(ThesisQuestion.question_id)).join(
        Report, col(Report.id) == col(ThesisQuestion.report_id)
    )
    asked = sqlalchemy.union(
        sqlalchemy.select(col(Forecast.question_id)).where(col(Forecast.account) == account),
        sqlalchemy.select(col(EpisodeQuestion.question_id))
        .join(Run, col(Run.id) == col(EpisodeQuestion.run_id))
        .where(col(Run.account) == account),
        of_verdicts.join(Run, col(Run.id) == col(Verdict.run_id)).where(col(Run.account) == account),
        of_theses.join(Run, col(Run.id) == col(Report.run_id)).where(col(Run.account) == account),
    )
    states = select(Question.state, func.count()).where(col(Question.id).in_(asked))
    return dict(session.exec(states.group_by(Question.state).order_by(Question.state)).all())


def _lacking(whole: ScoreBoard, own: Mapping[str, int], elsewhere: int) -> str | None:
    """Return why nothing of the account is scored."""
    if whole.rows:
        return None
    resolved, open_ = own.get(QuestionState.RESOLVED, 0), own.get(QuestionState.OPEN, 0)
    others = f"; {elsewhere:,} resolved questions of the desk are not its own" if elsewhere else ""
    if not own:
        return f"account {whole.account} has forecast or judged no question yet{others}"
    if not resolved:
        return f"none of its {sum(own.values()):,} questions has an outcome, {open_:,} still open{others}"
    if whole.since is not None:
        since = f"{whole.since:%Y-%m-%d}"
        return f"its {resolved:,} resolved questions closed before {since}, or nothing that it said of them is scored"
    return f"nothing that it said of its {resolved:,} resolved questions is scored: no probability, no rated verdict"


def _part(session: Session, whole: ScoreBoard, kind: ScoreKind | None, name: str | None) -> ScoreBoard:
    if kind is not None and name is not None:
        _require_known(session, whole, kind, name)
    own = _own_states(session, whole.account)
    elsewhere = _states(session).get(QuestionState.RESOLVED, 0) - own.get(QuestionState.RESOLVED, 0)
    karma, pooled = _karma(session, whole.account), name is None and kind in (None, "voice")
    return ScoreBoard(
        account=whole.account,
        since=whole.since,
        questions=own,
        elsewhere=elsewhere,
        lacking=_lacking(whole, own, elsewhere),
        rows=[
            row.model_copy(update={"karma": karma.get(row.name)}) if row.kind == "voice" else row
            for row in whole.rows
            if kind in (None, row.kind) and name in (None, row.name)
        ],
        crowd=whole.crowd if pooled else None,
        published=whole.published if pooled else None,
    )


def _rows(
    session: Session, account: str, kind: ScoreKind, cutoffs: Mapping[str, dt.date], since: dt.datetime | None
) -> Iterable[ScoreRow]:
    if kind == "tool":
        for tool, forecasts in _by_source(tool_forecasts(session, account, since)):
            yield _row(kind, tool, forecasts, cutoffs)
    elif kind == "thesis":
        for group, forecasts in sorted(grouped(session, thesis_forecasts(session, account, since=since)).items()):
            yield _row(kind, group, forecasts, cutoffs).model_copy(update={"crossed": crossed_share(forecasts)})
    elif kind != "voice":
        for source, forecasts in _by_source(walked(_JUDGEMENTS[kind](session, account, since))):
            unrecorded = sum(one.alike for one in forecasts if one.evidence == 0)
            more = {"labels": _labels(forecasts), "unrecorded": unrecorded}
            yield _row(kind, source, forecasts, cutoffs).model_copy(update=more)


def _voice_rows(forecasts: Iterable[ScoredForecast], cutoffs: Mapping[str, dt.date]) -> list[ScoreRow]:
    rows = []
    for voice, own in _by_source(forecasts):
        gain = revision_gain(own)
        rounds = {f"round {number}": [one for one in own if one.round == number] for number in (1, 2)}
        more = {"rounds": _parts(rounds), "revision": gain}
        rows.append(_row("voice", voice, last_positions(own), cutoffs).model_copy(update=more))
    return rows


def _row(kind: ScoreKind, name: str, forecasts: Sequence[ScoredForecast], cutoffs: Mapping[str, dt.date]) -> ScoreRow:
    sides: dict[str, list[ScoredForecast]] = {side: [] for side in CutoffSide}
    for one in forecasts:
        sides[side_of(one.author, day_of(one.at, one.name), cutoffs)].append(one)
    found = score(forecasts)
    assert found is not None, "a source in the record has a forecast"
    more = {"sides": _parts(sides), "calibration": found.calibration}
    return ScoreRow.named(name, found, kind=kind, forecasts=found.forecasts, **more)


def _parts(parts: Mapping[str, Sequence[ScoredForecast]]) -> list[PartRow]:
    scored = {name: score(forecasts) for name, forecasts in parts.items()}
    return [PartRow.named(name, found) for name, found in scored.items() if found is not None]


def _labels(forecasts: Iterable[ScoredForecast]) -> list[PartRow]:
    return _parts(dict(sorted(by_key((one.label, one) for one in forecasts).items())))


def _crowd(whole: Sequence[ScoredForecast]) -> CrowdRow | None:
    found = crowd(whole)
    if found is None:
        return None
    rounds = [PartRow.named("round 1", found.blind), PartRow.named("round 2", found.informed)]
    return CrowdRow(rounds=rounds, gain=found.gain, better_round=found.better_round)


def _by_source(forecasts: Iterable[ScoredForecast]) -> list[tuple[str, list[ScoredForecast]]]:
    return sorted(by_key((one.source, one) for one in forecasts).items())


def _karma(session: Session, account: str) -> dict[str, float]:
    sums = select(KarmaEntry.voice, func.sum(KarmaEntry.amount)).where(KarmaEntry.account == account)
    return {voice: float(amount) for voice, amount in session.exec(sums.group_by(KarmaEntry.voice))}


def _require_known(session: Session, whole: ScoreBoard, kind: ScoreKind, name: str) -> None:
    account = whole.account
    if kind == "thesis":
        known = sorted(row.name for row in whole.rows if row.kind == kind)
        if name not in known:
            remedy = f"known are {', '.join(known)}" if known else "no thesis has its outcome yet"
            raise NotFound(f"the account {account} has no theses of {name!r}", remedy=remedy)
        return
    column, run_id = {
        "voice": (Forecast.voice, Forecast.run_id),
        "tool": (Signal.tool, Signal.run_id),
        "lens": (lens_title(), ScreenHit.run_id),
        "role": (Report.role, Report.run_id),
        "rating": (Verdict.rating, Verdict.run_id),
    }[kind]
    asked: Any = column  # of lenses an expression, with the version
    names = sqlalchemy.select(asked).join(Run, col(Run.id) == col(run_id)).where(col(Run.account) == account)
    known = sorted(session.execute(names.distinct()).scalars())
    if name not in known:
        remedy = f"known are {', '.join(known)}" if known else "nothing of the kind has judged anything yet"
        raise NotFound(f"the account {account} has no {kind} {name!r}", remedy=remedy)


class QuestionDetail(Frozen):
    """A question with what it scores."""

    question: Question
    verdicts: list[Verdict]
    forecasts: list[Forecast]  # by time
    positions: list[EventPosition]


def question_detail(session: Session, question: Question) -> QuestionDetail:
    verdicts = (
        select(Verdict)
        .join(VerdictQuestion, col(VerdictQuestion.verdict_id) == col(Verdict.id))
        .where(VerdictQuestion.question_id == question.id)
        .order_by(col(Verdict.created_at), col(Verdict.id))
    )
    order = (col(Forecast.market_at), col(Forecast.run_id), col(Forecast.round), col(Forecast.voice))
    forecasts = select(Forecast).where(Forecast.question_id == question.id).order_by(*order)
    positions = select(EventPosition).where(EventPosition.question_id == question.id)
    return QuestionDetail(
        question=question,
        verdicts=list(session.exec(verdicts)),
        forecasts=list(session.exec(forecasts)),
        positions=list(session.exec(positions.order_by(col(EventPosition.opened_at)))),
    )
