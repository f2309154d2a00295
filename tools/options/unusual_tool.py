"""options_unusual: contracts and symbols whose volume is out of the ordinary, by rules that the answer states."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from chordesk.models.contracts import ChainRow
from chordesk.models.tables.options import OptionMark
from chordesk.tools.decimals import rounded
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.options import marks
from chordesk.tools.options.chains import UsableChain, usable_chains
from chordesk.tools.options.figures import inputs_of
from chordesk.tools.options.quotes import mid_of
from chordesk.tools.options.volatility_tool import FIRST_DAY, LAST_DAY, implied_of
from chordesk.tools.registry import Arguments, Gaps, Symbol, ToolContext, ToolSpec, payload

LEAST_VOLUME, OVER_INTEREST = 100, 2.0
OVER_USUAL = 2.0
RULES = {
    "contract": f"volume of {LEAST_VOLUME} or more, and at least {OVER_INTEREST:g} times the open interest",
    "symbol": (
        f"volume of all its puts, or calls, at least {OVER_USUAL:g} times the median of the days that the desk has "
        f"stored, {marks.LEAST_VOLUME_DAYS} or more"
    ),
    "expiries": f"{FIRST_DAY} to {LAST_DAY} days ahead",
}


class UnusualArguments(Arguments):
    symbols: list[Symbol] = Field(min_length=1, max_length=10, description="1 to 10 tickers, all in one call")
    limit: int = Field(10, ge=1, le=50, description="contracts a symbol")


def options_unusual(context: ToolContext, arguments: UnusualArguments) -> dict[str, Any]:
    """Return the contracts and symbols that a rule finds; a rule whose figures are not known is in `missing`."""
    gaps, rate = Gaps(), context.settings.risk_free_rate
    symbols, today = list(dict.fromkeys(arguments.symbols)), exchange_day(context.clock.now())
    found = list(usable_chains(context, symbols, FIRST_DAY, LAST_DAY, gaps))
    past = marks.past(context.store, [one.chain for one in found])
    contracts: list[dict[str, Any]] = []
    totals = []
    kept = []
    for one in found:
        mark = marks.mark_of(one, _iv(one, rate))
        kept.append(mark)
        contracts += unusual_contracts(one, arguments.limit, gaps)
        if mark.put_volume is None and mark.call_volume is None:
            gaps.add("volume", f"not available: {one.chain.source} chains have none", one.chain.symbol)
            continue
        totals.append(_totals(mark, past[one.chain.symbol], gaps))
    marks.keep(context.store, kept)
    inputs = [inputs_of(one.chain, rate, today) for one in found]
    return payload(
        context, gaps, available=bool(totals), rules=RULES, chains=inputs, volumes=totals, contracts=contracts
    )


def _iv(found: UsableChain, rate: float) -> float | None:
    implied = implied_of(found, rate, Gaps())
    return implied.iv if implied is not None else None


def unusual_contracts(found: UsableChain, limit: int, gaps: Gaps) -> list[dict[str, Any]]:
    """Return the contracts of a chain with the largest volume out of the ordinary, by the first of RULES."""
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
        "dte": (contract.expiry - exchange_day(found.chain.at)).days,
        "strike": float(contract.strike),
        "fromSpot": rounded(float(contract.strike) / found.chain.spot - 1),
        "volume": row.volume,
        "openInterest": interest,
        "volumeToInterest": rounded(row.volume / interest, 2) if row.volume is not None and interest else None,
        "mid": rounded(mid_of(row)[0]),
        "source": found.chain.source,
    }


def _totals(mark: OptionMark, past: marks.Past, gaps: Gaps) -> dict[str, Any]:
    shown: dict[str, Any] = {"symbol": mark.symbol, "source": mark.source}
    for kind, volume, interest in (
        ("put", mark.put_volume, mark.put_open_interest),
        ("call", mark.call_volume, mark.call_open_interest),
    ):
        usual, days = past.usual_volume(kind)
        if usual is None:
            reason = f"not available: {days} of {marks.LEAST_VOLUME_DAYS} days of its own history are stored"
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
    hint="option volume against open interest and against its own past; `symbols`.",
    arguments=UnusualArguments,
    function=options_unusual,
)
