"""Pre-trade risk: rules that clear an order or say why not, and what each denial code means."""

from tools.risk.check import check, limits_of
from tools.risk.conduct import PAPER, halted, no_verdict
from tools.risk.denials import deny
from tools.risk.exposure import at_stake, cash_needed, free_cash, opening_shares, slipped, underlying_of
from tools.risk.instruments import bad_contract, not_listed
from tools.risk.prices import unpriced

__all__ = [
    "PAPER",
    "at_stake",
    "bad_contract",
    "cash_needed",
    "check",
    "deny",
    "free_cash",
    "halted",
    "limits_of",
    "no_verdict",
    "not_listed",
    "opening_shares",
    "slipped",
    "underlying_of",
    "unpriced",
]
