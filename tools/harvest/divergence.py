"""divergence: the same question at two venues at different prices; an arbitrage of a pair that a person confirmed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chordesk.models.board.signals import MAX_FINDINGS, Harvest, SignalDirection, SignalFinding
from chordesk.models.errors import MarketUnavailable
from chordesk.tools.harvest.context import HarvestContext, asleep, named
from chordesk.tools.harvest.headline import compose
from chordesk.tools.research.rows import plain_text
from chordesk.tools.venues.factory import build_venues
from chordesk.tools.venues.pairs import CONFIRMED, PairedQuestions, list_pairs, suggest_pairs
from chordesk.tools.venues.survey import ComparedPair, survey_pairs

NO_HISTORY = "event markets have no history here: a replay knows no venue"
MOST_PAIRS = 20  # asked for at once: two requests each, four of a confirmed one
_TITLE_CHARS, _WHY_CHARS = 160, 160
_GAP_BASIS = "none: a difference in price is no edge"
_EDGE_BASIS = "net / (net + 0.02) x shares / (shares + 100), net the edge a share after fees and interest"
_HEADLINE = "{first} has {firstProbability:.0%} and {second} {secondProbability:.0%} on {labels}{turned}: "
_ARBITRAGE = _HEADLINE + (
    "an arbitrage, {firstSide} for {firstPrice:.3f} and {secondSide} for {secondPrice:.3f}, net {edge:.4f} a share "
    "after costs over {shares:,.0f} shares"
)
_DIVERGENCE = _HEADLINE + "a divergence of {gap:+.1%}, no arbitrage: {why}"


def harvest(context: HarvestContext) -> Harvest:
    """Return how the board's questions differ from the same ones at other venues. Without a pair that a person
    confirmed it is called a divergence, whatever the prices are. New likely pairs are stored as suggestions."""
    tool = context.tool
    if tool.clock.day is not None:
        return asleep(NO_HISTORY)
    if not tool.settings.venues:
        return asleep("no event market is read: set DESK_VENUES")
    if tool.store is None:
        return asleep("not available: configure DESK_DATABASE_URL")
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
    found = [_finding(one, labels, missing) for one in survey.compared if _has_prices(one)]
    if not found:
        return asleep("a market of each pair has no price")
    return Harvest(findings=tuple(found[:MAX_FINDINGS]))


def _named(pair: PairedQuestions, labels: Mapping[str, str]) -> str:
    """Return the labels of a pair's questions on the board, with their venues."""
    found = [(labels[one.id], one.source) for one in (pair.first, pair.second) if one.id in labels]
    return " and ".join(f"{label} ({source})" for label, source in found)


def _has_prices(one: ComparedPair) -> bool:
    return one.comparison.gap is not None


def _finding(one: ComparedPair, labels: Mapping[str, str], missing: list[str]) -> SignalFinding:
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
    turned = ", each the other's inverse" if paired.pair.inverse else ""
    direction: SignalDirection = "arb" if arbitrage else "neutral"
    return SignalFinding(
        headline=compose(_ARBITRAGE if arbitrage else _DIVERGENCE, {**data, "turned": turned}),
        data=data,
        confidence=one.comparison.confidence if arbitrage else None,
        basis=_EDGE_BASIS if arbitrage else _GAP_BASIS,
        direction=direction,
        subjects=mine,
        source=f"{first.venue} and {second.venue}",
        as_of=max(market.as_of for market in one.markets),
        probability=_midpoint(one),
    )


def _midpoint(one: ComparedPair) -> float | None:
    """Return the mean of both prices, which is a forecast only where a person confirmed that they are of one question,
    the same way round; None where play money is one of them."""
    prices = [market.probability for market in one.markets]
    same = one.paired.pair.state == CONFIRMED and not one.paired.pair.inverse
    if not same or None in prices or any(market.play_money for market in one.markets):
        return None
    return round(sum(price for price in prices if price is not None) / 2, 4)
