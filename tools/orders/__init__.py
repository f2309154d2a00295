"""From a trader's recommendation to a fill: draft, check, preview, gate, submit."""

from tools.orders.flow import LIVE_OFF, process_decision
from tools.orders.states import advance

__all__ = ["LIVE_OFF", "advance", "process_decision"]
