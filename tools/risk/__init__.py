"""Pre-trade risk: rules that clear an order or deny it with a reason, and the meaning of each denial code."""

from chordesk.models.settings.running_desk import PAPER
from chordesk.tools.risk.amounts import exit_note, exit_terms, is_current, unpriced, within_collar
from chordesk.tools.risk.check import check
from chordesk.tools.risk.codes import deny
from chordesk.tools.risk.conduct import bad_contract, halted, no_verdict, not_listed
from chordesk.tools.risk.exposure import (
    cash_needed,
    cover_of,
    free_cash,
    gross_quote,
    held_in,
    net_price,
    opening_part,
    underlying_of,
    unit_exposure,
    unit_notional,
    with_slippage,
    worst_case,
)

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
