"""headlines: how many there are on each symbol, and the newest titles as outside text."""

from __future__ import annotations

import datetime as dt
from typing import Any

from chordesk.models.board.signals import MAX_FINDINGS, Harvest, SignalFinding
from chordesk.models.errors import NotConfigured
from chordesk.models.market import Headline
from chordesk.tools.harvest.context import NO_SYMBOL, HarvestContext, asleep, each, listed, named
from chordesk.tools.harvest.headline import compose
from chordesk.tools.news import published
from chordesk.tools.research.rows import plain_text

DAYS = 7
ASKED = 25  # of one symbol
_TITLES, _TITLE_CHARS = 3, 160
_BASIS = "none: titles are counted, not judged"
_HEADLINE = "{symbol}: {count} headlines in {days} days{more}, the newest of {newest}"


def harvest(context: HarvestContext) -> Harvest:
    """Return the symbols with the most headlines of the last 7 days; a symbol that could not be asked is missing."""
    if not context.symbols:
        return asleep(NO_SYMBOL)
    market = context.tool.market
    try:
        found, failed = each(context, lambda symbol: published(context.tool, market.headlines(symbol, ASKED)))
    except NotConfigured as error:
        return asleep(str(error))
    oldest = context.tool.clock.now() - dt.timedelta(days=DAYS)
    recent = {symbol: [row for row in rows if row.published_at >= oldest] for symbol, rows in found.items()}
    findings = [_finding(context, symbol, rows, sorted(failed)) for symbol, rows in recent.items() if rows]
    if not findings:
        without = f"; not asked: {listed(sorted(failed))}" if failed else ""
        return asleep(f"no headline on the questions' symbols in the last {DAYS} days{without}")
    findings.sort(key=lambda finding: (-finding.data["count"], finding.subjects))
    return Harvest(findings=tuple(findings[:MAX_FINDINGS]))


def _finding(context: HarvestContext, symbol: str, rows: list[Headline], missing: list[str]) -> SignalFinding:
    data: dict[str, Any] = {
        "symbol": symbol,
        "days": DAYS,
        "count": len(rows),
        "newest": rows[0].published_at.isoformat(timespec="minutes"),
        "outsideTitles": [plain_text(row.headline, _TITLE_CHARS) for row in rows[:_TITLES]],
        "outsideSources": sorted({plain_text(row.source, 40) for row in rows[:_TITLES]}),
        "missing": named(missing),
    }
    return SignalFinding(
        headline=compose(_HEADLINE, {**data, "more": " or more" if len(rows) >= ASKED else ""}),
        data=data,
        basis=_BASIS,
        subjects=(symbol,),
        source=f"{context.tool.market.name} headlines",
        as_of=rows[0].published_at,
    )
