"""Taking mandates back: always allowed, and in force before it is on record."""

from __future__ import annotations

from sqlmodel import col, select

from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Mandate
from chordesk.tools.orders.audit import log as audit


def disarm(store: Store, settings: Settings, broker: str | None, by: str) -> list[int]:
    """Disarm every mandate of a broker, or of all; return the versions that were armed until now.

    It takes effect before it is in the audit log: a log that cannot be written must not keep a mandate alive.
    """
    with store.session() as session:
        query = select(Mandate).where(col(Mandate.disarmed_at).is_(None)).order_by(col(Mandate.version))
        if broker is not None:
            query = query.where(col(Mandate.broker) == broker)
        rows = session.exec(query.with_for_update()).all()
        for row in rows:
            row.disarmed_at, row.disarmed_by = utcnow(), by
            session.add(row)
    if rows:
        with store.session() as session:
            for row in rows:
                audit.record(session, settings, "disarmed", version=row.version, broker=row.broker, by=by)
    return [row.version for row in rows]
