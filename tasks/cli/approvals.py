"""`desk approvals`, `desk approve`, `desk deny`: orders and models' requests that wait for a person, and the answer."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

import typer

from models.columns import utcnow
from models.errors import UsageError
from models.setting_sources import load_settings
from models.settings import Settings
from models.states import ApprovalState
from models.store import Store, require_current
from tasks.approving import Answered, Waiting, WaitingRequest, answer, waiting
from tasks.cli.output import console, print_json, table
from tasks.cli.person import whoami
from tasks.cli.render_requests import request_text
from tasks.messenger import Messenger
from tools.decimals import money, plain

COLUMNS = ("order", "symbol", "side", "quantity", "notional", "asked (UTC)", "minutes left", "payload hash")
TOO_LATE = 1

Id = Annotated[str, typer.Argument(help="Id of the order, of its approval or of the request, or its beginning.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def register(app: typer.Typer) -> None:
    app.command("approvals")(listing)
    app.command()(approve)
    app.command()(deny)


def listing(as_json: AsJson = False) -> None:
    """List what waits for a person: orders, and what models ask for in the middle of a turn."""
    _, store = _opened()
    with store.read() as session:
        rows = waiting(session)
    if as_json:
        print_json([row.model_dump() for row in rows])
        return
    orders = [row for row in rows if isinstance(row, Waiting)]
    out = console()
    if not rows:
        out.print("nothing waits for approval")
    if orders:
        out.print(table(COLUMNS, [_row(row) for row in orders]))
    for row in rows:
        if isinstance(row, WaitingRequest):
            out.print(request_text(row), markup=False, highlight=False, soft_wrap=True)


def approve(
    id_: Id,
    why: Annotated[str | None, typer.Option(help="A word for the record.")] = None,
    answers: Annotated[list[str] | None, typer.Option("--answer", help="To a model's question: ID=TEXT.")] = None,
) -> None:
    """Let an order go to the broker, as it was previewed, or a model do what it asks for."""
    _decide(id_, True, why, _by_question(answers or []))


def deny(id_: Id, why: Annotated[str, typer.Option(help="The reason, for the record.")]) -> None:
    """Refuse an order or a model's request."""
    _decide(id_, False, why, {})


def _by_question(answers: list[str]) -> dict[str, list[str]]:
    """Raises UsageError."""
    found: dict[str, list[str]] = {}
    for given in answers:
        question, parted, text = given.partition("=")
        if not parted or not text:
            raise UsageError(f"{given!r} is no answer", remedy="give ID=TEXT; `desk approvals` shows the questions")
        found.setdefault(question, []).append(text)
    return found


def _decide(id_: str, yes: bool, why: str | None, answers: dict[str, list[str]]) -> None:
    settings, store = _opened()
    found = answer(store, settings, Messenger(settings), id_, approve=yes, by=whoami(), why=why, answers=answers)
    if found.order is None:
        _tell_request(found)
    else:
        _tell_order(settings, found, yes)


def _tell_request(found: Answered) -> None:
    out = console()
    if found.state is ApprovalState.EXPIRED:
        out.print(f"request {found.approval}: too late, its time or its turn is over; it was declined", soft_wrap=True)
        raise typer.Exit(TOO_LATE)
    out.print(f"request {found.approval} {found.state} by {found.by}", highlight=False, soft_wrap=True)


def _tell_order(settings: Settings, found: Answered, yes: bool) -> None:
    out = console()
    if found.state is ApprovalState.EXPIRED:
        out.print(f"order {found.order}: too late, the question had expired and the order is denied", soft_wrap=True)
        raise typer.Exit(TOO_LATE)
    out.print(f"order {found.order} {found.state} by {found.by}", highlight=False, soft_wrap=True)
    if yes:
        when = "now" if found.told else f"within {settings.orders_seconds:g} s of its worker being reachable"
        out.print(
            f"the trade queue submits it {when}; see: desk orders show {found.order}", highlight=False, soft_wrap=True
        )


def _opened() -> tuple[Settings, Store]:
    settings = load_settings()
    require_current(settings.database)
    return settings, Store(settings.database)


def _row(row: Waiting) -> tuple[str, ...]:
    left = (row.expires_at - utcnow()) / dt.timedelta(minutes=1)
    return (
        row.order,
        row.contract or row.symbol,
        row.side or "",
        plain(row.quantity or 0),
        money(row.notional),
        f"{row.asked_at:%Y-%m-%d %H:%M}",
        f"{left:.0f}" if left > 0 else "expired",
        row.payload_hash[:12],
    )
