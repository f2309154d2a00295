"""options_unusual and volatility_get: volume out of the ordinary, and implied beside realised volatility."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field
from typing_extensions import TypedDict

from chordesk.models.market import ChainRow, OptionChain
from chordesk.models.tables.orders import OptionMark
from chordesk.tools.decimals import rounded
from chordesk.tools.market.clock import clock_day, day_of
from chordesk.tools.market.option_pricing import yang_zhang
from chordesk.tools.market.prices import History
from chordesk.tools.market.protocol import PastChainSource
from chordesk.tools.options import option_contracts
from chordesk.tools.options.option_contracts import (
    ChainInputs,
    ContractFigures,
    Past,
    UsableChain,
    contract_figures,
    inputs_of,
    mid_of,
    usable_chains,
    usable_rows,
)
from chordesk.tools.prices import price_figures
from chordesk.tools.prices.daily_bars import histories, note_holes
from chordesk.tools.registry import DISTINCT, Answer, Arguments, Gaps, Symbol, ToolContext, ToolSpec, payload, tickers

FIRST_DAY, LAST_DAY, WANTED_DAY = 7, 60, 30  # days to expiry of the chain, and of the expiry that is looked at
_BARS = 273  # so that a rank is of 252 sessions
_LONGEST = 61
_SKEW_DELTA = 0.25
_NEAR_DELTA = 0.1
_IMPLIED = (
    "expiry", "dte", "strike", "iv", "ivHvRatio", "impliedMove", "putSkew", "putSkewStrike", "termStructure",
    "termSlope",
)  # fmt: skip


class VolatilityArguments(Arguments):
    symbols: Annotated[list[Symbol], tickers(10), DISTINCT]


class Implied(NamedTuple):
    """Volatility at the money of the expiry nearest to 30 days: the mean of the put and the call at the strike nearest
    to the spot. skew: of a put out of the money less that at the money, as in Xing, Zhang and Zhao 2010. terms: days
    and volatility at the money of each expiry that has one; their slope, the last less the first, as in Vasquez 2017.
    """

    expiry: dt.date
    days: int
    strike: float
    iv: float | None
    move: float | None  # their mids together / spot
    skew: float | None  # that of the put with a delta near -.25, less the one at the money
    skew_strike: float | None
    terms: list[tuple[int, float]]

    @property
    def slope(self) -> float | None:
        return self.terms[-1][1] - self.terms[0][1] if len(self.terms) > 1 else None


class VolatilityRow(TypedDict):
    symbol: str
    hv20: float | None
    hv60: float | None
    yangZhang20: float | None
    hvRank: float | None
    hvRankSessions: int | None
    expiry: dt.date | None
    dte: int | None
    strike: float | None
    iv: float | None
    ivHvRatio: float | None
    impliedMove: float | None
    putSkew: float | None
    putSkewStrike: float | None
    termStructure: list[tuple[int, float | None]] | None
    termSlope: float | None
    ivRank: float | None
    ivRankDays: int


class VolatilityAnswer(Answer):
    chains: list[ChainInputs]
    volatilities: list[VolatilityRow]


def volatility_get(context: ToolContext, arguments: VolatilityArguments) -> dict[str, Any]:
    gaps, rate = Gaps(), context.settings.risk_free_rate
    symbols, today = arguments.symbols, clock_day(context.clock)
    found = {one.symbol: one for one in histories(context, symbols, gaps, _BARS)}
    note_holes(list(found.values()), gaps, _LONGEST)
    chains = {one.chain.symbol: one for one in usable_chains(context, symbols, FIRST_DAY, LAST_DAY, gaps)}
    implied = {symbol: one for symbol, chain in chains.items() if (one := implied_of(chain, rate, gaps)) is not None}
    past = _past(context, [one.chain for one in chains.values()])
    rows, own = [], isinstance(context.market, PastChainSource)
    for symbol in symbols:
        if symbol in found or symbol in implied:
            close = found[symbol].spread.close if symbol in found else None
            realised = price_figures.volatility(close, 20) if close is not None else None
            both = {**_realised(found.get(symbol)), **_implied(implied.get(symbol), realised)}
            rows.append({"symbol": symbol, **both, **_rank(symbol, implied.get(symbol), past.get(symbol), gaps, own)})
    at_the_money = {symbol: one.iv for symbol, one in implied.items()}
    kept = [option_contracts.mark_of(chain, at_the_money.get(symbol)) for symbol, chain in chains.items()]
    option_contracts.keep(context.store, kept)
    inputs = [inputs_of(chain.chain, rate, today) for chain in chains.values()]
    return payload(context, gaps, available=bool(rows), chains=inputs, volatilities=rows)


def _past(context: ToolContext, chains: Sequence[OptionChain]) -> dict[str, Past]:
    """Return the past of each chain: the days that the desk has stored, and those before the chain's that the market
    itself has chains of, which are stored too."""
    past, market = option_contracts.past(context.store, chains), context.market
    if not isinstance(market, PastChainSource):
        return past
    made: list[OptionMark] = []
    for chain in chains:
        since = day_of(chain.at, chain.symbol) - option_contracts.LOOK_BACK
        rows = past[chain.symbol].rows
        earlier = market.past_chains(chain.symbol, (FIRST_DAY, LAST_DAY), {row.day for row in rows})
        marks = []
        for one in earlier:
            if day_of(one.at, one.symbol) < since:
                break
            usable = UsableChain(one, usable_rows(one, day_of(one.at, one.symbol), Gaps()))
            implied = implied_of(usable, context.settings.risk_free_rate, Gaps())
            marks.append(option_contracts.mark_of(usable, implied.iv if implied is not None else None))
        past[chain.symbol] = Past(tuple(sorted((*rows, *marks), key=lambda row: row.day)))
        made += marks
    option_contracts.keep(context.store, made)
    return past


def implied_of(found: UsableChain, rate: float, gaps: Gaps) -> Implied | None:
    """Return the implied figures of a chain; missing ones go into `gaps`."""
    symbol, spot = found.chain.symbol, found.chain.spot
    today = day_of(found.chain.at, found.chain.symbol)
    if not found.rows:
        gaps.add("iv", f"no contract expires in {FIRST_DAY} to {LAST_DAY} days", symbol)
        return None
    lines = {day: _at_the_money(found, day) for day in sorted({row.contract.expiry for row in found.rows})}
    expiry = min(lines, key=lambda day: abs((day - today).days - WANTED_DAY))
    if not lines[expiry]:
        gaps.add("iv", f"no strike of {expiry} has both a put and a call", symbol)
        return None
    pairs = {day: [contract_figures(row, found.chain, rate) for row in rows] for day, rows in lines.items()}
    ivs = {day: _mean([one.iv for one in pair]) for day, pair in pairs.items()}
    pair, iv, mids = pairs[expiry], ivs[expiry], [one.mid for one in pairs[expiry]]
    if iv is None:
        why = "; ".join(f"{one.row.contract.symbol}: {one.problem}" for one in pair if one.iv is None)
        gaps.add("iv", f"not at the money of {expiry}: {why}", symbol)
    terms = [((day - today).days, value) for day, value in ivs.items() if value is not None]
    if len(terms) < 2:
        gaps.add(
            "termSlope",
            f"of {len(lines)} expiries {len(terms)} has a volatility at the money, and a slope needs two",
            symbol,
        )
    move = sum(mids) / spot if None not in mids else None  # type: ignore[arg-type]
    line = [contract_figures(row, found.chain, rate) for row in found.rows if row.contract.expiry == expiry]
    wing = _wing(line)
    if wing is None:
        gaps.add(
            "putSkew",
            f"no put of {expiry} with a delta within {_NEAR_DELTA} of -{_SKEW_DELTA} has a volatility",
            symbol,
        )
    skew = wing.iv - iv if wing is not None and wing.iv is not None and iv is not None else None
    days = (expiry - today).days
    wing_strike = float(wing.row.contract.strike) if wing is not None else None
    return Implied(expiry, days, float(pair[0].row.contract.strike), iv, move, skew, wing_strike, terms)


def _at_the_money(found: UsableChain, expiry: dt.date) -> list[ChainRow]:
    """Return the put and the call of the strike nearest to the spot that has both; none where no strike has."""
    rows = [row for row in found.rows if row.contract.expiry == expiry]
    puts, calls = ({row.contract.strike for row in rows if row.contract.kind == kind} for kind in ("put", "call"))
    strike = min(puts & calls, key=lambda level: (abs(float(level) - found.chain.spot), level), default=None)
    return [row for row in rows if row.contract.strike == strike]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _wing(line: Sequence[ContractFigures]) -> ContractFigures | None:
    """Return the put whose delta is nearest to -.25, if it is near."""
    puts = [(abs(one.greeks.delta + _SKEW_DELTA), one) for one in line if _has_delta(one) and one.greeks is not None]
    away, wing = min(puts, key=lambda pair: pair[0], default=(1.0, None))
    return wing if away <= _NEAR_DELTA else None


def _has_delta(one: ContractFigures) -> bool:
    return one.row.contract.kind == "put" and one.greeks is not None and one.iv is not None


def _realised(history: History | None) -> dict[str, Any]:
    if history is None:
        return dict.fromkeys(("hv20", "hv60", "yangZhang20", "hvRank", "hvRankSessions"))
    spread = history.spread
    rank, sessions = price_figures.volatility_rank(spread.close)
    return {
        "hv20": rounded(price_figures.volatility(spread.close, 20)),
        "hv60": rounded(price_figures.volatility(spread.close, 60)),
        "yangZhang20": rounded(yang_zhang(spread.open, spread.high, spread.low, spread.close, 20)),
        "hvRank": rounded(rank),
        "hvRankSessions": sessions,
    }


def _implied(found: Implied | None, realised: float | None) -> dict[str, Any]:
    if found is None:
        return dict.fromkeys(_IMPLIED)
    return {
        "expiry": found.expiry.isoformat(),
        "dte": found.days,
        "strike": found.strike,
        "iv": rounded(found.iv),
        "ivHvRatio": rounded(found.iv / realised if found.iv and realised else None),
        "impliedMove": rounded(found.move),
        "putSkew": rounded(found.skew),
        "putSkewStrike": found.skew_strike,
        "termStructure": [[days, rounded(iv)] for days, iv in found.terms],
        "termSlope": rounded(found.slope),
    }


def _rank(symbol: str, found: Implied | None, past: Past | None, gaps: Gaps, own: bool) -> dict[str, Any]:
    """own: whether the market has chains of past days itself."""
    if past is None:
        return {"ivRank": None, "ivRankDays": 0}
    rank, days = past.rank(found.iv if found is not None else None)
    if rank is None and found is not None and found.iv is not None:
        least = option_contracts.LEAST_DAYS
        few = f"{days} of {least} days of its own history are stored"
        if own:
            few = f"the market has its chains of {days} days of the year before, and a rank needs {least}"
        gaps.add("ivRank", f"not available: {few if days < least else f'all {days} days have one volatility'}", symbol)
    return {"ivRank": rounded(rank), "ivRankDays": days}


VOLATILITY_GET = ToolSpec(
    name="volatility_get",
    description=(
        "Volatilities of up to 10 symbols, a year, as fractions: hv20, hv60 (close to close), yangZhang20, hvRank (of "
        "hv20 in hvRankSessions), iv (at the money, expiry nearest to 30 days), ivHvRatio (iv / hv20), ivRank (in the "
        "year's stored days, null before there are 60), impliedMove (straddle / spot, to the expiry), putSkew "
        "(iv of the put with a delta near -.25, less iv), termStructure (days and iv at the money of each expiry 7 to "
        "60 days ahead), termSlope (its last iv less its first). null is unknown, with the reason in `missing`."
    ),
    arguments=VolatilityArguments,
    function=volatility_get,
    answer=VolatilityAnswer,
)


LEAST_VOLUME, OVER_INTEREST = 100, 2.0
OVER_USUAL = 2.0
RULES = {
    "contract": f"volume of {LEAST_VOLUME} or more, and at least {OVER_INTEREST:g} times the open interest",
    "symbol": (
        f"volume of all its puts, or calls, at least {OVER_USUAL:g} times the median of the days that the desk has "
        f"stored, {option_contracts.LEAST_VOLUME_DAYS} or more"
    ),
    "expiries": f"{FIRST_DAY} to {LAST_DAY} days ahead",
}


class UnusualArguments(Arguments):
    symbols: Annotated[list[Symbol], tickers(10), DISTINCT]
    limit: int = Field(10, ge=1, le=50, description="contracts a symbol")


class UnusualContract(TypedDict):
    contract: str
    kind: Literal["put", "call"]
    expiry: dt.date
    dte: int
    strike: float
    fromSpot: float | None
    volume: float | None
    openInterest: float | None
    volumeToInterest: float | None
    mid: float | None
    source: str


class OptionVolume(TypedDict):
    symbol: str
    source: str
    putVolume: float | None
    putOpenInterest: float | None
    putVolumeToUsual: float | None
    putUnusual: bool | None
    callVolume: float | None
    callOpenInterest: float | None
    callVolumeToUsual: float | None
    callUnusual: bool | None
    putCallRatio: float | None


class UnusualAnswer(Answer):
    rules: dict[str, str]
    chains: list[ChainInputs]
    volumes: list[OptionVolume]
    contracts: list[UnusualContract]


def options_unusual(context: ToolContext, arguments: UnusualArguments) -> dict[str, Any]:
    """Return the contracts and symbols that a rule finds; a rule whose figures are not known is in `missing`."""
    gaps, rate = Gaps(), context.settings.risk_free_rate
    symbols, today = arguments.symbols, clock_day(context.clock)
    found = list(usable_chains(context, symbols, FIRST_DAY, LAST_DAY, gaps))
    past = _past(context, [one.chain for one in found])
    contracts: list[dict[str, Any]] = []
    totals = []
    kept = []
    for one in found:
        mark = option_contracts.mark_of(one, _iv(one, rate))
        kept.append(mark)
        contracts += unusual_contracts(one, arguments.limit, gaps)
        if mark.put_volume is None and mark.call_volume is None:
            gaps.add("volume", f"not available: {one.chain.source} chains have none", one.chain.symbol)
            continue
        totals.append(_totals(mark, past[one.chain.symbol], gaps))
    option_contracts.keep(context.store, kept)
    inputs = [inputs_of(one.chain, rate, today) for one in found]
    return payload(
        context, gaps, available=bool(totals), rules=RULES, chains=inputs, volumes=totals, contracts=contracts
    )


def _iv(found: UsableChain, rate: float) -> float | None:
    implied = implied_of(found, rate, Gaps())
    return implied.iv if implied is not None else None


def unusual_contracts(found: UsableChain, limit: int, gaps: Gaps) -> list[dict[str, Any]]:
    active = [row for row in found.rows if (row.volume or 0) >= LEAST_VOLUME]
    unknown = [row for row in active if row.open_interest is None]
    if unknown:
        gaps.add("openInterest", f"not known of {len(unknown)} contracts with volume", found.chain.symbol)
    over = [row for row in active if row.open_interest is not None and _is_over(row)]
    over.sort(key=lambda row: -(row.volume or 0))
    if len(over) > limit:
        gaps.add("rows", f"{len(over)} contracts are unusual, {limit} are shown", found.chain.symbol)
    return [_row(row, found) for row in over[:limit]]


def _is_over(row: ChainRow) -> bool:
    return (row.volume or 0) >= OVER_INTEREST * (row.open_interest or 0)


def _row(row: ChainRow, found: UsableChain) -> dict[str, Any]:
    contract, interest = row.contract, row.open_interest
    return {
        "contract": contract.symbol,
        "kind": contract.kind,
        "expiry": contract.expiry.isoformat(),
        "dte": (contract.expiry - day_of(found.chain.at, found.chain.symbol)).days,
        "strike": float(contract.strike),
        "fromSpot": rounded(float(contract.strike) / found.chain.spot - 1),
        "volume": row.volume,
        "openInterest": interest,
        "volumeToInterest": rounded(row.volume / interest, 2) if row.volume is not None and interest else None,
        "mid": rounded(mid_of(row)[0]),
        "source": found.chain.source,
    }


def _totals(mark: OptionMark, past: option_contracts.Past, gaps: Gaps) -> dict[str, Any]:
    shown: dict[str, Any] = {"symbol": mark.symbol, "source": mark.source}
    for kind, volume, interest in (
        ("put", mark.put_volume, mark.put_open_interest),
        ("call", mark.call_volume, mark.call_open_interest),
    ):
        usual, days = past.usual_volume(kind)
        if usual is None:
            reason = f"not available: {days} of {option_contracts.LEAST_VOLUME_DAYS} days of its own history are stored"
            gaps.add(f"usual {kind} volume", reason, mark.symbol)
        ratio = volume / usual if volume is not None and usual else None
        shown |= {
            f"{kind}Volume": volume,
            f"{kind}OpenInterest": interest,
            f"{kind}VolumeToUsual": rounded(ratio, 2),
            f"{kind}Unusual": ratio >= OVER_USUAL if ratio is not None else None,
        }
    calls, puts = mark.call_volume, mark.put_volume
    return {**shown, "putCallRatio": rounded(puts / calls, 2) if puts is not None and calls else None}


OPTIONS_UNUSUAL = ToolSpec(
    name="options_unusual",
    description=(
        "Unusual option volume of up to 10 symbols, by the rules in `rules`: contracts whose volume is at least twice "
        "their open interest, and puts or calls of a symbol against its own stored days. Volumes grow through the day; "
        "null is unknown, with the reason in `missing`. Large volume has no direction by itself."
    ),
    arguments=UnusualArguments,
    function=options_unusual,
    answer=UnusualAnswer,
)
