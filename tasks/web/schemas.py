"""What requests may carry and what answers look like. Rows are answered as they are stored, under the names that the
commands' --json has."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path, Query
from pydantic import Field, StringConstraints

from models.order_tables import Approval, Fill, Order, Preview
from models.research import Frozen
from models.tables import Report, ToolCall, Turn, Verdict

_ID = r"^[0-9A-Za-z_.-]+$"
# Anything that can be read; a NUL is refused by databases, and others may steer whoever prints them.
_TEXT = r"^[^\x00-\x1f\x7f]*$"
MOST_SEQUENCE = 2**53 - 1  # what every JSON reader takes for a whole number

Id = Annotated[str, Path(max_length=64, pattern=_ID, description="the id, or the only beginning of one")]
Ticker = Annotated[str, Path(max_length=16, pattern=r"^[0-9A-Za-z.^=-]+$")]
Limit = Annotated[int, Query(ge=1, le=1000, description="how many")]
Offset = Annotated[int, Query(ge=0, le=1_000_000, description="how many are passed over first")]
IdFilter = Annotated[str | None, Query(max_length=64, pattern=_ID)]
TextFilter = Annotated[str | None, Query(max_length=64, pattern=_TEXT)]
Person = Annotated[
    str,
    StringConstraints(min_length=1, max_length=80, pattern=r"^\w[\w .,'@+-]*$"),
    Field(description="who asks, for the record: the token says that somebody may, not who it is"),
]
Reason = Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=_TEXT)]


class StopRequest(Frozen):
    by: Person


class ApproveRequest(Frozen):
    """answers: to a model's questions, by question id; an order and other requests have none."""

    answer: Literal["approve"]
    by: Person
    why: Reason | None = None
    answers: dict[
        str, list[Annotated[str, StringConstraints(min_length=1, max_length=2000, pattern=r"^[^\x00]*$")]]
    ] = Field(default_factory=dict, max_length=20)


class DenyRequest(Frozen):
    answer: Literal["deny"]
    by: Person
    why: Reason


AnswerRequest = Annotated[ApproveRequest | DenyRequest, Field(discriminator="answer")]


class VerdictRow(Frozen):
    """A verdict and the reports that it rests on."""

    verdict: Verdict
    reports: list[Report]


class TurnDetail(Frozen):
    """A turn and its tool calls, in their order."""

    turn: Turn
    tool_calls: list[ToolCall]


class Lineage(Frozen):
    """What one symbol of a run rests on: orders, verdict, reports with their threads, screen hits."""

    run: str
    source_run: str | None
    symbol: str
    orders: list[dict[str, Any]]
    verdict: dict[str, Any] | None
    reports: list[dict[str, Any]]
    hits: list[dict[str, Any]]


class OrderRow(Frozen):
    order: Order
    preview: Preview | None


class OrderDetail(Frozen):
    """An order as it stands, and what it rests on. log: its lines in the audit log, if they were asked for."""

    order: Order
    preview: Preview | None
    approval: Approval | None
    fills: list[Fill]
    decision: dict[str, Any]
    verdict: dict[str, Any] | None
    reports: list[dict[str, Any]]
    hits: list[dict[str, Any]]
    log: list[dict[str, Any]] | None = None
