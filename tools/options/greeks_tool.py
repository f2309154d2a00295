"""option_greeks_get: Greeks and returns of contracts named by their OCC symbols."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from chordesk.models.contracts import OptionContract, parse_contract
from chordesk.models.errors import DeskError, NotConfigured
from chordesk.models.research import upper
from chordesk.tools.history import Budget
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.market.quotes import share_of
from chordesk.tools.options.chains import CHAIN, UsableChain, usable_chain
from chordesk.tools.options.figures import contract_figures, inputs_of
from chordesk.tools.registry import Arguments, Gaps, ToolContext, ToolSpec, payload

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
    """Return the figures of each contract that its chain lists; the others are gaps, with the nearest listed ones."""
    gaps, budget, rate = Gaps(), Budget(context), context.settings.risk_free_rate
    today = exchange_day(context.clock.now())
    rows: list[dict[str, Any]] = []
    chains = []
    for root, wanted in _by_root(arguments.contracts, today, gaps).items():
        symbol = share_of(context.market, root)
        days = [contract.expiry for contract in wanted]
        try:
            budget.spend()
            found = usable_chain(context, symbol, min(days), max(days), gaps)
        except NotConfigured as error:
            gaps.add(CHAIN, error)
            break
        except DeskError as error:
            gaps.add(CHAIN, error, symbol)
            continue
        chains.append(inputs_of(found.chain, rate, today))
        listed = {row.contract.symbol: row for row in found.rows}
        for contract in wanted:
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
    """Return that a chain does not list a contract, and what it has near it."""
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
    hint="Greeks, iv, returns and liquidity of named contracts; `contracts`, as OCC symbols.",
    arguments=GreeksArguments,
    function=option_greeks_get,
)
