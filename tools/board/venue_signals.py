"""Signals of event venues and funding rates: the same question at different prices, and what perpetual
contracts pay."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from typing import Any

from chordesk.models.board.forecasts import MAX_FINDINGS, Harvest
from chordesk.models.errors import DeskError, MarketUnavailable
from chordesk.models.questions import BoardQuestion
from chordesk.models.tables.board import SignalDirection, SignalFinding
from chordesk.tools.board.harvest_context import Finding, HarvestContext, asleep, best, compose, named
from chordesk.tools.board.venues.funding import DAYS, OWN, FundingFigures, funding_figures
from chordesk.tools.board.venues.named_venues import build_funding, build_venues
from chordesk.tools.board.venues.pairs import (
    CONFIRMED,
    ComparedPair,
    PairedQuestions,
    list_pairs,
    suggest_pairs,
    survey_pairs,
)
from chordesk.tools.model_tools.company_data import plain_text

NO_VENUE_HISTORY = "event markets have no history here: a replay knows no venue"
MOST_PAIRS = 20  # asked for at once: two requests each, four of a confirmed one
_TITLE_CHARS, _WHY_CHARS = 160, 160
_PAIR = "{first} has {firstProbability:.0%} and {second} {secondProbability:.0%} on {labels}{turned}: "
_ARBITRAGE = Finding(
    _PAIR + "an arbitrage, {firstSide} for {firstPrice:.3f} and {secondSide} for {secondPrice:.3f}, net {edge:.4f} a "
    "share after costs over {shares:,.0f} shares",
    "net / (net + 0.02) x shares / (shares + 100), net the edge a share after fees and interest",
    "{venues}",
)
_DIVERGENCE = Finding(
    _PAIR + "a divergence of {gap:+.1%}, no arbitrage: {why}", "none: a difference in price is no edge", "{venues}"
)


def divergence_signals(context: HarvestContext) -> Harvest:
    """Return how the board's questions differ from the same ones at other venues. Without a pair that a person
    confirmed it is called a divergence, whatever the prices are. New likely pairs are stored as suggestions."""
    tool = context.tool
    if tool.clock.day is not None:
        return asleep(NO_VENUE_HISTORY)
    if not build_venues(tool.settings):
        return asleep("no event market is read: set DESK_VENUES")
    if tool.store is None:
        return asleep("not available: this home has no database yet; run `desk up`, or set DESK_DATABASE_URL")
    labels = {question.id: question.label for question in context.questions}
    with tool.store.session() as session:
        suggest_pairs(session)
        pairs = [pair for pair in list_pairs(session) if labels.keys() & {pair.first.id, pair.second.id}]
    if not pairs:
        return asleep("no question of the board has a likely pair at another venue")
    survey = survey_pairs(
        pairs[:MOST_PAIRS], build_venues(tool.settings), tool.settings.risk_free_rate, tool.clock.now()
    )
    if survey.failed and not survey.compared:
        raise MarketUnavailable(next(iter(survey.failed.values())))
    missing = [_named(pair, labels) for pair in pairs if pair.pair.id in survey.failed or pair in pairs[MOST_PAIRS:]]
    found = [_pair_finding(context, one, labels, missing) for one in survey.compared if one.comparison.gap is not None]
    if not found:
        return asleep("a market of each pair has no price")
    return Harvest(findings=tuple(found[:MAX_FINDINGS]))


def _named(pair: PairedQuestions, labels: Mapping[str, str]) -> str:
    found = [(labels[one.id], one.source) for one in (pair.first, pair.second) if one.id in labels]
    return " and ".join(f"{label} ({source})" for label, source in found)


def _pair_finding(
    context: HarvestContext, one: ComparedPair, labels: Mapping[str, str], missing: list[str]
) -> SignalFinding:
    first, second = one.markets
    paired, edge = one.paired, one.comparison.edge
    arbitrage = one.comparison.kind == "arbitrage" and edge is not None
    mine = tuple(labels[row.id] for row in (paired.first, paired.second) if row.id in labels)
    data: dict[str, Any] = {
        "labels": " and ".join(mine),
        "first": first.venue,
        "firstProbability": first.probability,
        "second": second.venue,
        "secondProbability": second.probability,
        "inverse": paired.pair.inverse,
        "gap": one.comparison.gap,
        "pair": paired.pair.state,
        "why": plain_text(one.comparison.basis, _WHY_CHARS),
        "playMoney": [market.venue for market in one.markets if market.play_money],
        "outsideTitles": [plain_text(market.question, _TITLE_CHARS) for market in one.markets],
        "missing": named(missing),
    }
    if edge is not None:
        data |= {
            "firstSide": edge.legs[0].side.upper(),
            "secondSide": edge.legs[1].side.upper(),
            "firstPrice": edge.prices[0],
            "secondPrice": edge.prices[1],
            "edge": round(edge.per_share, 4),
            "shares": round(edge.shares, 2),
            "fees": round(edge.fees, 4),
        }
    return (_ARBITRAGE if arbitrage else _DIVERGENCE).of(
        context,
        data,
        one.comparison.confidence if arbitrage else None,
        mine,
        "arb" if arbitrage else "neutral",
        as_of=max(market.as_of for market in one.markets),
        probability=_midpoint(one),
        turned=", each the other's inverse" if paired.pair.inverse else "",
        venues=f"{first.venue} and {second.venue}",
    )


def _midpoint(one: ComparedPair) -> float | None:
    """Return the mean of both prices: a forecast only if a person confirmed that both ask the same question. None for
    an inverse pair, and if a price is play money."""
    prices = [market.probability for market in one.markets]
    same = one.paired.pair.state == CONFIRMED and not one.paired.pair.inverse
    if not same or None in prices or any(market.play_money for market in one.markets):
        return None
    return round(sum(price for price in prices if price is not None) / 2, 4)


NO_FUNDING_HISTORY = "funding rates have no history here: a replay knows none"
ALWAYS = ("BTC", "ETH")  # the market's background, when no question is about another coin
COIN_NAMES = {
    "BITCOIN": "BTC",
    "ETHER": "ETH",
    "ETHEREUM": "ETH",
    "SOLANA": "SOL",
    "DOGECOIN": "DOGE",
    "RIPPLE": "XRP",
    "CARDANO": "ADA",
    "LITECOIN": "LTC",
}
# One extreme rate moves a forecast by at most .05: that it turns is a hypothesis, which its score will show.
MOST_FUNDING, _FAR = 0.1, 3.0
_NAME_CHARS = 20
_FUNDING = Finding(
    "{coin} funding is {annual:+.1%} a year at {venue}; {paid}{between}",
    f"{MOST_FUNDING:g} x |z| / {_FAR:g}, at most {MOST_FUNDING:g}, against the payers' side: "
    "a hypothesis to score, not a fact; null without a z-score",
    "hyperliquid predicted and paid funding",
)
_PAID = "{sameSign} of the last {payments} payments had its sign"
_UNPAID = "no payment of the last {days} days is known"
_TERM = re.compile(r"[A-Za-z]{2,10}")
# YES of such a question is the fall of the coin: the direction of a signal would be read the wrong way round.
_OF_A_FALL = re.compile(r"(?i)\b(?:below|under|less|lower|lowest|falls?|drops?|dips?|loses?|crash(?:es)?|down)\b")


def funding_signals(context: HarvestContext) -> Harvest:
    """Funding of the coins that questions name, then of bitcoin and ether."""
    tool = context.tool
    if tool.clock.day is not None:
        return asleep(NO_FUNDING_HISTORY)
    if "hyperliquid" not in tool.settings.venues:
        return asleep("funding rates are not read: DESK_VENUES does not name hyperliquid")
    wire, now = build_funding(), tool.clock.now()
    predicted = wire.predicted()
    asked = {coin: labels_of(coin, context.questions) for coin in predicted}
    coins = [coin for coin, labels in asked.items() if labels]
    chosen = [*coins, *(coin for coin in ALWAYS if coin in predicted and coin not in coins)][:MAX_FINDINGS]
    found, missing = list[FundingFigures](), list[str]()
    for coin in chosen:
        try:
            paid = wire.history(coin, now - dt.timedelta(days=DAYS), now)
        except DeskError:
            missing.append(coin)
            paid = ()
        found.append(funding_figures(coin, predicted[coin], paid, now))
    findings = [_funding_finding(context, one, asked[one.coin], missing, now) for one in found if one.annual]
    if not findings:
        return asleep(f"no annual rate of {', '.join(chosen)}" if chosen else "no coin has a rate")
    return best(findings, lambda one: (one.subjects == (one.data["coin"],), -(one.confidence or 0.0)))


def labels_of(coin: str, questions: Sequence[BoardQuestion]) -> tuple[str, ...]:
    """Labels of questions that name a coin, but for those about its fall. A question about shares names none."""
    named_by = (one for one in questions if not one.subjects and coin in _coins_in(one.text))
    return tuple(one.label for one in named_by if not _OF_A_FALL.search(one.text))


def _coins_in(text: str) -> set[str]:
    terms = _TERM.findall(text)
    return {term for term in terms if term.isupper()} | {
        COIN_NAMES[term.upper()] for term in terms if term.upper() in COIN_NAMES
    }


def _funding_finding(
    context: HarvestContext, found: FundingFigures, labels: tuple[str, ...], missing: list[str], now: dt.datetime
) -> SignalFinding:
    annual = {plain_text(name, _NAME_CHARS): rate for name, rate in sorted(found.annual.items())}  # its own names
    venue = OWN if OWN in annual else min(annual)
    data: dict[str, Any] = {
        "coin": found.coin,
        "venue": venue,
        "annual": round(annual[venue], 6),
        "byVenue": {name: round(rate, 6) for name, rate in annual.items()},
        "z": None if found.z is None else round(found.z, 2),
        "days": DAYS,
        "sameSign": found.same_sign,
        "payments": found.payments,
        "spread": None if found.spread is None else round(found.spread, 6),
        "lacks": [plain_text(line, 120) for line in found.lacks[:5]],
        "missing": named(missing),
    }
    beside = "" if found.z is None else compose(", z-score {z:+.1f} in {days} days", data)
    direction: SignalDirection = "neutral" if not found.z else "bearish" if found.z > 0 else "bullish"
    return _FUNDING.of(
        context,
        data,
        None if found.z is None else min(MOST_FUNDING * abs(found.z) / _FAR, MOST_FUNDING),
        labels or (found.coin,),
        direction,
        as_of=now,
        paid=compose(_PAID, data) + beside if found.payments else compose(_UNPAID, data),
        between="" if found.spread is None else compose("; venues differ by {spread:.1%}", data),
    )
