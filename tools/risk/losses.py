"""Rules on losses, after which an account takes on no more exposure."""

from __future__ import annotations

from chordesk.models.orders import DenialCode, Denied, OrderTicket, RiskContext, RiskLimits
from chordesk.tools.decimals import exact, money
from chordesk.tools.risk.denials import deny
from chordesk.tools.risk.exposure import opening_only


@opening_only
def daily_loss_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    since, most = context.day_opening_at, limits.max_daily_loss
    return _loss_denial(DenialCode.DAILY_LOSS, since, context.day_opening, context, most)


@opening_only
def drawdown_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    return _loss_denial(DenialCode.DRAWDOWN, "its highest", context.high_water, context, limits.max_drawdown)


def _loss_denial(code: DenialCode, since: str, mark: float | None, context: RiskContext, most: float) -> Denied | None:
    limit = f"at most {exact(most):.2%}"
    if context.account.equity is None or mark is None:
        return deny(code, "the account's equity, now or before, is not known", "equity unknown", limit)
    equity, before = exact(context.account.equity), exact(mark)
    loss = before - equity
    if loss <= exact(most) * before:
        return None
    reason = f"equity fell from {money(before)} at {since} to {money(equity)}"
    return deny(code, reason, f"{loss / before:.4%} lost" if before > 0 else f"{money(loss)} lost", limit)
