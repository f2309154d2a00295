"""Agreement of the settings that a run was opened with and those of the process that sends its orders."""

from __future__ import annotations

from sqlmodel import Session

from chordesk.models.orders import DenialCode, Denied
from chordesk.models.settings import Settings
from chordesk.models.settings.snapshots import ORDERS, snapshot
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Run
from chordesk.tools.risk import deny
from chordesk.tools.risk.codes import shown, variable_name

# An order that only gives exposure back is bound by these alone: the limits are there for what adds it.
_OF_EXITS = ("broker", "trader_live", "approval")


def settings_denial(session: Session, settings: Settings, order: Order) -> Denied | None:
    """Return a denial for an order of a run that was opened with another live switch, broker or limit than this process
    has: neither the run's value nor this one may loosen the other. A run of a version before 0009 has none to compare.
    """
    kept = session.get_one(Run, order.run_id).settings
    if kept is None:
        return None
    here = snapshot(settings)
    names = _OF_EXITS if order.action in ("reduce", "close") else ORDERS
    wrong = [name for name in names if name in kept and kept[name] != here[name]]
    if not wrong:
        return None
    theirs, ours = _listed(kept, wrong), _listed(here, wrong)
    reason = f"the run was opened with {theirs}, and the trade worker has {ours}; a new run has the desk's settings"
    return deny(DenialCode.SETTINGS_DIFFER, reason, theirs, ours)


def _listed(values: dict[str, object], names: list[str]) -> str:
    return ", ".join(f"{variable_name(name)}={shown(values[name])}" for name in names)
