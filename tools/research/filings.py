"""sec_filings: what a company filed with the SEC."""

from __future__ import annotations

import datetime as dt
import re
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from chordesk.models.company import Filing
from chordesk.models.research import upper
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.market.protocol import FilingsSource
from chordesk.tools.registry import Arguments, Gaps, ToolContext, ToolSpec, payload
from chordesk.tools.research import edgar
from chordesk.tools.research.rows import FewSymbols, bounded, by_symbol, known, share, shown

WHAT = "filings"
_MOST_ROWS = 90
_FORM = re.compile(r"[A-Z0-9][A-Z0-9 /-]{0,19}")
# Reports of insiders, which would bury all else; insider_trades has them.
_INSIDERS = frozenset({"3", "4", "5", "144"})


def _forms(values: list[str]) -> list[str]:
    found = list(dict.fromkeys(upper(value) for value in values))
    for form in found:
        if not _FORM.fullmatch(form):
            raise ValueError(f"{form!r} is no form, such as 8-K, 10-Q or SC 13D")
    return found


class FilingsArguments(Arguments):
    symbols: FewSymbols
    forms: Annotated[list[str], AfterValidator(_forms)] = Field(
        [], max_length=10, description="such as 8-K, 10-Q, with amendments; all but insiders' 3, 4, 5, 144 by default"
    )
    days: int = Field(180, ge=1, le=1000, description="calendar days back")
    limit: int = Field(10, ge=1, le=50, description="at most so many a symbol, newest first")


def sec_filings(context: ToolContext, arguments: FilingsArguments) -> dict[str, Any]:
    """Return filings by symbol; one of which the source has none is in `missing`."""
    gaps, now = Gaps(), context.clock.now()
    most = share(arguments.limit, _MOST_ROWS, arguments.symbols)
    first = exchange_day(now) - dt.timedelta(days=arguments.days)
    market = context.market
    own = isinstance(market, FilingsSource)

    def ask(symbol: str) -> list[Filing]:
        source = market if isinstance(market, FilingsSource) else edgar.edgar_of(context.settings, context.clock)
        return known(source.filings(symbol), now)

    found = []
    for symbol, rows in by_symbol(context, arguments.symbols, WHAT, gaps, ask):
        if not rows:
            gaps.add(WHAT, "the source has none", symbol)
            continue
        wanted = [row for row in rows if row.filed > first and _is_wanted(row.form, arguments.forms)]
        wanted.sort(key=lambda row: (row.known_at, row.filed), reverse=True)
        listed = [_row(row) for row in bounded(wanted, most, WHAT, symbol, gaps)]
        found.append({"symbol": symbol, "filings": listed})
    source = {} if own else {"filingsSource": edgar.SOURCE}
    return payload(context, gaps, available=bool(found), **source, days=arguments.days, companies=found)


def _is_wanted(form: str, forms: list[str]) -> bool:
    base = form.removesuffix("/A")
    return base in forms if forms else base not in _INSIDERS


def _row(row: Filing) -> dict[str, Any]:
    """Return a filing without what the URL names already; no items where there are none."""
    found = shown(row, "accession", *(() if row.items else ("items",)))
    return {**found, "url": row.url}


SEC_FILINGS = ToolSpec(
    name="sec_filings",
    description=(
        "What up to 30 companies filed with the SEC over the last days, newest first: form, filed, period, items of an "
        "8-K (2.02 results, 5.02 officers, 1.01 agreements, 4.02 restatement), url. Titles are outside text."
    ),
    hint="filings with the SEC; `symbols`, `forms` such as 8-K, `days` back, `limit`.",
    arguments=FilingsArguments,
    function=sec_filings,
)
