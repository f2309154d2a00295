"""A company's overview as a few lines of Markdown, made by code of the sections: no figure that they lack."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chordesk.tools.research.rows import plain_text

# What the lines are made of.
SUMMARISED = ("signals", "fundamentals", "earnings", "ratings", "insiders")
_MARKUP = re.compile(r"([\\`*_\[\]<>|#~])")
Row = Mapping[str, Any]


def summary_markdown(overview: Row, sections: Mapping[str, Row], source: str) -> str:
    """Return the lines of one company. overview: its name, sector, industry and last close; sections: those of
    SUMMARISED that are known. Each line has its source and the time of its figures; the last names what is not
    known."""
    lines = [_title(overview)]
    for name, line in _LINES.items():
        if (section := sections.get(name)) is not None and (text := line(section)):
            lines.append(f"- {text} ({source}, {section.get('knownAt') or section.get('date')})")
    lacking = [name for name in SUMMARISED if name not in sections]
    if lacking:
        lines.append(f"- Not known: {', '.join(lacking)}")
    return "\n".join(lines)


def _title(overview: Row) -> str:
    names = [_escaped(overview[name]) for name in ("name", "sector", "industry") if overview.get(name)]
    close = overview.get("lastClose")
    priced = f"last price {close:g}" if close is not None else "last price not known"
    return f"**{overview['symbol']}** {', '.join([*names, priced])}"


def _escaped(text: str) -> str:
    """Return other people's text without a meaning in Markdown."""
    return _MARKUP.sub(r"\\\1", plain_text(text))


def _signals(row: Row) -> str:
    return _joined(
        _percent("20 sessions", row.get("momentum20")),
        _percent("60 sessions", row.get("momentum60")),
        _figure("RSI 14", row.get("rsi14")),
        _percent(f"from the high of {row.get('highSessions')} sessions", row.get("fromHigh")),
        _percent("volatility a year", row.get("volatility20"), signed=False),
    )


def _fundamentals(row: Row) -> str:
    return _joined(
        _figure("trailing P/E", row.get("trailingPE")),
        _figure("forward P/E", row.get("forwardPE")),
        _percent("revenue growth", row.get("revenueGrowth")),
        _percent("profit margin", row.get("profitMargin")),
        _figure("debt to equity in percent", row.get("debtToEquityPercent")),
    )


def _earnings(row: Row) -> str:
    date = row.get("earningsDate")
    return _joined(
        f"earnings date {date}" if date else "",
        _figure("trailing EPS", row.get("trailingEps")),
        _figure("forward EPS", row.get("forwardEps")),
    )


def _ratings(row: Row) -> str:
    rating = row.get("recommendation")
    return _joined(
        f"recommendation {_escaped(str(rating))}" if rating else "",
        _figure("analysts", row.get("analysts")),
        _figure("mean target", row.get("targetMean")),
        _figure("low", row.get("targetLow")),
        _figure("high", row.get("targetHigh")),
    )


def _insiders(row: Row) -> str:
    return _joined(
        f"insiders of {row['days']} days: {row['bought']} purchases, {row['sold']} sales",
        _figure("net shares", row.get("netShares")),
        _figure("net value", row.get("netValue")),
    )


_LINES: Mapping[str, Callable[[Row], str]] = dict(
    zip(SUMMARISED, (_signals, _fundamentals, _earnings, _ratings, _insiders), strict=True)
)


def _joined(*texts: str) -> str:
    found: Sequence[str] = [text for text in texts if text]
    return ", ".join(found)


def _figure(name: str, value: Any) -> str:
    return f"{name} {round(value, 2):,.10g}" if isinstance(value, int | float) else ""


def _percent(name: str, value: Any, *, signed: bool = True) -> str:
    return f"{name} {value:{'+' if signed else ''}.1%}" if isinstance(value, int | float) else ""
