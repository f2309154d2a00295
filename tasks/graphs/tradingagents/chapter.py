"""A chapter of TradingAgents on one ticker: its graph with the run's data, and at its end the report of its role."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog
from sqlmodel import Session, col, select

from chordesk.agents.graphs.langchain.ephemeral_turns import ChatError
from chordesk.agents.graphs.tradingagents.data import DeskData
from chordesk.agents.graphs.tradingagents.project import ANALYSTS, ROLE, require_playable, signal_of
from chordesk.agents.graphs.tradingagents.provider import TickerGraph, answering, graph_of
from chordesk.agents.role_models import graph_model
from chordesk.models.answers import GraphReflection, GraphSignal, ReportStatus
from chordesk.models.errors import DeskError
from chordesk.models.tables.runs import Report, Run, ToolCall, Turn
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine.leases import HeldStep
from chordesk.tasks.engine.steps import ClaimedStep
from chordesk.tasks.graphs.chapters import Chapter
from chordesk.tasks.graphs.tradingagents.ticker_opening import DEPTH
from chordesk.tasks.worker.endings import Done, Ending
from chordesk.tasks.workflows.holding_reviews import look_at, review_writer
from chordesk.tools.market.clock import day_of
from chordesk.tools.market.prices import no_current_price
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.market.universe import named_universe
from chordesk.tools.questions.asking import report_question
from chordesk.tools.questions.medians import closes_of, members_on, span_of

# What TradingAgents knows of its earlier signals on the desk: its memory is the desk's reports, and outcomes are the
# run's market's. Nothing of later than the run's day is seen.

SESSIONS = 5  # after which an outcome is looked at, as TradingAgents does
SAME, OTHERS = 5, 3  # signals on the ticker, lessons of others: as TradingAgents repeats them
MOST_REFLECTIONS = 3  # of one run: each is a call of the model
_LOOKED_AT = 200
_BARS = 400


@dataclass(frozen=True, slots=True)
class EarlierSignal:
    """A signal of an earlier run on the same account and market."""

    report_id: str
    symbol: str
    day: dt.date
    rating: str
    decision: str


@dataclass(frozen=True, slots=True)
class SignalHistory:
    """Signals, the newest first, and their reviews by report."""

    signals: Sequence[EarlierSignal]
    reflections: Mapping[str, GraphReflection]

    def open(self, symbol: str) -> list[EarlierSignal]:
        return [one for one in reversed(self.signals) if one.symbol == symbol and one.report_id not in self.reflections]

    def with_reflections(self, found: Mapping[str, GraphReflection]) -> SignalHistory:
        return SignalHistory(self.signals, {**self.reflections, **found})

    def text(self, symbol: str) -> str:
        """Last signals on a symbol with outcomes, and lessons of others. Empty without an outcome."""
        known = [one for one in self.signals if one.report_id in self.reflections]
        same = [self._whole(one) for one in known if one.symbol == symbol][:SAME]
        others = [self._lesson(one) for one in known if one.symbol != symbol][:OTHERS]
        parts = [f"Past analyses of {symbol} (most recent first):", *same] if same else []
        return "\n\n".join([*parts, *(["Recent cross-ticker lessons:", *others] if others else [])])

    def _whole(self, one: EarlierSignal) -> str:
        return f"{self._tag(one)}\n\nDECISION:\n{one.decision}\n\nREFLECTION:\n{self.reflections[one.report_id].text}"

    def _lesson(self, one: EarlierSignal) -> str:
        return f"{self._tag(one)}\n{self.reflections[one.report_id].text}"

    def _tag(self, one: EarlierSignal) -> str:
        found = self.reflections[one.report_id]
        return f"[{one.day} | {one.symbol} | {one.rating} | {found.raw:+.1%} | {found.alpha:+.1%} | {found.sessions}d]"


def past_of(session: Session, account: str, market: str, now: dt.datetime) -> SignalHistory:
    query = (
        select(Report)
        .join(Run, col(Run.id) == col(Report.run_id))
        .where(
            Report.role == ROLE,
            Report.status == ReportStatus.COMPLETED,
            Run.account == account,
            Run.market == market,
            Report.market_at <= now,
        )
        .order_by(col(Report.market_at).desc(), col(Report.id).desc())
        .limit(_LOOKED_AT)
    )
    signals, reflections = list[EarlierSignal](), dict[str, GraphReflection]()
    for row in session.exec(query):
        answer: Mapping[str, Any] = row.answer or {}
        day = day_of(row.market_at, row.symbol)
        signals.append(EarlierSignal(row.id, row.symbol, day, str(answer.get("rating")), str(answer.get("decision"))))
        for given in answer.get("reflections") or ():
            found = GraphReflection.model_validate(given)
            reflections.setdefault(found.report_id, found)
    return SignalHistory(signals, reflections)


@dataclass(frozen=True, slots=True)
class SignalOutcome:
    """The return of a symbol over the sessions after its signal, and that above the benchmark; fractions."""

    raw: float
    alpha: float
    sessions: int
    benchmark: str


def outcome_of(market: MarketData, symbol: str, day: dt.date, sessions: int = SESSIONS) -> SignalOutcome | None:
    """None while it is not known, or without a benchmark: the median of the market's universe."""
    days = [one for one in market.sessions(_BARS) if one >= day]
    if len(days) <= sessions:
        return None
    first, last = days[0], days[sessions]
    try:
        universe = named_universe(market)
        span = span_of(market, members_on(universe, market, first), first, last) if universe is not None else None
        own = closes_of(market, symbol, first, last)
    except DeskError:
        return None
    if span is None or not span.is_enough or span.median is None or isinstance(own, str) or own.change is None:
        return None
    return SignalOutcome(own.change, own.change - span.median, sessions, f"the median of {universe}")


if TYPE_CHECKING:
    from collections.abc import Callable

    from langgraph.pregel import Pregel

log = structlog.get_logger(__name__)
NO_RATING = "the final decision names no rating"
NO_DATA = "no tool of the graph had any data"


class TickerChapter(Chapter):
    """One attempt at a chapter of a ticker's graph."""

    def __init__(self, desk: Desk, step: ClaimedStep, held: HeldStep) -> None:
        super().__init__(desk, step, held)
        self._context = desk.tool_context(step.run_id)
        self._data = DeskData(self._context)
        self._ticker: TickerGraph | None = None
        kept = step.payload.get("reflections", ())
        self._reflections = [GraphReflection.model_validate(one) for one in kept]

    def play(self) -> Ending:
        if (why := no_current_price(self._context.market, self._thread)) is not None:
            return Done({"status": ReportStatus.NO_DATA, **self._place, "reason": why}, error=why)
        with ExitStack() as stack:
            stack.enter_context(answering(self._data))
            return super().play()

    @property
    def _analysts(self) -> Sequence[str]:
        found: Sequence[str] = self._step.payload.get("analysts", ANALYSTS)
        return found

    def _graph(self) -> Pregel[Any, Any, Any, Any]:
        settings = self._desk.settings_of(self._step.run_id)
        require_playable(settings)
        depth, model = self._step.payload.get("depth", DEPTH), graph_model(settings, ROLE).model
        self._ticker = graph_of(self._thread, self._desk.settings, model, self._analysts, depth)
        compiled: Pregel[Any, Any, Any, Any] = self._ticker.compiled
        return compiled

    def _given(self) -> Any:
        assert self._ticker is not None, "the graph is made before its input"
        with self._desk.store.read() as session:
            past = past_of(session, self._context.account, self._context.market.name, self._context.clock.now())
        for signal in past.open(self._thread)[-MOST_REFLECTIONS:]:
            if (found := self._reflection(self._ticker, signal)) is not None:
                self._reflections.append(found)
        made = {one.report_id: one for one in self._reflections}
        return self._ticker.begin(str(self._data.today), past.with_reflections(made).text(self._thread))

    def _reflection(self, ticker: TickerGraph, signal: EarlierSignal) -> GraphReflection | None:
        outcome = outcome_of(self._context.market, signal.symbol, signal.day)
        if outcome is None:
            return None
        try:
            text = ticker.reflect(signal.decision, outcome.raw, outcome.alpha, outcome.benchmark)
        except ChatError as error:
            self._bridge.require_going()
            log.warning("tradingagents.no_reflection", report=signal.report_id, error=str(error))
            return None
        return GraphReflection(
            report_id=signal.report_id,
            symbol=signal.symbol,
            day=signal.day,
            rating=signal.rating,
            raw=outcome.raw,
            alpha=outcome.alpha,
            sessions=outcome.sessions,
            benchmark=outcome.benchmark,
            text=text,
        )

    def _next(self) -> Ending:
        if self._reflections:
            kept = [one.model_dump(mode="json", by_alias=True) for one in self._reflections]
            self._step.payload["reflections"] = kept
        return super()._next()

    def _done(self, values: Any) -> Done:
        signal = signal_of(values, self._reflections)
        turns, calls = self._record.rows()
        with self._desk.store.read() as session:
            turn = turns[-1] if turns else session.get_one(Turn, str(self._record.last))
            has_data = self._has_data(session, calls)
        status, reason = ReportStatus.COMPLETED, None
        if signal is None:
            status, reason = ReportStatus.FAILED, NO_RATING
        elif not has_data:
            status, reason = ReportStatus.NO_DATA, NO_DATA
        report = self._report(signal, status, reason, turn)
        found = {"status": status, "verdict": report.verdict, "reason": reason, **self._place}
        output = report.answer or {"decision": str(values.get("final_trade_decision"))}
        error = reason if status is ReportStatus.FAILED else None
        return Done({**found, "output": output}, (turns, calls, [report]), error=error, also=self._also(report, status))

    def _has_data(self, session: Session, calls: Sequence[ToolCall]) -> bool:
        """Return whether the graph had a datum of the market. Its sentiment analyst is given headlines by no tool."""
        own = (Turn.run_id == self._step.run_id, Turn.subject == self._thread, ToolCall.has_data)
        kept = select(ToolCall.id).join(Turn).where(*own).limit(1)
        if any(call.has_data for call in calls) or session.exec(kept).first() is not None:
            return True
        return "social" in self._analysts and self._data.has_news(self._thread)

    def _report(self, signal: GraphSignal | None, status: ReportStatus, reason: str | None, turn: Turn) -> Report:
        counted = signal if status is ReportStatus.COMPLETED else None
        return Report(
            run_id=self._step.run_id,
            step_id=self._step.id,
            candidate_id=self._step.payload["candidate_id"],
            turn_id=turn.id,
            symbol=self._thread,
            role=ROLE,
            status=status,
            verdict=counted.verdict if counted else None,
            confidence=counted.confidence if counted else None,
            summary=signal.summary if signal else "",
            key_risks=counted.key_risks if counted else [],
            answer=signal.model_dump(mode="json", by_alias=True) if signal else None,
            answer_schema=GraphSignal.__name__ if signal else None,
            grounding=None,
            reason=reason,
            author=turn.model,
            market_at=self._context.clock.now(),
        )

    def _also(self, report: Report, status: ReportStatus) -> Callable[[Session], None]:
        writers: list[Callable[[Session], object] | None] = [self._saver.forget]
        if status is ReportStatus.COMPLETED:
            settings = self._desk.settings_of(self._step.run_id)
            writers.append(report_question(self._context.market, settings, self._thread))
        look = look_at(self._desk, self._context, self._thread)
        writers.append(review_writer(self._context, self._step, report, look))

        def write(session: Session) -> None:
            for one in writers:
                if one is not None:
                    one(session)

        return write
