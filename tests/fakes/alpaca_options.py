"""The far side of Alpaca's option data: snapshots of its data API and contracts of its trading API."""

from __future__ import annotations

import asyncio
import datetime as dt
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

Row = dict[str, Any]


def snapshot(bid: float, ask: float, at: str, **more: Any) -> Row:
    """A contract with a quote at a time, and the parts of a snapshot that are given."""
    quote = {"t": at, "bp": bid, "bs": 10, "bx": "C", "ap": ask, "as": 12, "ax": "B", "c": "A"}
    return {"latestQuote": quote, **more}


def contract_row(name: str, underlying: str, interest: int | None, day: str | None) -> Row:
    """A contract as the trading API has it; its figures are text."""
    expiry = dt.datetime.strptime(name[-15:-9], "%y%m%d").date().isoformat()
    return {
        "id": str(uuid.uuid5(uuid.NAMESPACE_OID, name)),
        "symbol": name,
        "name": name,
        "status": "active",
        "tradable": True,
        "expiration_date": expiry,
        "root_symbol": name[:-15],
        "underlying_symbol": underlying,
        "underlying_asset_id": str(uuid.uuid5(uuid.NAMESPACE_OID, underlying)),
        "type": "put" if name[-9] == "P" else "call",
        "style": "american",
        "strike_price": str(int(name[-8:]) / 1000),
        "size": "100",
        "open_interest": None if interest is None else str(interest),
        "open_interest_date": day,
    }


@dataclass
class FarOptions:
    """snapshots: by share and contract. interest: (open interest, its day) by contract. page: rows of a page.

    trouble: (status, text) by the start of a path, in place of its answer; `hang` as text never answers. endless: a
    page token that comes back for ever. feeds: those that the key may read.
    """

    snapshots: dict[str, dict[str, Any]] = field(default_factory=dict)
    interest: Mapping[str, tuple[int | None, str | None]] = field(default_factory=dict)
    page: int = 1000
    trouble: dict[str, tuple[int, str]] = field(default_factory=dict)
    endless: bool = False
    feeds: frozenset[str] = frozenset({"indicative"})
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    async def get_chain(self, request: Request) -> Response:
        symbol, wanted = request.path_params["symbol"], request.query_params
        if (refused := await self._refused(request)) is not None:
            return refused
        first, last = wanted["expiration_date_gte"], wanted["expiration_date_lte"]
        found = {
            name: row for name, row in self.snapshots.get(symbol, {}).items()
            if first <= self._expiry(name) <= last
        }  # fmt: skip
        return self._paged(request, found)

    async def get_snapshots(self, request: Request) -> Response:
        if (refused := await self._refused(request)) is not None:
            return refused
        known = {name: row for rows in self.snapshots.values() for name, row in rows.items()}
        names = request.query_params["symbols"].split(",")
        return self._paged(request, {name: known[name] for name in names if name in known})

    async def get_contracts(self, request: Request) -> Response:
        if (refused := await self._refused(request)) is not None:
            return refused
        wanted = request.query_params
        underlying = wanted["underlying_symbols"]
        rows = [
            contract_row(name, underlying, *self.interest[name])
            for name in self.snapshots.get(underlying, {}) if name in self.interest
        ]  # fmt: skip
        at, size = int(wanted.get("page_token") or 0), min(int(wanted.get("limit", 100)), self.page)
        token = str(at + size) if at + size < len(rows) else None
        return JSONResponse({"option_contracts": rows[at : at + size], "next_page_token": token})

    def _paged(self, request: Request, rows: Mapping[str, Any]) -> Response:
        wanted = request.query_params
        names = sorted(rows)
        at, size = int(wanted.get("page_token") or 0), min(int(wanted.get("limit", 100)), self.page)
        token = "0" if self.endless else str(at + size) if at + size < len(names) else None
        return JSONResponse(
            {"snapshots": {name: rows[name] for name in names[at : at + size]}, "next_page_token": token}
        )

    async def _refused(self, request: Request) -> Response | None:
        self.asked.append((request.url.path, dict(request.query_params)))
        for start, (status, text) in self.trouble.items():
            if request.url.path.startswith(start):
                if text == "hang":
                    await asyncio.sleep(60)
                return Response(text, status, media_type="application/json")
        feed = request.query_params.get("feed", "opra")
        if "snapshots" in request.url.path and feed not in self.feeds:
            return JSONResponse({"message": f"subscription does not permit querying {feed.upper()} data"}, 403)
        return None

    @staticmethod
    def _expiry(name: str) -> str:
        return f"20{name[-15:-13]}-{name[-13:-11]}-{name[-11:-9]}"
