"""The check of notifications for `desk doctor`."""

from __future__ import annotations

from contextlib import closing

from chordesk.models.database.store import Store, current
from chordesk.models.settings import running_desk
from chordesk.tasks.doctor.check import Check, CheckContext, CheckEntry, not_made, ok, warn
from chordesk.tasks.notifications import channel_checks, outbox
from chordesk.tasks.notifications.outbox import NotificationsState


def notifications(context: CheckContext) -> Check:
    """Check the channels of the settings, and what the database has of those that are sent to."""
    settings = context.settings
    services = channel_checks.services(settings) if settings.notify_channels is not None else {}
    shown = ", ".join(f"{name} ({service})" for name, service in services.items()) or "no channel is set here"
    if not_made(context) or len(set(current(settings.database))) > 1:
        return ok(shown)
    with closing(Store(settings.database)) as store, store.read() as session:
        found = outbox.state(session)
    if given_up := [one for one in found.channels if one.given_up]:
        counts = ", ".join(f"{one.given_up} to {one.name}" for one in given_up)
        detail = f"{shown}; given up in the last 24 hours: {counts}"
        return warn(detail, "try it: `desk notify test`; `desk notify list` shows why")
    # Not whether the home is held: these checks hold it too.
    if (silent := _silent(found, up=running_desk.has_settings(running_desk.read(settings.home)))) is not None:
        return warn(f"{shown}; {silent}", "start `desk up` again, or `desk notify run`")
    return ok(shown)


def _silent(found: NotificationsState, *, up: bool) -> str | None:
    """Return the problem if the desk is up with channels, and no process sends."""
    if not up or found.sending or not found.channels:
        return None
    return f"no process sends, {found.untaken} events wait"


CHECK = CheckEntry("notifications", notifications, 60)
