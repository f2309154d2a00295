"""An alert as a person writes it, with the action checked: the same for the terminal, programs and the page."""

from __future__ import annotations

from sqlmodel import Session

from chordesk.models.alerts.tables import AlertsAlert
from chordesk.models.settings import Settings
from chordesk.tasks.alerts.firing import checked_action
from chordesk.tools.alerts import keeping
from chordesk.tools.alerts.conditions import condition_of
from chordesk.tools.market.protocol import MarketData


def add_alert(
    session: Session, settings: Settings, draft: keeping.Draft, given: list[str], market: MarketData
) -> AlertsAlert:
    """given: NAME=VALUE of the fields of the run that it starts. Raises UsageError."""
    of_symbol = condition_of(draft.when).kind.on[0] == "symbol"
    fields = checked_action(draft.action, given, of_symbol=of_symbol)
    return keeping.add(session, settings, draft.model_copy(update={"request": fields}), market)
