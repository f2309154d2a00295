"""The settings DESK_CCXT_..."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from pydantic import BaseModel, field_validator

from chordesk.plugins import of_desk, of_process, of_run

_VENUE = re.compile(r"[a-z0-9]{2,40}")


class CcxtSettings(BaseModel):
    venue: str = of_run("kraken", "venue of the ccxt market, by its name in ccxt", "binance")
    money: str = of_desk(
        "", "what a venue's account counts in; empty: USD at Kraken, USDT at Binance", "EUR", pattern=r"[A-Z]{0,10}"
    )
    url: str = of_process(
        "", "a stand-in on this machine in place of the venue, for tests and trials", "http://127.0.0.1:8123"
    )

    @field_validator("venue")
    @classmethod
    def _known(cls, venue: str) -> str:
        if not _VENUE.fullmatch(venue):
            raise ValueError("give a venue by its name in ccxt, such as kraken, binance or bitstamp")
        return venue

    @field_validator("url")
    @classmethod
    def _near(cls, url: str) -> str:
        return near(url)


def near(url: str) -> str:
    """Return an address in place of a venue. What is sent there is signed with the account's keys: it goes to the
    venue, or stays on this machine. Raises ValueError for another one."""
    if url and (urlsplit(url).scheme != "http" or urlsplit(url).hostname not in ("127.0.0.1", "localhost", "::1")):
        raise ValueError("give an address of this machine, such as http://127.0.0.1:8123, or none")
    return url
