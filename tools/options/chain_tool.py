"""option_chain_get and option_greeks_get: contracts of a chain, and Greeks and returns of contracts."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from typing import Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, BeforeValidator, Field
from typing_extensions import TypedDict

from chordesk.models.answers import upper
from chordesk.models.errors import UsageError
from chordesk.models.market import OptionContract, parse_contract
from chordesk.tools.market.clock import clock_day
from chordesk.tools.market.prices import share_of
from chordesk.tools.options.option_contracts import (
    CHAIN,
    DEFINITION,
    ChainInputs,
    ContractFigures,
    UsableChain,
    contract_figures,
    counted,
    inputs_of,
    usable_chain,
    usable_chains,
)
from chordesk.tools.prices.daily_bars import by_symbol
from chordesk.tools.registry import DISTINCT, Answer, Arguments, Gaps, Symbol, ToolContext, ToolSpec, payload, tickers

MOST_ROWS = 100
NEAR = 0.03

Level = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class ChainArguments(Arguments):
    symbols: Annotated[list[Symbol], tickers(10), DISTINCT]
    kind: Literal["put", "call"] = "put"
    dteMin: int = Field(14, ge=0, le=400, description="fewest calendar days to expiry")
    dteMax: int = Field(45, ge=0, le=400, description="most calendar days to expiry")
    deltaMin: float = Field(0.10, ge=0, le=1, description="of |delta|")
    deltaMax: float = Field(0.35, ge=0, le=1, description="of |delta|")
    minOpenInterest: Share = Field(0, description="contracts")
    maxSpread: Share | None = Field(None, description="fraction of mid, 0.1 is 10%")
    minWeeklyRoc: Share | None = Field(None, description="fraction, 0.005 is 0.5% a week")
    maxWeeklyRoc: Share | None = Field(None, description="fraction; more is often a stale quote or an event")
    near: list[Level] = Field([], max_length=10, description=f"price levels; only strikes within {NEAR:.0%} of one")
    limit: int = Field(20, ge=1, le=MOST_ROWS, description="rows a symbol; 100 in all at most")


class ContractRow(TypedDict):
    contract: str
    kind: Literal["put", "call"]
    expiry: dt.date
    dte: int
    strike: float
    bid: float | None
    ask: float | None
    mid: float | None
    spread: float | None
    volume: float | None
    openInterest: float | None
    iv: float | None
    delta: float | None
    gamma: float | None
    theta: float | None
    vega: float | None
    roc: float | None
    rocWeekly: float | None
    rocAnnual: float | None
    breakEven: float | None
    pop: float | None
    liquidity: str
    source: str
    greeks: Literal["market", "computed", "modelled"] | None
    problem: NotRequired[str]
    level: NotRequired[float]
    fromLevel: NotRequired[float]


class GreeksAnswer(Answer):
    chains: list[ChainInputs]
    contracts: list[ContractRow]


class ChainAnswer(GreeksAnswer):
    liquidity: str


def option_chain_get(context: ToolContext, arguments: ChainArguments) -> dict[str, Any]:
    _require_windows(arguments)
    gaps, rate = Gaps(), context.settings.risk_free_rate
    limit = min(arguments.limit, MOST_ROWS // len(arguments.symbols))
    today = clock_day(context.clock)
    rows: list[dict[str, Any]] = []
    chains = []
    for found in usable_chains(context, arguments.symbols, arguments.dteMin, arguments.dteMax, gaps):
        chains.append(inputs_of(found.chain, rate, today))
        if not found.rows:
            reason = f"no contract expires in {arguments.dteMin} to {arguments.dteMax} days"
            gaps.add("contracts", reason, found.chain.symbol)
            continue
        fitting = _fitting(found, arguments, rate, gaps)
        if len(fitting) > limit:
            gaps.add("rows", f"{len(fitting)} contracts fit, {limit} are shown", found.chain.symbol)
        rows += [_payload(figures, arguments) for figures in fitting[:limit]]
    available = any(chain["expiries"] for chain in chains)
    return payload(context, gaps, available=available, chains=chains, liquidity=DEFINITION, contracts=rows)


def _require_windows(arguments: ChainArguments) -> None:
    for low, high in (("dteMin", "dteMax"), ("deltaMin", "deltaMax"), ("minWeeklyRoc", "maxWeeklyRoc")):
        least, most = getattr(arguments, low), getattr(arguments, high)
        if least is not None and most is not None and least > most:
            raise UsageError(f"{low} {least:g} is above {high} {most:g}", remedy=f"give a {low} of at most {high}")


def _fitting(found: UsableChain, arguments: ChainArguments, rate: float, gaps: Gaps) -> list[ContractFigures]:
    """Contracts within all windows. Those without a figure that a window needs are left out, and counted in `gaps`."""
    kept, unknown = [], []
    for row in found.rows:
        if row.contract.kind != arguments.kind or not _is_near(float(row.contract.strike), arguments.near):
            continue
        figures = contract_figures(row, found.chain, rate)
        fits = _fits(figures, arguments)
        if isinstance(fits, str):
            unknown.append(fits)
        elif fits:
            kept.append(figures)
    if unknown:
        gaps.add("contracts left out", f"{len(unknown)} {arguments.kind}s: {counted(unknown)}", found.chain.symbol)
    return sorted(kept, key=lambda one: _rank(one, arguments.near))


def _fits(figures: ContractFigures, arguments: ChainArguments) -> bool | str:
    if figures.greeks is None or figures.mid is None:
        return _kind_of(figures.problem or "no Greeks")
    if not arguments.deltaMin <= abs(figures.greeks.delta) <= arguments.deltaMax:
        return False
    interest, weekly = figures.row.open_interest, figures.returns.weekly if figures.returns else None
    if arguments.minOpenInterest and interest is None:
        return "open interest not known"
    if weekly is None and (arguments.minWeeklyRoc is not None or arguments.maxWeeklyRoc is not None):
        return "expires today, no weekly return"
    return (
        (interest or 0) >= arguments.minOpenInterest
        and (arguments.maxSpread is None or (figures.spread or 0) <= arguments.maxSpread)
        and (arguments.minWeeklyRoc is None or (weekly or 0) >= arguments.minWeeklyRoc)
        and (arguments.maxWeeklyRoc is None or (weekly or 0) <= arguments.maxWeeklyRoc)
    )


def _kind_of(problem: str) -> str:
    """Return a reason without its figures, so that it can be counted."""
    return "a price below the intrinsic value" if "below its intrinsic value" in problem else problem


def _is_near(strike: float, levels: list[float]) -> bool:
    return not levels or abs(_away(strike, levels)[1]) <= NEAR


def _away(strike: float, levels: list[float]) -> tuple[float, float]:
    level = min(levels, key=lambda level: abs(strike / level - 1))
    return level, strike / level - 1


def _rank(figures: ContractFigures, levels: list[float]) -> tuple[float, float, dt.date, float]:
    strike = float(figures.row.contract.strike)
    weekly = figures.returns.weekly if figures.returns else 0.0
    return abs(_away(strike, levels)[1]) if levels else 0.0, -weekly, figures.row.contract.expiry, strike


def _payload(figures: ContractFigures, arguments: ChainArguments) -> dict[str, Any]:
    shown = figures.payload()
    if not arguments.near:
        return shown
    level, away = _away(float(figures.row.contract.strike), list(arguments.near))
    return {**shown, "level": level, "fromLevel": round(away, 4)}


OPTION_CHAIN_GET = ToolSpec(
    name="option_chain_get",
    description=(
        "Puts or calls on up to 10 symbols within windows of days to expiry, |delta|, spread, open interest and weekly "
        "return, or with strikes near given price levels. Each row: quote, iv, Greeks (theta a day, vega a point), roc "
        "(mid / strike for a put, mid / spot for a covered call), rocWeekly, rocAnnual, breakEven, pop (risk-neutral "
        "probability of the writer's profit; both of the option alone), liquidity, source, greeks (market, computed, "
        "modelled). Fractions, 0.05 is 5%; null is unknown and `problem` its reason. A contract that is not in an "
        "answer is not known to exist."
    ),
    arguments=ChainArguments,
    function=option_chain_get,
    answer=ChainAnswer,
)


_NEAREST = 3


def _occ(value: str) -> str:
    found = parse_contract(value)
    if found is None:
        raise ValueError("a contract is an OCC symbol: root, YYMMDD, C or P, strike in thousandths in 8 digits")
    return found.symbol


Contract = Annotated[str, BeforeValidator(upper), AfterValidator(_occ)]


class GreeksArguments(Arguments):
    contracts: list[Contract] = Field(
        min_length=1, max_length=50, description="1 to 50 OCC symbols, such as AAPL261218P00180000"
    )


def option_greeks_get(context: ToolContext, arguments: GreeksArguments) -> dict[str, Any]:
    gaps, rate = Gaps(), context.settings.risk_free_rate
    today = clock_day(context.clock)
    rows: list[dict[str, Any]] = []
    chains = []
    by_root = _by_root(arguments.contracts, today, gaps)
    by_share = {share_of(context.market, root): contracts for root, contracts in by_root.items()}

    def ask(symbol: str) -> UsableChain:
        days = [contract.expiry for contract in by_share[symbol]]
        return usable_chain(context, symbol, min(days), max(days), gaps)

    for symbol, found in by_symbol(context, by_share, CHAIN, gaps, ask):
        chains.append(inputs_of(found.chain, rate, today))
        listed = {row.contract.symbol: row for row in found.rows}
        for contract in by_share[symbol]:
            if contract.symbol in listed:
                rows.append(contract_figures(listed[contract.symbol], found.chain, rate).payload())
            else:
                gaps.add("contract", _unlisted(contract, found), contract.symbol)
    return payload(context, gaps, available=bool(rows), chains=chains, contracts=rows)


def _by_root(names: list[str], today: dt.date, gaps: Gaps) -> dict[str, list[OptionContract]]:
    """Return the contracts that have not expired, by the root of their names."""
    found: dict[str, list[OptionContract]] = defaultdict(list)
    for name in dict.fromkeys(names):
        contract = parse_contract(name)
        assert contract is not None, "arguments are checked"
        if contract.expiry < today:
            gaps.add("contract", f"expired on {contract.expiry}", name)
        else:
            found[contract.underlying].append(contract)
    return found


def _unlisted(contract: OptionContract, found: UsableChain) -> str:
    same = {row.contract.strike for row in found.rows if row.contract.expiry == contract.expiry}
    if not same:
        return f"the chain of {found.chain.symbol} lists no contract that expires on {contract.expiry}"
    near = sorted(sorted(same, key=lambda strike: abs(strike - contract.strike))[:_NEAREST])
    return (
        f"the chain of {found.chain.symbol} lists no {contract.kind} at {contract.strike.normalize():f} on "
        f"{contract.expiry}; the nearest strikes are {', '.join(f'{strike.normalize():f}' for strike in near)}"
    )


OPTION_GREEKS_GET = ToolSpec(
    name="option_greeks_get",
    description=(
        "Quote, iv, Greeks, returns and liquidity of up to 50 contracts by OCC symbol: the market's own Greeks where "
        "it gives them, else computed with the model and inputs in `chains`; `greeks` names which. A contract that its "
        "chain does not list, or that has expired, is in `missing`."
    ),
    arguments=GreeksArguments,
    function=option_greeks_get,
    answer=GreeksAnswer,
)
