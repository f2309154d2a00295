"""HTTP of alpaca-py's clients: a time limit on every request, credentials that no text shows, addresses on loopback."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter
from requests.exceptions import ReadTimeout

from chordesk.tools.market.fetching import within

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True)
class Credentials:
    """Key and secret of an Alpaca account; its repr hides both."""

    key: str
    secret: str

    def __repr__(self) -> str:
        return "Credentials(********)"


def on_loopback(url: str) -> bool:
    """Return whether an address is http on this machine, without a login."""
    parts = urlsplit(url)
    return parts.scheme == "http" and parts.hostname in LOOPBACK and not parts.username


def limit(client: Any, adapter: LimitedAdapter, base: str) -> None:
    """Send a client's requests through an adapter; those to loopback go through no proxy."""
    for scheme in ("https://", "http://"):
        client._session.mount(scheme, adapter)
    if on_loopback(base):
        client._session.trust_env = False  # a proxy has no business between us and loopback


class LimitedAdapter(HTTPAdapter):
    """A time limit on each request from connecting to the last byte of its answer, and the statuses that this thread's
    calls met."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self._met = threading.local()

    def send(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:
        options["timeout"] = self._seconds
        call = partial(self._whole, request, *args, **options)
        response = within(self._seconds, call, "alpaca-request", ReadTimeout)
        self.met().append(response.status_code)
        return response

    def _whole(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:
        response = super().send(request, *args, **options)
        _ = response.content  # read here, where the time counts
        return response

    def met(self) -> list[int]:
        if not hasattr(self._met, "statuses"):
            self._met.statuses = []
        statuses: list[int] = self._met.statuses
        return statuses


def body_of(error: Any) -> tuple[int | None, str]:
    try:
        return int(error.code), str(error.message)
    except (ValueError, TypeError, KeyError):
        return None, "no reason that could be read"
