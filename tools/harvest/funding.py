"""funding: what positions in perpetual contracts of coins pay, against each coin's own month and between venues."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from typing import Any

from chordesk.models.board.questions import BoardQuestion
from chordesk.models.board.signals import MAX_FINDINGS, Harvest, SignalDirection, SignalFinding
from chordesk.models.errors import DeskError
from chordesk.tools.harvest.context import HarvestContext, asleep, named
from chordesk.tools.harvest.headline import compose
from chordesk.tools.research.rows import plain_text
from chordesk.tools.venues.factory import build_funding
from chordesk.tools.venues.funding import DAYS, FundingFigures, funding_figures
from chordesk.tools.venues.wires.rates import OWN

NO_HISTORY = "funding rates have no history here: a replay knows none"
ALWAYS = ("BTC", "ETH")  # the market's background, when no question is about another coin
NAMES = {
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
MOST, _FAR = 0.1, 3.0
_NAME_CHARS = 20
_BASIS = (
    f"{MOST:g} x |z| / {_FAR:g}, at most {MOST:g}, against the payers' side: a hypothesis to score, not a fact; "
    "null without a z-score"
)
_HEADLINE = "{coin} funding is {annual:+.1%} a year at {venue}; "
_PAID = "{sameSign} of the last {payments} payments had its sign{beside}{between}"
_UNPAID = "no payment of the last {days} days is known{between}"
_TERM = re.compile(r"[A-Za-z]{2,10}")
# YES of such a question is the fall of the coin: the direction of a signal would be read the wrong way round.
_OF_A_FALL = re.compile(r"(?i)\b(?:below|under|less|lower|lowest|falls?|drops?|dips?|loses?|crash(?:es)?|down)\b")


def harvest(context: HarvestContext) -> Harvest:
    """Return the funding of the coins that questions name, then of bitcoin and ether. A coin of which the history could
    not be read is missing."""
    tool = context.tool
    if tool.clock.day is not None:
        return asleep(NO_HISTORY)
    if not tool.settings.funding:
        return asleep("funding rates are not read: set DESK_FUNDING=1")
    wire, now = build_funding(tool.settings), tool.clock.now()
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
    findings = [_finding(one, asked[one.coin], missing, now) for one in found if one.annual]
    if not findings:
        return asleep(f"no annual rate of {', '.join(chosen)}" if chosen else "no coin has a rate")
    findings.sort(key=lambda one: (one.subjects == (one.data["coin"],), -(one.confidence or 0.0)))
    return Harvest(findings=tuple(findings))


def labels_of(coin: str, questions: Sequence[BoardQuestion]) -> tuple[str, ...]:
    """Return the labels of the questions that name a coin, but for those about its fall. A question about shares names
    none, whatever its symbol."""
    named_by = (one for one in questions if not one.subjects and coin in _coins_in(one.text))
    return tuple(one.label for one in named_by if not _OF_A_FALL.search(one.text))


def _coins_in(text: str) -> set[str]:
    """Return the coins that a text names, by name or by a ticker in capitals."""
    terms = _TERM.findall(text)
    return {term for term in terms if term.isupper()} | {NAMES[term.upper()] for term in terms if term.upper() in NAMES}


def _finding(found: FundingFigures, labels: tuple[str, ...], missing: list[str], now: dt.datetime) -> SignalFinding:
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
    texts = {
        "beside": "" if found.z is None else compose(", z-score {z:+.1f} in {days} days", data),
        "between": "" if found.spread is None else compose("; venues differ by {spread:.1%}", data),
    }
    confidence = None if found.z is None else round(min(MOST * abs(found.z) / _FAR, MOST), 4)
    return SignalFinding(
        headline=compose(_HEADLINE + (_PAID if found.payments else _UNPAID), {**data, **texts}),
        data=data,
        confidence=confidence,
        basis=_BASIS,
        direction=_direction(found.z),
        subjects=labels or (found.coin,),
        source="hyperliquid predicted and paid funding",
        as_of=now,
    )


def _direction(z: float | None) -> SignalDirection:
    return "neutral" if not z else "bearish" if z > 0 else "bullish"
