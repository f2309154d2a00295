"""Pre-trade risk: rules that clear an order or deny it with a reason, and the meaning of each denial code."""

from chordesk.models.settings.accounts import PAPER
from chordesk.tools.risk.check import check, limits_of
from chordesk.tools.risk.conduct import halted, no_verdict
from chordesk.tools.risk.cover import cover_of
from chordesk.tools.risk.denials import deny
from chordesk.tools.risk.exits import exit_note, exit_terms, within_collar
from chordesk.tools.risk.exposure import (
    cash_needed,
    free_cash,
    held_in,
    opening_part,
    underlying_of,
    unit_exposure,
    unit_notional,
    with_slippage,
)
from chordesk.tools.risk.instruments import bad_contract, not_listed
from chordesk.tools.risk.packages import gross_quote, net_price, worst_case
from chordesk.tools.risk.prices import is_current, unpriced

__all__ = [
    "PAPER",
    "bad_contract",
    "cash_needed",
    "check",
    "cover_of",
    "deny",
    "exit_note",
    "exit_terms",
    "free_cash",
    "gross_quote",
    "halted",
    "held_in",
    "is_current",
    "limits_of",
    "net_price",
    "no_verdict",
    "not_listed",
    "opening_part",
    "underlying_of",
    "unit_exposure",
    "unit_notional",
    "unpriced",
    "with_slippage",
    "within_collar",
    "worst_case",
]
