"""The check of outside accounts for `desk doctor`: how old they are, and how many holdings have no ticker or rate.
Counts alone: the doctor's lines are sent to others."""

from __future__ import annotations

from contextlib import closing

from chordesk.models.database.store import Store, current
from chordesk.models.holdings.settings import HoldingsSettings
from chordesk.models.settings.schema import own_settings
from chordesk.tasks.doctor.check import Check, CheckContext, CheckEntry, not_made, ok, warn
from chordesk.tasks.holdings.display import account_rows
from chordesk.tools.holdings.keeping import accounts


def holdings(context: CheckContext) -> Check:
    settings = context.settings
    if not_made(context) or len(set(current(settings.database))) > 1:
        return ok("no account of another broker")
    with closing(Store(settings.database)) as store, store.read() as session:
        rows = account_rows(accounts(session), settings)
    if not rows:
        return ok("no account of another broker")
    count = f"{len(rows)} account{'s' * (len(rows) != 1)} of other brokers, DESK_BOOK={settings.book}"
    old = [row for row in rows if row["stale"]]
    nameless = sum(len(row["without_ticker"]) for row in rows)
    rateless = {one for row in rows for one in row["without_rate"]}
    if old:
        oldest = max(row["sessions_old"] for row in old)
        most = own_settings(settings, HoldingsSettings).stale_sessions
        detail = f"{count}; {len(old)} of them older than {most} sessions, the oldest {oldest}"
        return warn(detail, "import them anew, `desk holdings refresh`, or raise DESK_HOLDINGS_STALE_SESSIONS")
    if nameless or rateless:
        detail = f"{count}; {nameless} holdings have no ticker, {len(rateless)} currencies no rate"
        return warn(detail, "`desk holdings` names them; `desk holdings map NAME TICKER`, or import with --rate")
    return ok(count)


CHECK = CheckEntry("holdings", holdings, 60)
