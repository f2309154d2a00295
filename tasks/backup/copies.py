"""A copied data folder as a desk of its own."""

from __future__ import annotations

import secrets
from contextlib import closing, suppress

from sqlalchemy import update

from chordesk.models import home
from chordesk.models.database.store import every_table, open_current
from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import is_up
from chordesk.tools.orders import audit, halting
from chordesk.tools.orders.accounts import account_names


def renew(settings: Settings, by: str) -> tuple[str, list[str]]:
    """Give the data folder and its SQLite database ids of their own; return the folder's, and the accounts that are
    halted: what the copied books have open, the desk that they were copied from may have sent. Raises UsageError while
    a desk runs on it, and for a folder without an id."""
    known = None
    with suppress(OSError):
        known = home.read(settings.home)
    if known is None:
        raise UsageError(
            f"{settings.home} has no id ({home.FILE}): no desk has run on it", remedy="start `desk up`, which makes one"
        )
    if is_up(settings.home):
        raise UsageError(f"a desk is up on {settings.home}", remedy="stop it first")
    names: list[str] = []
    if settings.database.startswith("sqlite"):
        why = f"copied from {known.path}: reconcile with the broker first"
        with closing(open_current(settings.database)) as store:
            with store.read() as session:
                names = account_names(session, settings.account)
            done = [halting.halt(store, name, why, by) for name in names]
            with store.session() as session:
                audit.record(session, settings, "renewed", by=by, copied_from=known.path, before=known.id)
                for one in done:
                    halting.record(session, settings, one)
            halting.disarm(store, settings, None, by)
            with store.session() as session:
                session.execute(update(every_table()["identity"]).values(desk=secrets.token_hex(8)))
            (settings.home / "identity").unlink(missing_ok=True)
    # The folder's id comes last: a renewal that was cut short is still refused as a copy.
    return home.renew(settings.home).id, names
