"""`desk approvals`, `desk approve`, `desk deny`: orders and models' requests that wait for a person, and the answer."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

import typer

from chordesk.models.errors import UsageError
from chordesk.models.states import ApprovalState
from chordesk.models.tables.columns import utcnow
from chordesk.tasks.approvals import WaitingOrder, WaitingRequest, answer, waiting
from chordesk.tasks.cli.output import console, print_json, print_line, table
from chordesk.tasks.cli.render.requests import request_text
from chordesk.tasks.cli.render.sizes import legs_text
from chordesk.tasks.cli.shell import Json, opened, whoami
from chordesk.tasks.worker.app import WorkerNotifier
from chordesk.tools.decimals import money, plain

COLUMNS = ("order", "symbol", "side", "quantity", "notional", "asked (UTC)", "minutes left", "payload hash")
TOO_LATE = 1

Id = Annotated[str, typer.Argument(help="Id of the order, of its approval or of the request, or its beginning.")]
commands = typer.Typer()


@commands.command("approvals")
def listing(as_json: Json = False) -> None:
    """List what waits for a person: orders, and what models ask for in the middle of a turn."""
    with opened()[1].read() as session:
        rows = waiting(session)
    if as_json:
        print_json([row.model_dump() for row in rows])
        return
    orders = [row for row in rows if isinstance(row, WaitingOrder)]
    if not rows:
        print_line("nothing waits for approval")
    if orders:
        console().print(table(COLUMNS, [_row(row) for row in orders]))
    for row in rows:
        if isinstance(row, WaitingRequest):
            print_line(request_text(row))


@commands.command()
def approve(
    id_: Id,
    why: Annotated[str | None, typer.Option(help="A reason for the record.")] = None,
    answers: Annotated[list[str] | None, typer.Option("--answer", help="To a model's question: ID=TEXT.")] = None,
) -> None:
    """Let an order go to the broker, as it was previewed, or a model do what it asks for."""
    _decide(id_, True, why, _by_question(answers or []))


@commands.command()
def deny(id_: Id, why: Annotated[str, typer.Option(help="The reason, for the record.")]) -> None:
    """Refuse an order or a model's request."""
    _decide(id_, False, why, {})


def _by_question(answers: list[str]) -> dict[str, list[str]]:
    """Return answers by question id. Raises UsageError."""
    found: dict[str, list[str]] = {}
    for given in answers:
        question, parted, text = given.partition("=")
        if not parted or not text:
            raise UsageError(f"{given!r} is no answer", remedy="give ID=TEXT; `desk approvals` shows the questions")
        found.setdefault(question, []).append(text)
    return found


def _decide(id_: str, yes: bool, why: str | None, answers: dict[str, list[str]]) -> None:
    settings, store = opened()
    notify = WorkerNotifier(settings).trade
    found = answer(store, settings, notify, id_, approve=yes, by=whoami(), why=why, answers=answers)
    if found.state is ApprovalState.EXPIRED:
        print_line(found.too_late)
        raise typer.Exit(TOO_LATE)
    print_line(f"{found.subject} {found.state} by {found.by}")
    if yes and found.order is not None:
        when = "now" if found.notified else f"within {settings.orders_seconds:g} s of its worker being reachable"
        print_line(f"the trade queue submits it {when}; see: desk orders show {found.order}")


def _row(row: WaitingOrder) -> tuple[str, ...]:
    left = (row.expires_at - utcnow()) / dt.timedelta(minutes=1)
    return (
        row.order,
        f"{row.symbol}: {legs_text(row.legs)}" if row.legs else row.contract or row.symbol,
        row.side or "",
        plain(row.quantity or 0),
        money(row.notional),
        f"{row.asked_at:%Y-%m-%d %H:%M}",
        f"{left:.0f}" if left > 0 else "expired",
        row.payload_hash[:12],
    )
