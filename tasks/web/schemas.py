"""Schemas of requests and responses. Rows are returned as they are stored, under the same names as in the commands'
--json."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import Path, Query
from pydantic import BeforeValidator, Field, StrictBool, StringConstraints
from pydantic.json_schema import SkipJsonSchema
from sqlmodel import Session, col, select

from chordesk.models.answers import Frozen
from chordesk.models.groups import by_key
from chordesk.models.orders import HASH_SHOWN
from chordesk.models.settings.running_desk import Standing
from chordesk.models.states import TradingState
from chordesk.models.tables.orders import Order, Preview
from chordesk.models.tables.runs import Report, Run, ToolCall, Turn, Verdict, VerdictReport, research_run
from chordesk.tasks.workflows.runs import ID, Person
from chordesk.tools.scoring.verdict_calibration import odds_of_run

# Printable text: databases reject a NUL, and other control characters may steer a terminal.
_TEXT = r"^[^\x00-\x1f\x7f]*$"
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
MOST_SEQUENCE = 2**53 - 1  # what every JSON reader takes for a whole number

Id = Annotated[str, Path(max_length=64, pattern=ID, description="the id, or the only beginning of one")]
Ticker = Annotated[str, Path(max_length=16, pattern=r"^[0-9A-Za-z.^=-]+$")]
Limit = Annotated[int, Query(ge=1, le=1000, description="how many")]
Offset = Annotated[int, Query(ge=0, le=1_000_000, description="how many to skip first")]
IdFilter = Annotated[str | None, Query(max_length=64, pattern=ID)]
TextFilter = Annotated[str | None, Query(max_length=64, pattern=_TEXT)]


def _iso(value: object) -> object:
    """Raises ValueError for what is not a date in ISO form: a number would be taken for seconds."""
    if isinstance(value, str) and not _DAY.fullmatch(value):
        raise ValueError("write it as YYYY-MM-DD")
    return value


DayFilter = Annotated[dt.date | SkipJsonSchema[None], BeforeValidator(_iso), Query()]
Backtests = Annotated[bool, Query(description="false: leave out what was played on past days, on accounts of its own")]
Reason = Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=_TEXT)]


class ServiceStatus(Frozen):
    """The desk of this service. running: a `desk up` runs on its home, and standing and settings (without secrets) are
    its own. differs: the settings for which this service, which was started before, has another value; it then starts
    no run."""

    home: str
    running: bool
    standing: Standing
    settings: dict[str, Any]
    differs: dict[str, Any]


class StopRequest(Frozen):
    by: Person


class CloseRequest(Frozen):
    by: Person
    why: Annotated[str, StringConstraints(min_length=1, max_length=300, pattern=_TEXT)] = "closed by a person"


class InterruptedTurn(Frozen):
    """A turn that its worker was made to end. Its step goes on with another attempt, if it has one."""

    thread: str
    turn: str


class ForkRequest(Frozen):
    """before_turn: number of the first turn that is not copied; one more than the last copies all. model: of the fork's
    turns, the parent's by default."""

    by: Person
    before_turn: int = Field(ge=1, le=100_000)
    model: Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=_TEXT)] | None = None


class AskRequest(Frozen):
    """A question to a fork."""

    by: Person
    text: Annotated[str, StringConstraints(min_length=1, max_length=20_000, pattern=r"^[^\x00]*$")]


class AskedTurn(Frozen):
    """The turn that a question made. refusal: why the model declined."""

    thread_id: str
    turn_id: str
    text: str
    refusal: str | None
    tokens: int | None


class ResetThread(Frozen):
    """A thread that is gone on with no more; role and subject start a new one."""

    thread_id: str
    role: str
    subject: str


class HaltBody(Frozen):
    """flatten: also close the desk's positions at the service's broker, at market. all: with flatten, what else the
    broker holds, too. confirm: for flatten `flatten ACCOUNT`, with all `flatten all of ACCOUNT`, as a person types it,
    with the service's account."""

    by: Person
    why: Reason | None = None
    flatten: StrictBool = False
    all: StrictBool = False
    confirm: Reason | None = None


class ResumeBody(Frozen):
    """reduce_only: the account may give exposure back, and takes on none. account: the one that is meant; refused where
    the service has another."""

    by: Person
    why: Reason | None = None
    reduce_only: StrictBool = False
    account: Annotated[str, StringConstraints(max_length=64)] | None = None


class HaltedAccount(Frozen):
    """denied: ids of its orders that were not sent yet."""

    account: str
    denied: list[str]


class HaltProblem(Frozen):
    detail: str
    remedy: str


class LeftPosition(Frozen):
    """What the broker holds and the desk never bought. quantity: negative when short."""

    symbol: str
    quantity: float


class HaltReport(Frozen):
    """file: the HALT file, None when it could not be written. open_orders: ids that the broker has not confirmed as
    cancelled; protective_orders: ids of those that protect positions, which stay in force; both None when it was not
    asked. closing_orders: one a position, None without flatten or when the broker was not asked. left_at_broker: what
    a flatten did not close, as it is not the desk's; what it could not close is in problems. complete: nothing failed,
    nothing is left open."""

    complete: bool
    file: str | None = None
    accounts: list[HaltedAccount]
    open_orders: list[str] | None = None
    protective_orders: list[str] | None = None
    closing_orders: list[Order] | None = None
    left_at_broker: list[LeftPosition] = []
    problems: list[HaltProblem]


class ResumeReport(Frozen):
    """still_halted: accounts of other brokers, each resumed where its broker is configured."""

    account: str
    state: TradingState
    still_halted: list[str]


Shown = Annotated[
    str,
    Field(
        pattern=HASH_SHOWN,
        description="payload_hash of the preview that the person saw, or its first 12 letters or more: another preview "
        "is refused, with what differs",
    ),
]


class ApproveRequest(Frozen):
    """An approval. answers: to a model's questions, by question id; an order and other requests have none."""

    answer: Literal["approve"]
    by: Person
    why: Reason | None = None
    answers: dict[
        str, list[Annotated[str, StringConstraints(min_length=1, max_length=2000, pattern=r"^[^\x00]*$")]]
    ] = Field(default_factory=dict, max_length=20)
    expect: Shown | None = None


class DenyRequest(Frozen):
    answer: Literal["deny"]
    by: Person
    why: Reason
    expect: Shown | None = None


AnswerRequest = Annotated[ApproveRequest | DenyRequest, Field(discriminator="answer")]


class VerdictRow(Frozen):
    """A verdict and the reports that it is based on. probability: that its symbol beats the median, null until a
    calibration has found it."""

    verdict: Verdict
    reports: list[Report]
    probability: float | None = None


class TurnDetail(Frozen):
    """A turn and its tool calls, in their order."""

    turn: Turn
    tool_calls: list[ToolCall]


class OrderRow(Frozen):
    order: Order
    preview: Preview | None


def verdicts(session: Session, run: Run) -> list[VerdictRow]:
    """Return verdicts by symbol; for a trade run those of its source run."""
    run_id = research_run(run)
    rows = session.exec(select(Verdict).where(Verdict.run_id == run_id).order_by(col(Verdict.symbol))).all()
    found = session.exec(
        select(VerdictReport.verdict_id, Report)
        .join(Report, col(Report.id) == col(VerdictReport.report_id))
        .join(Verdict, col(Verdict.id) == col(VerdictReport.verdict_id))
        .where(Verdict.run_id == run_id)
        .order_by(col(Report.created_at), col(Report.role))
    ).all()
    reports = by_key(found)
    odds = odds_of_run(session, run_id)
    return [VerdictRow(verdict=row, reports=reports[row.id], probability=odds(row)) for row in rows]


def turns(
    session: Session,
    limit: int,
    offset: int = 0,
    *,
    run_id: str | None = None,
    thread_id: str | None = None,
    role: str | None = None,
    subject: str | None = None,
) -> Sequence[Turn]:
    """Return turns in the order of their start; None as a filter matches everything."""
    filters = ((Turn.run_id, run_id), (Turn.thread_id, thread_id), (Turn.role, role), (Turn.subject, subject))
    query = select(Turn).where(*(col(column) == wanted for column, wanted in filters if wanted is not None))
    return session.exec(query.order_by(col(Turn.started_at), col(Turn.id)).offset(offset).limit(limit)).all()


def tool_calls(session: Session, turn: Turn) -> Sequence[ToolCall]:
    return session.exec(
        select(ToolCall).where(ToolCall.turn_id == turn.id).order_by(col(ToolCall.ordinal), col(ToolCall.id))
    ).all()
