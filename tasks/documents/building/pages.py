"""Addresses on the desk's page, for links in documents."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from chordesk.models.settings import Settings, running_desk

_EVERYWHERE = {"//0.0.0.0:": "//127.0.0.1:", "//[::]:": "//[::1]:"}


@dataclass(frozen=True, slots=True)
class PageLinks:
    """The addresses of views. base: of the desk's service, None where the desk has none: then all of them are None."""

    base: str | None

    def run(self, run_id: str) -> str | None:
        return self._at("runs", run_id)

    def symbol(self, symbol: str) -> str | None:
        return self._at("symbols", symbol)

    def report(self, report_id: str) -> str | None:
        return self._at("reports", report_id)

    def verdict(self, verdict_id: str) -> str | None:
        return self._at("verdicts", verdict_id)

    def order(self, order_id: str) -> str | None:
        return self._at("orders", order_id)

    def turn(self, turn_id: str | None) -> str | None:
        return self._at("turns", turn_id) if turn_id is not None else None

    def home(self) -> str | None:
        return f"{self.base}/" if self.base is not None else None

    def _at(self, view: str, name: str) -> str | None:
        return f"{self.base}/#/{view}/{quote(name, safe='')}" if self.base is not None else None


def pages_of(settings: Settings) -> PageLinks:
    """Return the addresses of DESK_NOTIFY_PAGE_URL, else of the service that runs on this process's home; of none
    without one."""
    if settings.notify_page_url is not None:
        return PageLinks(settings.notify_page_url.rstrip("/"))
    found = running_desk.read_api(settings.home)
    if found is None or not found[1]:
        return PageLinks(None)
    base = found[0].rstrip("/")
    for everywhere, here in _EVERYWHERE.items():
        base = base.replace(everywhere, here)
    return PageLinks(base)
