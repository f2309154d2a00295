"""The policy of the trader: opens names rated BUY, sells those rated PASS, holds and watches the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chordesk.agents import first_calls
from chordesk.agents.rulebook import thresholds as limits
from chordesk.agents.rulebook.cases import PREFIX, Call, Case, Payload, calls_of, number, policy, shown
from chordesk.agents.rulebook.policies.screeners import options_allowed
from chordesk.models.market import parse_contract
from chordesk.models.money import coded
from chordesk.tools.decimals import exact
from chordesk.tools.market.price_steps import stepped_quantity

_ORDER = {"high": 0, "medium": 1, "low": 2}
_LEAST_TRADE = 1.0  # account currency; less is not an order


@policy("trader")
def decide(case: Case) -> Call | Payload:
    """Decide on held names first, since a sale depends on nothing else; then on verdicts by confidence."""
    verdicts = [row for row in _list(case.subject, "verdicts") if row.get("symbol")]
    if call := case.next_call(calls_of(first_calls.account(case.subject))):
        return call
    portfolio = _portfolio(case)
    held = {str(row["symbol"]): row for row in _list(portfolio, "positions") if row.get("symbol")}
    prices = {row.get("symbol"): number(row, "close") for row in case.rows("signals_get", "signals")}
    by_symbol = {str(row["symbol"]): row for row in verdicts}
    actions = [_held(row, by_symbol.get(_underlying(symbol))) for symbol, row in sorted(held.items())]
    left = _cash(portfolio)
    names = {_underlying(symbol) for symbol in held}
    fresh = [row for row in verdicts if row["symbol"] not in names]
    for row in sorted(fresh, key=lambda row: _ORDER.get(str(row.get("confidence")), len(_ORDER))):
        price, tradable = prices.get(row["symbol"]), _tradable(case.subject)
        if (action := _fresh(row, price, left, tradable, portfolio.get("currency"))) is not None:
            actions.append(action)
            left = None if left is None else left - (action["notional"] or 0.0)
    return {"actions": actions, "reasoning": _reasoning(case, actions, verdicts)}


def _list(table: Mapping[str, Any], key: str) -> list[Payload]:
    found = table.get(key)
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def _portfolio(case: Case) -> Payload:
    """Return the portfolio of the tool's answer, else that of the subject."""
    for source in (*case.payloads("portfolio_get"), case.subject):
        found = source.get("portfolio")
        if isinstance(found, dict):
            return found
    return {}


def _cash(portfolio: Payload) -> float | None:
    """Return the money that may be spent; None when it is not known."""
    power = number(portfolio, "buyingPower")
    power = number(portfolio, "cash") if power is None else power
    return None if power is None else max(power * (1 - limits.CASH_RESERVE), 0.0)


def _held(position: Payload, verdict: Payload | None) -> Payload:
    symbol, quantity = str(position["symbol"]), number(position, "quantity")
    if verdict is None:
        return _action(symbol, "hold", "low", "it is held and has no verdict in this run")
    rating, confidence = str(verdict.get("rating")), str(verdict.get("confidence", "low"))
    if rating not in ("PASS", "CAUTION") and not verdict.get("against"):
        return _action(symbol, "hold", confidence, f"it is held and the verdict is {rating}")
    if (kept := verdict.get("kept")) is not None:
        return _action(symbol, "hold", confidence, f"it is held, the verdict is {rating}, and {kept}")
    if parse_contract(symbol) is not None:
        return _held_option(symbol, quantity, confidence, f"it is an option that is held and the verdict is {rating}")
    if quantity is None or quantity <= 0:
        return _action(symbol, "hold", confidence, f"the verdict is {rating}, but it is not held long")
    bound = number(position, "boundByCalls") or 0
    quantity -= bound
    if quantity < 1 <= bound:
        return _action(symbol, "hold", confidence, f"the verdict is {rating}, but its shares cover written calls")
    part = float(stepped_quantity(symbol, exact(quantity * limits.REDUCE_BY), opens=False))
    if rating == "PASS" or not part:
        return _sale(symbol, "close", quantity, confidence, f"it is held and the verdict is {rating}")
    share = shown(limits.REDUCE_BY, "percent")
    return _sale(symbol, "reduce", part, confidence, f"it is held and the verdict is {rating}: {share} goes")


def _held_option(contract: str, quantity: float | None, confidence: str, reason: str) -> Payload:
    """Return the action that ends an option: what covers a written call is free again afterwards."""
    if not quantity:
        return _action(contract, "hold", confidence, f"{reason}, but how many are held is not known")
    side = "sell" if quantity > 0 else "buy"
    return {**_sale(contract, "close", abs(quantity), confidence, reason), "side": side}


def _underlying(symbol: str) -> str:
    contract = parse_contract(symbol)
    return contract.underlying if contract else symbol


def _tradable(subject: Payload) -> str:
    if not options_allowed(subject):
        return "stocks"
    return "options" if subject["constraints"]["optionsMode"] == "options-only" else "both"


def _fresh(
    verdict: Payload, price: float | None, cash: float | None, tradable: str, currency: str | None
) -> Payload | None:
    """currency: of the account, None for dollars."""
    symbol, rating = str(verdict["symbol"]), str(verdict.get("rating"))
    confidence = str(verdict.get("confidence", "low"))

    def watch(why: str) -> Payload:
        return _action(symbol, "watch", confidence, why)

    if rating in ("HOLD", "CAUTION"):
        return watch(f"the verdict is {rating} and it is not held")
    if rating != "BUY":
        return None
    kind = "options" if verdict.get("instrument") == "option" else "stocks"
    if tradable not in (kind, "both"):
        return watch(f"the verdict is BUY, but only {tradable} may be traded")
    if kind == "options":
        return watch("the verdict is BUY as an option, and no rule chooses a contract")
    size = verdict.get("sizing")
    most = number(size, "most") if isinstance(size, dict) else None
    if most is None or cash is None or not isinstance(size, dict):
        return watch("the verdict is BUY, but its bound or the cash is not known")
    if price is None:
        return watch("the verdict is BUY, but its price is missing")
    notional, least = int(min(most, cash) * 100) / 100, price * (size.get("rate") or 1) * (size.get("lot") or 1)
    bound = f"the bound by {size.get('bound')}" if most <= cash else "the cash that is left"
    if notional < max(least, _LEAST_TRADE):
        what = "share" if not size.get("lot") else f"lot of {size['lot']:g}"
        at = coded(f"{price}", size.get("currency") or currency, always=bool(size.get("currency")))
        return watch(f"the verdict is BUY, but {coded(f'{notional:.2f}', currency)} by {bound} buys no {what} at {at}")
    reason = f"the verdict is BUY; {coded(f'{notional:.2f}', currency)} is {bound}"
    plan = {"stop": number(size, "stop"), "target": None, "horizon": None, "review": None}
    traded = {"side": "buy", "notional": notional, "orderType": "market", "plan": plan}
    return {**_action(symbol, "open", confidence, reason), **traded}


def _sale(symbol: str, action: str, quantity: float, confidence: str, reason: str) -> Payload:
    traded = {"side": "sell", "quantity": quantity, "orderType": "market"}
    return {**_action(symbol, action, confidence, reason), **traded}


def _action(symbol: str, action: str, confidence: str, reason: str) -> Payload:
    contract = parse_contract(symbol)
    return {
        "symbol": _underlying(symbol), "action": action, "side": None, "quantity": None, "notional": None,
        "orderType": None, "limitPrice": None, "stopPrice": None, "trailPercent": None, "timeInForce": None,
        "contract": contract.symbol if contract else None, "legs": None, "plan": None,
        "confidence": confidence if confidence in _ORDER else "low", "reasoning": f"{PREFIX} {reason}.",
    }  # fmt: skip


def _reasoning(case: Case, actions: Iterable[Payload], verdicts: Iterable[Payload]) -> str:
    kinds = [str(action["action"]) for action in actions]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds)) or "no action"
    ratings = [str(row.get("rating")) for row in verdicts]
    rated = ", ".join(f"{ratings.count(rating)} {rating}" for rating in dict.fromkeys(ratings)) or "no verdict"
    missing = case.gaps(["portfolio_get"])
    tail = f" Missing: {'; '.join(missing[:6])}." if missing else ""
    return f"{PREFIX} {rated} lead to {counts}; sizes are the bounds that code worked out.{tail}"
