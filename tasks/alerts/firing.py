"""What a firing writes and starts.

The state, the firing and the notice are one transaction, with the slot of the firing in it: the session and how often
the alert has fired. A run is opened after it, by the firing's row: what dies between is taken up by the next pass, and
the run's own slot in the database keeps it to one. No run makes an order.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import structlog
from sqlalchemy import func
from sqlmodel import Session, col, select

from chordesk.models.alerts.settings import AlertsSettings
from chordesk.models.alerts.tables import AlertsAlert, AlertsFiring
from chordesk.models.errors import DeskError, UsageError
from chordesk.models.events import DESK
from chordesk.models.notices import note
from chordesk.models.settings import Settings
from chordesk.models.settings.schema import own_settings
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runtime import Notice
from chordesk.models.text import one_line
from chordesk.tasks.engine import kinds, requests
from chordesk.tasks.worker.messages import DeskApp
from chordesk.tasks.workflows.scheduled import open_once, run_of
from chordesk.tools.alerts.conditions import condition_of

log = structlog.get_logger(__name__)
NOTIFY = "notify"
# A run that could not be opened in this time is of something that is long over.
LATEST = dt.timedelta(hours=1)


def actions() -> list[str]:
    """Return what an alert may do: notify, or start a kind of run that makes no order."""
    found = [kind for kind in requests.startable() if _quiet(kind) is not None]
    return [NOTIFY, *found]


def _quiet(kind: str) -> dict[str, Any] | None:
    workflow = kinds.workflow_of(kind)
    fields = workflow.without_orders if workflow is not None and workflow.request is not None else None
    return dict(fields) if fields is not None else None


def checked_action(action: str, texts: list[str], *, of_symbol: bool) -> dict[str, Any]:
    """Return the fields of the run that an action starts. of_symbol: a firing has a symbol, which it is on. Raises
    UsageError for what is no action, or could not be started."""
    if action == NOTIFY:
        if texts:
            raise UsageError("notify takes no fields", remedy="leave them out, or choose an action that starts a run")
        return {}
    if action not in actions():
        raise UsageError(f"{action!r} is nothing that an alert does", remedy=f"choose among {', '.join(actions())}")
    given = requests.from_texts(action, texts)
    fixed = _quiet(action) or {}
    if wrong := [name for name in fixed if given.get(name, fixed[name]) != fixed[name]]:
        raise UsageError(f"an alert makes no order: {wrong[0]}", remedy=f"leave {wrong[0]} out")
    whole = given | fixed
    requests.checked(action, whole | _symbols(action, whole, "AAPL" if of_symbol else ""), "alert")
    return whole


def _symbols(action: str, given: dict[str, Any], symbol: str) -> dict[str, Any]:
    named = "symbols" in given or not symbol or not requests.takes(action, "symbols")
    return {} if named else {"symbols": [symbol]}


def unnamed(row: AlertsAlert) -> str | None:
    """Return what the request of the alert's run says of one without symbols; None where the run has some."""
    workflow = kinds.workflow_of(row.action) if row.action != NOTIFY else None
    of_symbol = condition_of(row.condition).kind.on[0] == "symbol"
    if workflow is None or of_symbol or "symbols" in row.request or not requests.takes(row.action, "symbols"):
        return None
    return " ".join((workflow.request.__doc__ or "").partition(";")[0].split()).rstrip(".")


def write(session: Session, settings: Settings, row: AlertsAlert, firing: AlertsFiring) -> None:
    """Add a firing with its notice to the transaction of the state that it is of."""
    if row.action != NOTIFY:
        firing.action = row.action
        firing.request = {**row.request, **_symbols(row.action, row.request, firing.symbol)}
        firing.note = _capped(session, settings, row)
        firing.state = "ended" if firing.note else "starting"
    session.add(firing)
    facts = {"alert": row.name, "why": firing.why, "action": firing.action, "note": firing.note}
    key = f"alert:{row.name}:{firing.symbol}:{firing.slot}"
    note(session, Notice(
        key=key, kind="alerts_fired", subject=firing.symbol or row.name, facts=facts, run_id=DESK, occurred_at=utcnow()
    ))  # fmt: skip


def _capped(session: Session, settings: Settings, row: AlertsAlert) -> str | None:
    """Return why no run is started: a cap of the day is reached. A gap in the morning may be one of many names."""
    midnight = utcnow().replace(hour=0, minute=0, second=0, microsecond=0)
    today = (
        select(func.count())
        .select_from(AlertsFiring)
        .where(col(AlertsFiring.created_at) >= midnight, col(AlertsFiring.state) != "ended")
    )
    if session.exec(today.where(AlertsFiring.alert == row.name)).one() >= row.most_per_day:
        return f"no run: {row.name} has started {row.most_per_day} today"
    if session.exec(today).one() >= (most := own_settings(settings, AlertsSettings).runs_day):
        return f"no run: alerts have started {most} today (DESK_ALERTS_RUNS_DAY)"
    return None


def start_runs(app: DeskApp) -> int:
    """Open the runs of firings that have none yet; return how many."""
    with app.desk.store.read() as session:
        due = session.exec(select(AlertsFiring).where(AlertsFiring.state == "starting").order_by(col(AlertsFiring.id)))
        found = list(due.all())
    return sum(_start(app, one) for one in found)


def _start(app: DeskApp, firing: AlertsFiring) -> bool:
    schedule, slot = f"alert:{firing.alert}", f"{firing.symbol}:{firing.slot}"
    run_id, why = run_of(app, schedule, slot), None
    if run_id is None:
        try:
            asked = requests.made(firing.action, firing.request, f"alert {firing.alert}")
            run_id = open_once(app, asked, schedule, slot) or run_of(app, schedule, slot)
        except Exception as error:  # one firing's fault stops no other's run
            log.warning("alert.not_started", alert=firing.alert, symbol=firing.symbol, error=str(error))
            if (not isinstance(error, DeskError) or error.retryable) and utcnow() - firing.created_at < LATEST:
                return False
            why = f"no run: {one_line(str(error.args[0] if error.args else error), 300)}"
    with app.desk.store.session() as session:
        row = session.get_one(AlertsFiring, firing.id)
        row.state, row.run_id, row.note = ("started", run_id, None) if run_id is not None else ("refused", None, why)
        session.add(row)
    return run_id is not None
