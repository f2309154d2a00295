"""The check of messengers for `desk doctor`."""

from __future__ import annotations

from contextlib import closing

from sqlmodel import select

from chordesk.models.database.store import Store, current
from chordesk.models.messengers.tables import MessengersBot
from chordesk.models.settings.schema import MESSENGERS
from chordesk.tasks.doctor.check import Check, CheckContext, CheckEntry, not_made, ok, warn
from chordesk.tasks.messengers import people
from chordesk.tools.risk.codes import variable_name


def messengers(context: CheckContext) -> Check:
    """Check what the bots said last, and who does not want messages any more."""
    settings = context.settings
    set_here = [one.shown for one in MESSENGERS.values() if getattr(settings, one.setting, None) is not None]
    shown = ", ".join(set_here) or "no bot is set here"
    for one in MESSENGERS.values():
        given = [name for name in one.settings if getattr(settings, name, None) is not None]
        if given and len(given) < len(one.settings):
            lacking = next(name for name in one.settings if name not in given)
            return warn(f"{one.shown} has one of its tokens alone", f"set {variable_name(lacking)}, too")
    if not_made(context) or len(set(current(settings.database))) > 1:
        return ok(shown)
    with closing(Store(settings.database)) as store, store.read() as session:
        bots = session.exec(select(MessengersBot)).all()
        paired = [person for person in people.listed(session) if person.revoked_at is None]
    if failing := [bot for bot in bots if bot.error is not None]:
        told = "; ".join(f"{bot.messenger}: {bot.error}" for bot in failing)
        return warn(told, "a new token is set and `desk notify run` started again; one process alone may poll")
    if blocked := [person.name for person in paired if person.blocked_at is not None]:
        remedy = "they unblock it and write to it, or `desk chat revoke NAME`"
        return warn(f"{shown}; {', '.join(blocked)} blocked the bot", remedy)
    return ok(f"{shown}; {len(paired)} paired")


CHECK = CheckEntry("messengers", messengers, 60)
