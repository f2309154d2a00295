"""`desk approvals`, `desk approve`, `desk deny`: orders that wait for a person, and the person's answer."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any

import typer

from models.columns import utcnow
from models.order_tables import Approval, Order
from models.setting_sources import load_settings
from models.settings import Settings
from models.states import ApprovalState
from models.store import Store, require_current
from tasks.cli.nudging import tell_trade_queue
from tasks.cli.output import console, print_json, table
from tasks.cli.person import whoami
from tools.decimals import money, plain
from tools.orders import approvals

COLUMNS = ("order", "symbol", "side", "quantity", "notional", "asked (UTC)", "minutes left", "payload hash")
TOO_LATE = 1

Id = Annotated[str, typer.Argument(help="Id of the order or of its approval, or the beginning of it.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def register(app: typer.Typer) -> None:
    app.command("approvals")(listing)
    app.command()(approve)
    app.command()(deny)


def listing(as_json: AsJson = False) -> None:
    """List the orders that wait for a person."""
    _, store = _opened()
    with store.read() as session:
        rows = approvals.pending(session)
    if as_json:
        print_json([_facts(approval, order) for approval, order in rows])
    elif not rows:
        console().print("no order waits for approval")
    else:
        console().print(table(COLUMNS, [_row(approval, order) for approval, order in rows]))


def approve(id_: Id, why: Annotated[str | None, typer.Option(help="A word for the record.")] = None) -> None:
    """Let an order go to the broker, as it was previewed."""
    _decide(id_, True, why)


def deny(id_: Id, why: Annotated[str, typer.Option(help="The reason, for the record.")]) -> None:
    """Refuse an order."""
    _decide(id_, False, why)


def _decide(id_: str, yes: bool, why: str | None) -> None:
    settings, store = _opened()
    with store.session() as session:
        found = approvals.decide(session, settings, id_, yes, whoami(), why)
        order_id, state = found.order_id, found.state
    out = console()
    if state == ApprovalState.EXPIRED:
        out.print(f"order {order_id}: too late, the question had expired and the order is denied", soft_wrap=True)
        raise typer.Exit(TOO_LATE)
    out.print(f"order {order_id} {state} by {found.decided_by}", highlight=False, soft_wrap=True)
    if yes:
        told = tell_trade_queue(settings)
        when = "now" if told else f"within {settings.orders_seconds:g} s of its worker being reachable"
        out.print(
            f"the trade queue submits it {when}; see: desk orders show {order_id}", highlight=False, soft_wrap=True
        )


def _opened() -> tuple[Settings, Store]:
    settings = load_settings()
    require_current(settings.database)
    return settings, Store(settings.database)


def _facts(approval: Approval, order: Order) -> dict[str, Any]:
    shown = ("symbol", "contract", "action", "side", "quantity", "order_type", "limit_price", "account")
    return {
        "approval": approval.id,
        "order": order.id,
        **{name: getattr(order, name) for name in shown},
        "notional": approval.notional,
        "payload_hash": approval.payload_hash,
        "asked_at": approval.asked_at,
        "expires_at": approval.expires_at,
    }


def _row(approval: Approval, order: Order) -> tuple[str, ...]:
    left = (approval.expires_at - utcnow()) / dt.timedelta(minutes=1)
    return (
        order.id,
        order.contract or order.symbol,
        order.side or "",
        plain(order.quantity or 0),
        money(approval.notional),
        f"{approval.asked_at:%Y-%m-%d %H:%M}",
        f"{left:.0f}" if left > 0 else "expired",
        approval.payload_hash[:12],
    )
