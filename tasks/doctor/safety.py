"""Checks of the safeguards of orders: the audit log, and the mandate that real money needs."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from chordesk.models.database import store
from chordesk.models.orders import Denied
from chordesk.tasks.doctor.check import Check, CheckContext, CheckStatus
from chordesk.tasks.doctor.services import not_made
from chordesk.tools.decimals import money
from chordesk.tools.orders.audit import log_path, place_of
from chordesk.tools.orders.audit_reading import CheckedChain, check_logs
from chordesk.tools.orders.mandates import in_force, usage_of
from chordesk.tools.orders.protection import unprotected

VERIFY = "`desk audit verify` names every line"


def audit_log(context: CheckContext) -> Check:
    """Check that lines can be added to the log, and that the existing ones are whole."""
    path = log_path(context.settings)
    try:
        _probe(path)
    except OSError as error:
        detail = f"{path.parent} cannot be written: {error.strerror}"
        return Check("audit log", CheckStatus.FAIL, detail, "make it writable: each order needs its line in the log")
    if not_made(context):
        return Check("audit log", CheckStatus.OK, f"{path}: nothing is on record yet")
    store.require_current(context.settings.database)
    return judge(path, check_logs(context.desk.store, context.settings))


def _probe(path: Path) -> None:
    """Raise OSError when the folder or the log in it cannot be written; a missing folder is not created."""
    folder = path.parent
    if not folder.exists():
        return
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-") as probe:
        probe.write(b"x")
        probe.flush()
    if path.exists():
        path.open("ab").close()


def judge(path: Path, checked: Sequence[CheckedChain]) -> Check:
    """Return the result for these logs. Logs of other data folders can only be read where they are."""
    here = place_of(path.parent)
    away = [one for one in checked if one.file is None and one.place != here]
    broken = [one for one in checked if not one.whole and one not in away]
    if broken:
        problem = broken[0].reading.problems[0]
        return Check("audit log", CheckStatus.FAIL, f"{broken[0].file or broken[0].place}: {problem}", VERIFY)
    count = sum(one.count for one in checked if one not in away)
    detail = f"{path}: {count:,} lines, whole" if count else f"{path}: nothing is on record yet"
    if away:
        detail += f"; {len(away)} more of other data folders cannot be read from here"
        return Check("audit log", CheckStatus.WARN, detail, "`desk audit verify --with FILE` takes copies of them")
    return Check("audit log", CheckStatus.OK, detail)


def protection(context: CheckContext) -> Check:
    """Check that every share has the stop that DESK_PROTECT asks for."""
    settings = context.settings
    if settings.protect == "none":
        return Check("protection", CheckStatus.OK, "DESK_PROTECT=none: positions get no stop")
    well = f"DESK_PROTECT={settings.protect}: every share that is held has its stop"
    if not_made(context):
        return Check("protection", CheckStatus.OK, well)
    store.require_current(settings.database)
    with context.desk.store.read() as session:
        found = unprotected(session, settings)
    if not found:
        return Check("protection", CheckStatus.OK, well)
    listed = "; ".join(f"{row.quantity:g} {row.symbol} ({row.why})" for row in found)
    detail = f"DESK_PROTECT={settings.protect}, and without a stop: {listed}"
    remedy = "remove the reason: the trade worker places a stop each minute"
    return Check("protection", CheckStatus.WARN, detail, remedy)


def mandate(context: CheckContext) -> Check:
    """Check that real money has a mandate in force."""
    settings = context.settings
    if not settings.real_money:
        return Check("mandate", CheckStatus.OK, f"{settings.broker} moves no real money and needs none")
    remedy = "a person signs one with `desk arm`; DESK_MANDATE_PUBLIC_KEY verifies it"
    if not_made(context):
        return Check("mandate", CheckStatus.FAIL, f"no mandate was ever armed for {settings.broker}", remedy)
    store.require_current(settings.database)
    with context.desk.store.read() as session:
        found = in_force(session, settings, settings.broker)
        if isinstance(found, Denied):
            return Check("mandate", CheckStatus.FAIL, found.reason, remedy)
        used = usage_of(session, settings.broker, found.version)
    spent = f"{used.orders} of {found.max_orders} orders, {money(used.notional)} of {money(found.max_notional)} used"
    until = f"{found.expires_at:%Y-%m-%d %H:%M} UTC"
    return Check("mandate", CheckStatus.OK, f"mandate {found.version} of {settings.broker} until {until}: {spent}")
