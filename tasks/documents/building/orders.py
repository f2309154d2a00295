"""Orders of documents: each in one line, and as steps of the lineage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlmodel import Session

from chordesk.models.tables.orders import Order
from chordesk.tasks.documents.building.pages import PageLinks
from chordesk.tasks.documents.schema.dossier import FillLine, OrderLine
from chordesk.tasks.documents.schema.parts import ChartMark, LineageStep
from chordesk.tasks.views.order_view import order_view


def order_line(found: Mapping[str, Any], pages: PageLinks) -> OrderLine:
    """Return an order, as `order_view` has it, in one line."""
    row, preview = found["order"], found["preview"] or {}
    return OrderLine(
        **{name: row[name] for name in (
            "id", "run_id", "symbol", "action", "side", "quantity", "contract", "order_type", "limit_price",
            "stop_price", "state", "market_at",
        )},
        denied=_denied(row),
        price=preview.get("price"),
        notional=preview.get("notional"),
        payload_hash=preview.get("payload_hash"),
        approval=_approval(found["approval"]),
        fills=[
            FillLine(**{name: one[name] for name in ("id", "side", "quantity", "price", "commission")},
                     at=one["filled_at"])
            for one in found["fills"]
        ],
        page=pages.order(row["id"]),
    )  # fmt: skip


def views_of(session: Session, orders: Sequence[Order]) -> list[dict[str, Any]]:
    """Return the view of each order."""
    return [order_view(session, order) for order in orders]


def order_steps(found: Mapping[str, Any], pages: PageLinks) -> Iterator[LineageStep]:
    """Yield the steps from the decision to the fills of an order, as `order_view` has it."""
    decision, row, preview, approval = (found[name] for name in ("decision", "order", "preview", "approval"))
    why = f": {decision['why']}" if decision["why"] else ""
    yield LineageStep(
        kind="decision", id=decision["decision"], label=f"{decision['status']} by {decision['author']}{why}",
        at=decision["at"], turn_id=decision["turn"], codex_turn_id=decision["codex_turn"],
        thread_id=decision["thread"], page=pages.turn(decision["turn"]),
    )  # fmt: skip
    denied = f", denied: {text}" if (text := _denied(row)) else ""
    size = f" {row['quantity']:g}" if row["quantity"] is not None else ""
    label = f"{row['action']} {row['side'] or ''}{size} {row['contract'] or row['symbol']}: {row['state']}{denied}"
    if preview is not None:
        yield LineageStep(
            kind="preview", id=preview["id"], at=preview["created_at"], page=pages.order(row["id"]),
            label=f"at {preview['price']:g}, notional {preview['notional']:,.2f}, hash {preview['payload_hash'][:16]}",
        )  # fmt: skip
    yield LineageStep(
        kind="order", id=row["id"], label=label, at=row["created_at"], page=pages.order(row["id"])
    )  # fmt: skip
    if approval is not None:
        yield LineageStep(
            kind="approval", id=approval["id"], label=_approval(approval) or "", at=approval["decided_at"],
            page=pages.order(row["id"]),
        )  # fmt: skip
    for fill in found["fills"]:
        yield LineageStep(
            kind="fill", id=fill["id"], label=f"{fill['side']} {fill['quantity']:g} at {fill['price']:g}",
            at=fill["created_at"], page=pages.order(row["id"]),
        )  # fmt: skip
    for stop in found["protected_by"]:
        label = f"{stop['side']} {stop['order_type']} of {stop['quantity'] or 0:g}: {stop['state']}"
        yield LineageStep(
            kind="protection", id=stop["id"], label=label, at=stop["created_at"], page=pages.order(stop["id"])
        )


def order_marks(lines: Sequence[OrderLine]) -> Iterator[ChartMark]:
    """Yield the marks of orders and their fills on a chart."""
    for one in lines:
        label = f"{one.action} {one.side or ''}: {one.state}".replace("  ", " ")
        # An option's premium is no price of its underlying.
        price = one.price if one.contract is None else None
        yield ChartMark(kind="order", at=one.market_at, label=label, price=price, run_id=one.run_id)
        for fill in one.fills:
            yield ChartMark(
                kind="fill", at=fill.at, label=f"{fill.side} {fill.quantity:g}",
                price=fill.price if one.contract is None else None, run_id=one.run_id,
            )  # fmt: skip


def _denied(row: Mapping[str, Any]) -> str | None:
    return f"{row['denial_code']}: {row['denial_reason']}" if row["denial_code"] else None


def _approval(row: Mapping[str, Any] | None) -> str | None:
    if row is None:
        return None
    by = f" by {row['decided_by']}" if row["decided_by"] else ""
    why = f": {row['why']}" if row["why"] else ""
    return f"{row['state']}{by}{why}"
