"""Checks of what stands behind an order: the log that it is put on, and the mandate that real money needs."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from models import store
from models.orders import Denied
from tasks.doctor.check import Check, Patient, Status
from tasks.doctor.services import not_made
from tools.decimals import money
from tools.orders.audit import log_path, place_of
from tools.orders.auditing import Checked, check_logs
from tools.orders.mandates import in_force, used_of

VERIFY = "`desk audit verify` names every line"


def audit_log(patient: Patient) -> Check:
    """Lines can be added to the log, and those that are there are whole."""
    path = log_path(patient.settings)
    try:
        _probe(path)
    except OSError as error:
        detail = f"{path.parent} cannot be written: {error.strerror}"
        return Check("audit log", Status.FAIL, detail, "make it writable: what is not on record does not happen")
    if not_made(patient):
        return Check("audit log", Status.OK, f"{path}: nothing is on record yet")
    store.require_current(patient.settings.database)
    return judge(path, check_logs(patient.desk.store, patient.settings))


def _probe(path: Path) -> None:
    """Raises OSError when the folder or the log in it cannot be written; a folder that is not there leaves no trace."""
    folder = path.parent
    if not folder.exists():
        return
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-") as probe:
        probe.write(b"x")
        probe.flush()
    if path.exists():
        path.open("ab").close()


def judge(path: Path, checked: Sequence[Checked]) -> Check:
    """Logs of other data folders can only be read where they are."""
    here = place_of(path.parent)
    away = [one for one in checked if one.file is None and one.place != here]
    broken = [one for one in checked if not one.whole and one not in away]
    if broken:
        problem = broken[0].reading.problems[0]
        return Check("audit log", Status.FAIL, f"{broken[0].file or broken[0].place}: {problem}", VERIFY)
    count = sum(one.count for one in checked if one not in away)
    detail = f"{path}: {count:,} lines, whole" if count else f"{path}: nothing is on record yet"
    if away:
        detail += f"; {len(away)} more of other data folders, not seen from here"
        return Check("audit log", Status.WARN, detail, "`desk audit verify --with FILE` takes copies of them")
    return Check("audit log", Status.OK, detail)


def mandate(patient: Patient) -> Check:
    """Real money has a mandate that holds now."""
    settings = patient.settings
    if not settings.real_money:
        return Check("mandate", Status.OK, f"{settings.broker} moves no real money and needs none")
    remedy = "a person signs one with `desk arm`; DESK_MANDATE_PUBLIC_KEY verifies it"
    if not_made(patient):
        return Check("mandate", Status.FAIL, f"no mandate was ever armed for {settings.broker}", remedy)
    store.require_current(settings.database)
    with patient.desk.store.read() as session:
        found = in_force(session, settings, settings.broker)
        if isinstance(found, Denied):
            return Check("mandate", Status.FAIL, found.reason, remedy)
        used = used_of(session, settings.broker, found.version)
    spent = f"{used.orders} of {found.max_orders} orders, {money(used.notional)} of {money(found.max_notional)} used"
    until = f"{found.expires_at:%Y-%m-%d %H:%M} UTC"
    return Check("mandate", Status.OK, f"mandate {found.version} of {settings.broker} until {until}: {spent}")
