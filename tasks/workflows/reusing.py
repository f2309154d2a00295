"""Reports that count again: before a role's turn its earlier report's tool calls are made again, without a model."""

from __future__ import annotations

import asyncio
import datetime as dt
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
from sqlalchemy import and_, bindparam, join
from sqlalchemy.orm import aliased
from sqlmodel import Session, col, select

from chordesk.agents.desk_roles import role_of
from chordesk.agents.report_reuse import (
    answers_differ,
    difference,
    question_basis,
    role_digest,
    shard_basis,
    shard_digest,
)
from chordesk.agents.role import Role
from chordesk.agents.roles import SKEPTIC, offered
from chordesk.models.answers import Grounding, ReportStatus
from chordesk.models.outside import inflated
from chordesk.models.settings import Settings
from chordesk.models.states import REUSED
from chordesk.models.tables.board import VerdictQuestion
from chordesk.models.tables.orders import Position
from chordesk.models.tables.runs import Report, ReportBasis, Run, ScreenHit, ShardBasis, Turn, Verdict
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine.steps import ClaimedStep
from chordesk.tasks.reading.accounts import DueReason
from chordesk.tasks.worker.endings import Done
from chordesk.tools.registry import ToolContext
from chordesk.tools.toolsets import Given, TurnTools

if TYPE_CHECKING:
    from chordesk.agents.runner import RoleRun

# What these answer is not of the market: it cannot be asked again at no price, or is another each time.
_OUTSIDE = frozenset({"web_search", "page_read"})
_COUNTS = (ReportStatus.COMPLETED, ReportStatus.NO_DATA)
MOST_KEPT = 4 * 1024 * 1024  # bytes of the answers of one report


class Original(NamedTuple):
    """A report that may count again, with its basis."""

    id: str
    run_id: str
    market_at: dt.datetime
    status: str
    verdict: str | None
    question: Mapping[str, Any]
    calls: bytes
    tokens: int


@dataclass(frozen=True, slots=True)
class Again:
    """The calls of a basis, made again until an answer differs. given: the answers, for the turn that may follow."""

    differs: str | None
    given: tuple[Given, ...] = ()

    @property
    def checked(self) -> int:
        return len(self.given)


@dataclass(frozen=True, slots=True)
class Look:
    """What a role's earlier report came to: counts again (`report`), or not, with what differs from it."""

    brief: Mapping[str, Any]  # the subject with the market's state
    digest: str
    question: Mapping[str, Any]
    report: Original | None = None
    tokens: int = 0  # that the original turn read and wrote
    again: Again = Again(None)

    def result(self, now: dt.datetime) -> dict[str, Any]:
        assert self.report is not None
        age, checked = round((now - self.report.market_at).total_seconds() / 3600, 2), self.again.checked
        return {
            "status": REUSED, "verdict": self.report.verdict, "reason": said(self.report.run_id, age, checked),
            "report_id": self.report.id, "run_id": self.report.run_id, "age_hours": age, "checked": checked,
            "tokens": self.tokens,
        }  # fmt: skip


def said(run_id: str, age_hours: float, checked: int) -> str:
    looked = "1 answer looked at, it did not differ" if checked == 1 else f"{checked} answers looked at, none differed"
    return f"reused from run {run_id[:16]}, {age_hours:.0f} h ago; {looked}"


def may_reuse(settings: Settings, role: Role, step: ClaimedStep) -> bool:
    """Not where a person asks, for the skeptic and for roles that read others, and not in masked runs, whose
    names are others each time."""
    if settings.reuse == "off" or settings.mask or role.key == SKEPTIC or role.reads:
        return False
    return str(step.payload.get("roles", {}).get(role.key)) != DueReason.MANUAL


def look(desk: Desk, step: ClaimedStep, subject: Mapping[str, Any]) -> Look | None:
    """Return what the newest original report of the role on the symbol comes to now; None where none may count."""
    context = desk.tool_context(step.run_id)
    settings = context.settings
    role = offered(role_of(step.role, settings), settings)
    if not may_reuse(settings, role, step):
        return None
    from chordesk.tasks.worker.step_turns import with_market  # of a worker: what lists workflows has no turns

    brief = with_market(desk, step.run_id, subject)
    digest = role_digest(role, brief, settings)
    held, report = _found(desk, context, step, digest)
    question = question_basis(brief, held=held)
    if report is None:
        return Look(brief, digest, question)
    again = _compared(desk, role, context, report, question)
    return Look(brief, digest, question, report if again.differs is None else None, report.tokens, again)


# One statement for each turn that looks, made once: to build it takes longer than to answer it. The newest original of
# the role on the symbol that is young enough and was made by the same role; a replay's table may have the future.
_OWN = aliased(Run)
_HELD = (
    select(Position.symbol)
    .where(Position.account == bindparam("account"), Position.symbol == bindparam("symbol"), Position.quantity != 0)
    .exists()
)
_FIELDS = (
    *(Report.id, Report.run_id, Report.market_at, Report.status, Report.verdict),
    *(ReportBasis.question, ReportBasis.calls, ReportBasis.tokens),
)
_NEWEST = (
    select(_OWN.params, _HELD, *_FIELDS)  # type: ignore[call-overload]
    .select_from(_OWN)
    .outerjoin(
        join(Report, Run, col(Run.id) == col(Report.run_id)).join(
            ReportBasis, col(ReportBasis.report_id) == col(Report.id)
        ),
        and_(
            col(Run.account) == bindparam("account"), col(Run.market) == bindparam("market"),
            col(Report.symbol) == bindparam("symbol"), col(Report.role) == bindparam("role"),
            col(Report.run_id) != _OWN.id, col(ReportBasis.digest) == bindparam("digest"),
            col(Report.market_at) >= bindparam("oldest"), col(Report.market_at) <= bindparam("now"),
        ),
    )
    .where(_OWN.id == bindparam("run"))
    .order_by(col(Report.market_at).desc(), col(Report.created_at).desc())
    .limit(1)
)  # fmt: skip


def _found(desk: Desk, context: ToolContext, step: ClaimedStep, digest: str) -> tuple[bool, Original | None]:
    """Return whether the account holds the symbol, and the report that may count again."""
    settings, now = context.settings, context.clock.now()
    asked = {
        "run": step.run_id, "account": context.account, "market": context.market.name, "symbol": step.subject,
        "role": step.role, "digest": digest, "oldest": now - dt.timedelta(hours=settings.reuse_hours), "now": now,
    }  # fmt: skip
    with desk.store.read() as session:
        params, held, *fields = session.execute(_NEWEST, asked).one()
    report = Original(*fields) if fields[0] is not None else None
    young = report is not None and now - report.market_at <= longest_age(settings, params)
    return bool(held), report if young else None


def longest_age(settings: Settings, params: Mapping[str, Any]) -> dt.timedelta:
    """Return how old a report may be. Where the run trades, an order on a verdict with an older one would be denied."""
    hours = settings.reuse_hours
    return dt.timedelta(hours=min(hours, settings.max_verdict_age_hours) if params.get("trade", True) else hours)


def _compared(
    desk: Desk, role: Role, context: ToolContext, basis: Original | ShardBasis, question: Mapping[str, Any]
) -> Again:
    tolerance = context.settings.reuse_tolerance if context.settings.reuse == "near" else 0.0
    if (differs := difference(basis.question, question, tolerance, "question")) is not None:
        return Again(differs)
    return desk.loop.submit(_again(role, context, basis, tolerance)).result()


async def _again(role: Role, context: ToolContext, basis: Original | ShardBasis, tolerance: float) -> Again:
    """Make the calls of a report again, until an answer differs."""
    kept = orjson.loads(inflated("the answers of a report", basis.calls))
    tools = TurnTools(role.tools, context, context.settings.tool_seconds)
    then, given = [(tool, answer) for tool, _, answer in kept], []
    for at, (tool, arguments, _) in enumerate(kept):
        answer = await tools.call(tool, arguments)
        given.append(Given(arguments, answer))
        now = orjson.loads(orjson.dumps(answer.payload))
        if (found := answers_differ(then, now, at, ok=answer.success, tolerance=tolerance)) is not None:
            return Again(found, tuple(given))
        await asyncio.sleep(0)
    return Again(None, tuple(given))


@dataclass(frozen=True, slots=True)
class ShardLook:
    """What a screener's earlier turn on the same names came to: its hits count again (`basis`), or not."""

    brief: Mapping[str, Any]
    digest: str
    question: Mapping[str, Any]
    basis: ShardBasis | None = None
    again: Again = Again(None)


def look_at_shard(desk: Desk, step: ClaimedStep, subject: Mapping[str, Any]) -> ShardLook | None:
    """As `look`, of a screener's turn on one shard. Hits of a lens without a call of a tool are made of nothing that
    could be asked again."""
    context = desk.tool_context(step.run_id)
    settings = context.settings
    if settings.reuse == "off" or settings.mask:
        return None
    role = offered(role_of(step.role, settings), settings)
    from chordesk.tasks.worker.step_turns import with_market  # of a worker: what lists workflows has no turns

    brief = with_market(desk, step.run_id, subject)
    question = shard_basis(brief)
    digest = shard_digest(role_digest(role, brief, settings), question)
    now, oldest = context.clock.now(), context.clock.now() - dt.timedelta(hours=settings.reuse_hours)
    with desk.store.read() as session:
        basis = session.exec(
            select(ShardBasis)
            .where(ShardBasis.account == context.account, ShardBasis.market == context.market.name)
            .where(ShardBasis.digest == digest, col(ShardBasis.market_at) >= oldest, col(ShardBasis.market_at) <= now)
            .order_by(col(ShardBasis.market_at).desc(), col(ShardBasis.id).desc())
            .limit(1)
        ).first()
    if basis is None:
        return ShardLook(brief, digest, question)
    again = _compared(desk, role, context, basis, question)
    return ShardLook(brief, digest, question, basis if again.differs is None else None, again)


def hits_again(desk: Desk, step: ClaimedStep, found: ShardLook) -> Done:
    """The hits of the earlier turn in this run, as old as they are, and who made them."""
    assert found.basis is not None
    with desk.store.read() as session:
        turn = session.get_one(Turn, found.basis.turn_id)
        rows = session.exec(select(ScreenHit).where(ScreenHit.step_id == turn.step_id)).all()
    own = {"run_id": step.run_id, "step_id": step.id}
    hits = [ScreenHit(**{**row.model_dump(exclude={"id"}), **own}) for row in rows]
    now = desk.market_of(step.run_id).clock.now()
    age = round((now - found.basis.market_at).total_seconds() / 3600, 2)
    desk.telemetry.record_reused(step.role, found.basis.tokens)
    reused = {"run_id": turn.run_id, "tokens": found.basis.tokens, "checked": found.again.checked}
    result = {
        "status": ReportStatus.COMPLETED, "reason": said(turn.run_id, age, found.again.checked), "hits": len(hits),
        "notes": [], REUSED: reused,
    }  # fmt: skip
    return Done(result, (hits,))


def shard_basis_of(
    desk: Desk, step: ClaimedStep, found: ShardLook | None, run: RoleRun, notes: Sequence[str]
) -> list[ShardBasis]:
    """As `basis_of`, of a shard; none where something of its answer was not taken."""
    turn = run.last_turn
    if found is None or turn is None or run.status not in _COUNTS or notes or (kept := _kept(run)) is None:
        return []
    context = desk.tool_context(step.run_id)
    place: dict[str, Any] = {
        "account": context.account,
        "market": context.market.name,
        "market_at": context.clock.now(),
    }
    return [ShardBasis(turn_id=turn.id, digest=found.digest, question=dict(found.question), **place, **kept)]


def _kept(run: RoleRun) -> dict[str, Any] | None:
    """Return the calls of a turn and its tokens; None where they are none, or cannot be made again."""
    if not run.recorded or run.rogue_note is not None or any(call.answer.tool in _OUTSIDE for call in run.recorded):
        return None
    body = orjson.dumps([[call.answer.tool, call.arguments, call.answer.payload] for call in run.recorded])
    if len(body) > MOST_KEPT:
        return None
    return {"calls": zlib.compress(body, 1), "tokens": sum(turn.total_tokens or 0 for turn in run.turns)}


def basis_of(found: Look | None, run: RoleRun, report: Report | None, grounding: Grounding | None) -> list[ReportBasis]:
    """Return the basis of a new report, to be written with it; none where it may never count again."""
    if found is None or report is None or report.status not in _COUNTS or (kept := _kept(run)) is None:
        return []
    if grounding is not None and not grounding.is_grounded:
        return []
    return [ReportBasis(report_id=report.id, digest=found.digest, question=dict(found.question), **kept)]


def reports_of(session: Session, steps: Sequence[Any]) -> Sequence[Report]:
    """Return the earlier reports that steps found to count again."""
    ids = [step.result["report_id"] for step in steps if step.result.get("status") == REUSED]
    return session.exec(select(Report).where(col(Report.id).in_(ids))).all() if ids else []


def same_question(verdict_id: str, symbol: str, reports: Sequence[Report]) -> Any:
    """Return the writer of the link from a verdict of earlier reports alone to the question of the verdict that these
    led to first: what was forecast once is scored once. It links nothing where that has none."""
    runs = {report.run_id for report in reports}

    def write(session: Session) -> None:
        session.flush()
        asked = session.exec(
            select(VerdictQuestion.question_id)
            .join(Verdict, col(Verdict.id) == col(VerdictQuestion.verdict_id))
            .where(col(Verdict.run_id).in_(runs), Verdict.symbol == symbol)
            .order_by(col(Verdict.created_at).desc())
            .limit(1)
        ).first()
        if asked is not None:
            session.add(VerdictQuestion(verdict_id=verdict_id, question_id=asked))

    return write
