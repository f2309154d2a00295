"""Which policy answers for which role."""

from __future__ import annotations

from collections.abc import Mapping

from agents.rulebook.case import Policy
from agents.rulebook.policies import screeners, trader, validators

POLICIES: Mapping[str, Policy] = {
    "screener_technical": screeners.technical,
    "screener_fundamental": screeners.fundamental,
    "screener_catalyst": screeners.catalyst,
    "screener_options": screeners.options,
    "quick": validators.quick,
    "fundamentals": validators.fundamentals,
    "risk": validators.risk,
    "catalyst": validators.catalyst,
    "trader": trader.decide,
}
