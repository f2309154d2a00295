"""Interactive Brokers' Flex Web Service: a query that a person made is asked for, and its statement fetched as soon as
it is made. The token reads reports and can do nothing else.

Its two requests and its errors: https://www.interactivebrokers.com/campus/ibkr-api-page/flex-web-service/
"""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chordesk.models.errors import ServiceError, UsageError
from chordesk.models.statements import Snapshot
from chordesk.models.text import one_line
from chordesk.models.urls import is_loopback
from chordesk.tools.holdings.formats.flex import is_flex, parse_flex, texts
from chordesk.tools.holdings.sheets import MOST_BYTES, Hints
from chordesk.tools.market.fetching import OutOfTime, within

BASE = "https://ndcdyn.interactivebrokers.com/AccountManagement/FlexWebService"
REQUEST_SECONDS = 30.0
# Seconds between requests, the last again and again: a statement takes some seconds, and ten requests a minute are let
# through.
PAUSES = (3.0, 5.0, 10.0, 20.0)
MOST_SECONDS = 180.0
_NAME = "the Flex service"
# Codes that say "not yet": the statement is being made, its data are not there, the service is busy.
_LATER = frozenset(("1001", "1004", "1005", "1006", "1007", "1008", "1009", "1018", "1019", "1021"))
_BUSY = "1018"  # too many requests of this token: its minute has to go by
_REMEDIES = {
    "1010": "make an Activity Flex query in the Client Portal and name it in IBKR_FLEX_QUERY",
    "1011": "switch the Flex Web Service on in the Client Portal: Performance & Reports, Flex Queries",
    "1012": "make a new token in the Client Portal, Flex Web Service, and set IBKR_FLEX_TOKEN",
    "1013": "let this machine's address use the token: Client Portal, Flex Web Service",
    "1014": "set IBKR_FLEX_QUERY to the query's number, which the Client Portal shows beside its name",
    "1015": "set IBKR_FLEX_TOKEN to the token of the Client Portal, Flex Web Service",
    "1016": "add the account to the query",
}


def read(environ: Mapping[str, str]) -> Snapshot:
    """Return the accounts of the query IBKR_FLEX_QUERY as of its last day. Raises ServiceError where the service says
    no, or does not answer within MOST_SECONDS."""
    service = FlexService(environ.get("IBKR_FLEX_URL") or BASE, environ["IBKR_FLEX_TOKEN"])
    data = service.statement(environ["IBKR_FLEX_QUERY"].strip())
    parsed, sheet = parse_flex(data, "the answer of the Flex service", Hints())
    sheet.require_sound()
    return Snapshot(tuple(draft.done() for draft in parsed.drafts), tuple(sheet.notes))


class FlexService:
    """pauses: between requests; most: seconds until it gives up; all in seconds."""

    def __init__(
        self, base: str, token: str, pauses: Sequence[float] = PAUSES, most: float = MOST_SECONDS, minute: float = 60.0
    ) -> None:
        self._base, self._token = base.rstrip("/"), token
        self._pauses, self._most, self._minute = pauses, most, minute
        where = urllib.parse.urlsplit(self._base)
        on_loopback = is_loopback(where.hostname or "")
        if where.scheme != "https" and not on_loopback:
            raise UsageError(f"IBKR_FLEX_URL={one_line(base, 80)} would send the token in clear", remedy="use https://")
        # No redirect is followed: it would take the token to another address.
        handlers: list[Any] = [_NoRedirect, *([urllib.request.ProxyHandler({})] if on_loopback else [])]
        self._opener = urllib.request.build_opener(*handlers)

    def statement(self, query: str) -> bytes:
        """Return the document of a query."""
        until = time.monotonic() + self._most
        begun = self._asked("SendRequest", query, until, lambda data: bool(_reference(data)))
        return self._asked("GetStatement", _reference(begun), until, _is_whole)

    def _asked(self, what: str, query: str, until: float, is_answer: Callable[[bytes], bool]) -> bytes:
        """Ask until there is an answer. Asking again changes nothing at the broker, so that whatever was lost on the
        way is asked for again."""
        at = 0
        while True:
            code, why = "", ""
            try:
                data = within(REQUEST_SECONDS, lambda: self._once(what, query), "flex-request")
                if is_answer(data):
                    return data
                code, why = _said(data)
            except urllib.error.HTTPError as error:
                code, why = (str(error.code) if error.code < 500 and error.code != 429 else ""), f"status {error.code}"
            except (OutOfTime, http.client.HTTPException, OSError) as error:  # never its address, which has the token
                why = one_line(str(getattr(error, "reason", error)) or type(error).__name__, 80)
            if code and code not in _LATER:
                remedy = _REMEDIES.get(code, "look at the query in the Client Portal, and try again later")
                raise ServiceError(f"{_NAME} says no: {code} {why}", remedy=remedy)
            pause = self._minute if code == _BUSY else self._pauses[min(at, len(self._pauses) - 1)]
            if time.monotonic() + pause > until:
                last = f"{code} {why}".strip()
                raise ServiceError(
                    f"{_NAME} gave no statement within {self._most:g} s; its last answer: {last}",
                    remedy="try again in some minutes; nothing was written",
                )
            time.sleep(pause)
            at += 1

    def _once(self, what: str, query: str) -> bytes:
        given = urllib.parse.urlencode({"t": self._token, "q": query, "v": "3"})
        request = urllib.request.Request(f"{self._base}/{what}?{given}", headers={"User-Agent": "chordesk"})
        with self._opener.open(request, timeout=REQUEST_SECONDS) as answer:
            data: bytes = answer.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ServiceError(f"{_NAME} answers more than {MOST_BYTES:,} bytes", remedy="make the query smaller")
        return data


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def _reference(data: bytes) -> str:
    return _held(data).get("ReferenceCode", "")


def _is_whole(data: bytes) -> bool:
    return is_flex(data[:4096]) and data.rstrip().endswith(b"</FlexQueryResponse>")


def _said(data: bytes) -> tuple[str, str]:
    """Return (code, words) of an answer that is none yet. One that was cut has no code."""
    found = _held(data)
    if (code := one_line(found.get("ErrorCode", ""), 8)) or "ErrorMessage" in found:
        return code, one_line(found.get("ErrorMessage", "no reason"), 120)
    start = one_line(data[:60].decode(errors="replace"), 60)
    return "", f"{len(data)} bytes that are no whole statement, beginning {start!r}"


def _held(data: bytes) -> dict[str, str]:
    try:
        return texts(_NAME, data) if b"<FlexStatementResponse" in data[:4096] else {}
    except UsageError:
        return {}
