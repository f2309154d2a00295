"""The policies of the research analyst, and of the text around a synthesis."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from chordesk.agents.rulebook import thresholds as limits
from chordesk.agents.rulebook.case import PREFIX, Call, Case, Payload, number, shown
from chordesk.agents.rulebook.policies.analyst_texts import level_of, row_of, summary_text
from chordesk.agents.rulebook.policies.validators import ADVERSE, symbol_of
from chordesk.agents.rulebook.policy import policy
from chordesk.agents.rulebook.thresholds import Level

_RISK = {Level.CALM: "low", Level.CAUTION: "moderate", Level.REJECT: "high"}
_SEVERE = re.compile(r"\b(bankrupt\w*|delist\w*|fraud|halt\w*|insolven\w*|restat\w*)\b", re.IGNORECASE)


@policy("research")
def research(case: Case) -> Call | Payload:
    """Check headlines, the next report against the contract's expiry, and short interest; what is unknown stays so."""
    symbol = symbol_of(case)
    one = {"symbols": [symbol]}
    plan = [
        Call("news_list", {**one, "limit": limits.HEADLINES}),
        Call("earnings_dates", {**one, "limit": 0}),
        Call("short_interest", one),
    ]
    if call := case.next_call(plan):
        return call
    news, severe, dates = _news(case, symbol)
    earnings, due = _earnings(case, symbol)
    texts, risks = [], []
    if news is not None:
        texts.append(f"adverse headlines of {', '.join(dates)}" if dates else "no adverse headline")
        risks += ["Rule adverse_news: see the headlines of these days"] if dates else []
    if earnings is not None:
        texts.append(due)
        risks += [f"Rule earnings: {due}"] if earnings == "high" else []
    shorts, short = _shorts(case, symbol)
    if shorts is not None:
        texts.append(short)
        risks += [f"Rule {limits.SHORT_RULE.key}: {short}"] if shorts != "low" else []
    lacking = [
        name for name, value in (("headlines", news), ("earnings date", earnings), ("short interest", shorts))
        if value is None
    ]  # fmt: skip
    return {
        "recommendation": "reject" if severe else "pass",
        "confidence": "high" if not lacking else "medium" if len(lacking) == 1 else "low",
        "newsRisk": news,
        "earningsRisk": earnings,
        "shortInterestRisk": shorts,
        "summary": summary_text(case, texts, lacking),
        "keyRisks": risks,
    }


def _news(case: Case, symbol: str) -> tuple[str | None, bool, list[str]]:
    """Return the risk, whether the headlines reject the symbol, and the days of adverse ones. Headlines are counted and
    never quoted: they are outside text."""
    if not case.has_data("news_list"):
        return None, False, []
    rows = [row for row in case.rows("news_list", "headlines") if row.get("symbol") == symbol]
    adverse = [row for row in rows if ADVERSE.search(str(row.get("headline", "")))]
    severe = sum(bool(_SEVERE.search(str(row.get("headline", "")))) for row in rows)
    level = limits.ADVERSE_NEWS_RULE.level(len(adverse))
    risk = _RISK[level]
    days = sorted({str(row.get("publishedAt", ""))[:10] for row in adverse})
    return risk, limits.SEVERE_NEWS_RULE.level(severe) is Level.REJECT, days


def _earnings(case: Case, symbol: str) -> tuple[str | None, str]:
    """Return the risk of the next report, and its text. Before the expiry of the chosen contract it is high."""
    coming = row_of(case.rows("earnings_dates", "earnings"), symbol).get("next")
    if not isinstance(coming, dict) or not coming.get("date"):
        return None, ""
    day, text = str(coming["date"]), f"next report on {coming['date']}"
    chosen = case.subject.get("options")
    expiry = chosen.get("best_expiration") if isinstance(chosen, dict) else None
    if expiry is not None:
        return ("high", f"{text}, before the expiry") if day <= str(expiry) else ("low", f"{text}, after the expiry")
    level = level_of(limits.EARNINGS_RULE, number(coming, "daysUntil"))
    return ("low" if level is Level.CALM else "moderate"), text


def _shorts(case: Case, symbol: str) -> tuple[str | None, str]:
    """Return the risk of the shares sold short, and its text."""
    row = row_of(case.rows("short_interest", "shortInterest"), symbol)
    share = number(row, limits.SHORT_RULE.field)
    if share is None:
        return None, ""
    risk = _RISK[limits.SHORT_RULE.level(share)]
    return risk, f"{limits.SHORT_RULE.title} {shown(share, limits.SHORT_RULE.unit)} on {row.get('date')}"


@policy("synthesis")
def synthesis(case: Case) -> Call | Payload:
    """Copy what the synthesis has: its recommendation, reasons and checks."""
    found = case.subject.get("synthesis")
    made: Mapping[str, Any] = found if isinstance(found, dict) else {}
    contract = f", {made['contract']}" if made.get("contract") else ""
    strategy = case.subject.get("strategy")
    reasons = [str(text) for text in made.get("reasons") or []]
    checks = [str(one.get("text")) for one in made.get("checks") or [] if isinstance(one, dict)]
    texts = "; ".join(text.rstrip(".") for text in (*reasons, *checks)) or "nothing else is stated"
    return {
        "headline": f"{PREFIX} {made.get('recommendation')} {symbol_of(case)} for {strategy}{contract}.",
        "summary": f"{PREFIX} {texts}.",
        "keyRisks": [str(risk) for risk in made.get("key_risks") or made.get("keyRisks") or []],
    }
