"""What people read of a firing and of an alert that sees nothing."""

from __future__ import annotations

from chordesk.models.tables.runtime import Notice


def fired(notice: Notice) -> str:
    facts = notice.facts
    started = f"; it starts {facts['action']}" if facts.get("action") not in (None, "notify") else ""
    capped = f" ({facts['note']})" if facts.get("note") else ""
    return f"{facts['alert']}: {facts['why']}{started}{capped}"


def unseen(notice: Notice) -> str:
    facts = notice.facts
    on = f" of {notice.subject}" if notice.subject else ""
    return f"alert {facts['alert']} sees no data{on} since {facts['since']}: {facts['why']}"
