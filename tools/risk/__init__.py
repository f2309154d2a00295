"""Pre-trade risk: rules that clear an order or deny it with a reason, and the meaning of each denial code."""

from tools.risk.check import check, limits_of
from tools.risk.conduct import PAPER, halted, no_verdict
from tools.risk.denials import deny
from tools.risk.exposure import cash_needed, free_cash, opening_part, underlying_of, unit_exposure, with_slippage
from tools.risk.instruments import bad_contract, not_listed
from tools.risk.prices import unpriced

__all__ = [
    "PAPER",
    "bad_contract",
    "cash_needed",
    "check",
    "deny",
    "free_cash",
    "halted",
    "limits_of",
    "no_verdict",
    "not_listed",
    "opening_part",
    "underlying_of",
    "unit_exposure",
    "unpriced",
    "with_slippage",
]
