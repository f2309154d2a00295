"""Losses after which an account takes nothing more on."""

from __future__ import annotations

from models.orders import DenialCode, Denied, OrderTicket, RiskContext, RiskLimits
from tools.decimals import exact, money
from tools.risk.denials import deny
from tools.risk.exposure import opening_of


def daily_loss_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    if not opening_of(ticket, context):
        return None
    return _fallen(
        DenialCode.DAILY_LOSS, "the last look before today", context.day_opening, context, limits.max_daily_loss
    )


def drawdown_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    if not opening_of(ticket, context):
        return None
    return _fallen(DenialCode.DRAWDOWN, "its highest", context.high_water, context, limits.max_drawdown)


def _fallen(code: DenialCode, since: str, mark: float | None, context: RiskContext, most: float) -> Denied | None:
    limit = f"at most {exact(most):.2%}"
    if context.account.equity is None or mark is None:
        return deny(code, "the account's equity, now or before, is not known", "equity unknown", limit)
    equity, before = exact(context.account.equity), exact(mark)
    loss = before - equity
    if loss <= exact(most) * before:
        return None
    reason = f"equity fell from {money(before)} at {since} to {money(equity)}"
    return deny(code, reason, f"{loss / before:.4%} lost" if before > 0 else f"{money(loss)} lost", limit)
