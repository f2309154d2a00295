"""A chapter of TradingAgents on one ticker: its graph with the run's data, and at its end the report of its role."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import structlog
from sqlmodel import Session, select

from chordesk.agents.langchain.errors import ChatError
from chordesk.agents.role_models import graph_model
from chordesk.agents.tradingagents.asking import ANALYSTS, ROLE, require_playable
from chordesk.agents.tradingagents.data import DeskData
from chordesk.agents.tradingagents.play import TickerGraph, graph_of
from chordesk.agents.tradingagents.signal import signal_of
from chordesk.agents.tradingagents.vendor import answering
from chordesk.models.database.store import new_row
from chordesk.models.research import GraphReflection, GraphSignal, ReportStatus
from chordesk.models.tables.runs import Report, ToolCall, Turn
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine.leases import HeldStep
from chordesk.tasks.engine.steps import ClaimedStep
from chordesk.tasks.worker.work import Done, Ending
from chordesk.tasks.workflows.graphs.play import Chapter
from chordesk.tasks.workflows.portfolio.due import DueReason, HoldingSnapshot
from chordesk.tasks.workflows.portfolio.schedule import LOOKED, RoleScheduleStore
from chordesk.tasks.workflows.tradingagents.opening import DEPTH
from chordesk.tasks.workflows.tradingagents.past import MOST_REFLECTIONS, EarlierSignal, outcome_of, past_of
from chordesk.tools.holdings import holdings, holds
from chordesk.tools.market.sessions import no_current_price
from chordesk.tools.questions.verdicts import report_question

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
        """Run the chapter and return its end. Raises LeaseLost, StepEnded, UsageError."""
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
        """Return what the model makes of the outcome of an earlier signal; None while that is not known, and where the
        model has no answer: the next run on the ticker asks again. Raises what ended the step's calls."""
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
        return new_row(
            Report,
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
        """Return the writer of what goes with the report: its question, and the review of a holding."""
        writers: list[Callable[[Session], object] | None] = [self._saver.forget]
        if status is ReportStatus.COMPLETED:
            settings = self._desk.settings_of(self._step.run_id)
            writers.append(report_question(self._context.market, settings, self._thread))
        if status in LOOKED:
            writers.append(self._review(report))

        def write(session: Session) -> None:
            for one in writers:
                if one is not None:
                    one(session)

        return write

    def _review(self, report: Report) -> Callable[[Session], None] | None:
        """Return the writer of a holding's review; None for what is not held."""
        context, symbol = self._context, self._thread
        with self._desk.store.read() as session:
            if not holds(session, context.account, symbol):
                return None
        now = context.clock.now()
        looks = [HoldingSnapshot(now, one.price, one.unrealized) for one in holdings(context, only=symbol)]
        if not looks:
            return None
        kept = RoleScheduleStore(context.account, context.market.name)
        details = {
            "reason": self._step.payload.get("roles", {}).get(ROLE, DueReason.MANUAL),
            "run_id": self._step.run_id,
            "report_id": report.id,
        }
        return lambda session: kept.record(session, symbol, ROLE, looks[0], **details)
