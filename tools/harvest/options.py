"""options: implied against realised volatility, and contracts with a volume out of the ordinary."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

from chordesk.models.board.signals import MAX_FINDINGS, Harvest, SignalFinding
from chordesk.models.contracts import MODELLED
from chordesk.models.errors import NotConfigured
from chordesk.tools import figures
from chordesk.tools.harvest.context import NO_SYMBOL, HarvestContext, asleep, each, listed, named
from chordesk.tools.harvest.headline import compose
from chordesk.tools.history import histories
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.options import marks
from chordesk.tools.options.chains import UsableChain, usable_chain
from chordesk.tools.options.unusual_tool import OVER_INTEREST, unusual_contracts
from chordesk.tools.options.volatility_tool import FIRST_DAY, LAST_DAY, Implied, implied_of
from chordesk.tools.registry import Gaps

SESSIONS = 20
_UNUSUAL = 2  # findings on volume at most, so that volatility has its place
_CONTRACTS = 10
_RATIO_BASIS = "d / (1 + d), d = |ln(implied / realised)|: how far the two are apart, not where the price goes"
_VOLUME_BASIS = (
    f"1 - {OVER_INTEREST:g} / (volume / open interest), 1 without open interest; "
    "large volume by itself has no direction"
)
_RATIO = (
    "{symbol}: implied volatility {iv:.1%} over {days} days against {realised:.1%} realised in {sessions} sessions, "
    "{ratio:.2f} times; implied move {impliedMove:.1%}"
)
_VOLUME = (
    "{symbol}: {contracts} contracts with unusual volume, the largest {contract} with {volume:,.0f} against an open "
    "interest of {openInterest:,.0f}"
)


def harvest(context: HarvestContext) -> Harvest:
    """Return where options expect another volatility than there was, and unusual volume. Modelled chains have neither:
    their volatility is a multiple of the realised one by assumption, and their volume is not known."""
    if not context.symbols:
        return asleep(NO_SYMBOL)
    today = exchange_day(context.tool.clock.now())
    first, last = today + dt.timedelta(days=FIRST_DAY), today + dt.timedelta(days=LAST_DAY)
    try:
        chains, failed = each(context, lambda symbol: usable_chain(context.tool, symbol, first, last, Gaps()))
    except NotConfigured as error:
        return asleep(str(error))
    real = {symbol: one for symbol, one in chains.items() if one.chain.source != MODELLED}
    if chains and not real:
        return asleep("the chains are modelled: implied volatility follows the realised one by assumption, no volume")
    rate = context.tool.settings.risk_free_rate
    implied = {symbol: implied_of(one, rate, Gaps()) for symbol, one in real.items()}
    _keep_marks(context, real, implied)
    missing = [*failed, *(symbol for symbol, one in implied.items() if one is None or one.iv is None)]
    ratios = _ratios(context, real, implied, missing)
    volumes = [_volume(one, found, missing) for one in real.values() if (found := _unusual(one))]
    volumes.sort(key=_strength)
    ratios.sort(key=_strength)
    findings = sorted([*volumes[:_UNUSUAL], *ratios], key=_strength)[:MAX_FINDINGS]
    if not findings:
        return asleep(f"no usable chain of {listed(missing)}" if missing else "nothing in the chains stands out")
    return Harvest(findings=tuple(findings))


def _strength(finding: SignalFinding) -> tuple[float, tuple[str, ...]]:
    return -(finding.confidence or 0.0), finding.subjects


def _keep_marks(context: HarvestContext, chains: dict[str, UsableChain], implied: dict[str, Implied | None]) -> None:
    """Store today's figures of the chains: ranks and usual volumes are of the desk's own history."""
    kept = [marks.mark_of(one, found.iv if (found := implied[symbol]) else None) for symbol, one in chains.items()]
    marks.keep(context.tool.store, kept)


def _ratios(
    context: HarvestContext, chains: dict[str, UsableChain], implied: dict[str, Implied | None], missing: list[str]
) -> list[SignalFinding]:
    """Return a finding for each symbol with both volatilities; one without the realised one is added to `missing`."""
    found = []
    realised = {
        history.symbol: figures.volatility(history.spread.close, SESSIONS)
        for history in histories(context.tool, list(chains), Gaps(), SESSIONS + 1)
    }
    missing += [symbol for symbol in chains if not realised.get(symbol) and symbol not in missing]
    for symbol, one in implied.items():
        usual = realised.get(symbol)
        if one is not None and one.iv and one.move is not None and usual:
            found.append(_ratio(chains[symbol], one, one.iv, usual, one.move, missing))
    return found


def _ratio(
    chain: UsableChain, found: Implied, iv: float, realised: float, move: float, missing: list[str]
) -> SignalFinding:
    apart = abs(math.log(iv / realised))
    data: dict[str, Any] = {
        "symbol": chain.chain.symbol,
        "iv": round(iv, 4),
        "days": found.days,
        "expiry": found.expiry.isoformat(),
        "realised": round(realised, 4),
        "sessions": SESSIONS,
        "ratio": round(iv / realised, 4),
        "impliedMove": round(move, 4),
        "putSkew": None if found.skew is None else round(found.skew, 4),
        "missing": named(missing),
    }
    return _finding(chain, compose(_RATIO, data), data, round(apart / (1 + apart), 4), _RATIO_BASIS)


def _unusual(chain: UsableChain) -> list[dict[str, Any]]:
    """Return the contracts of a chain with an unusual volume, the largest first."""
    return unusual_contracts(chain, _CONTRACTS, Gaps())


def _volume(chain: UsableChain, found: list[dict[str, Any]], missing: list[str]) -> SignalFinding:
    largest = found[0]
    ratio = largest["volumeToInterest"]
    data: dict[str, Any] = {
        "symbol": chain.chain.symbol,
        "contracts": f"{_CONTRACTS} or more" if len(found) == _CONTRACTS else str(len(found)),
        "calls": sum(row["kind"] == "call" for row in found),
        "puts": sum(row["kind"] == "put" for row in found),
        **{name: largest[name] for name in ("contract", "volume", "openInterest", "volumeToInterest", "fromSpot")},
        "missing": named(missing),
    }
    confidence = 1.0 if ratio is None else round(1 - OVER_INTEREST / ratio, 4)
    return _finding(chain, compose(_VOLUME, data), data, confidence, _VOLUME_BASIS)


def _finding(chain: UsableChain, headline: str, data: dict[str, Any], confidence: float, basis: str) -> SignalFinding:
    return SignalFinding(
        headline=headline,
        data=data,
        confidence=min(max(confidence, 0.0), 1.0),
        basis=basis,
        subjects=(chain.chain.symbol,),
        source=f"{chain.chain.source} option chains",
        as_of=chain.chain.at,
    )
