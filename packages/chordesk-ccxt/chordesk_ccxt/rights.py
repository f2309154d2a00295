"""What a key may do at its venue, and what its account holds: the questions that reading an account and trading on it
share. Nothing here places an order."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from chordesk.plugins import SettingError

from .venue import Venue, VenueRefused, VenueSilent

FIAT = frozenset(
    ["USD", "EUR", "GBP", "JPY", "CHF", "CAD", "AUD", "NZD", "CNY", "HKD", "SGD", "KRW", "INR", "BRL", "MXN", "ZAR"]
)
_REWARDS = ".F"  # Kraken's mark of a balance that earns by itself and trades like the rest


class Rights(NamedTuple):
    """Whether a key may trade, and whether it may take money away; None where the venue does not say."""

    trades: bool | None
    withdraws: bool | None


def rights_of(venue: Venue) -> Rights:
    """Ask a venue what the key may do. Raises VenueSilent for no answer, VenueRefused for a key that is not known."""
    try:
        return _RIGHTS[venue.name](venue)
    except VenueRefused as refused:
        if "Unknown method" in str(refused):
            return Rights(None, None)
        raise


def _kraken_rights(venue: Venue) -> Rights:
    listed = _result(venue.ask("privatePostGetApiKeyInfo"), venue).get("permissions")
    if not isinstance(listed, list) or not listed:
        return Rights(None, None)
    words = [str(one).lower() for one in listed]
    trades = any(("trade" in word or "order" in word) and not word.startswith("query") for word in words)
    return Rights(trades, any("withdraw" in word for word in words))


def _binance_rights(venue: Venue) -> Rights:
    if venue.play:  # the testnet has no such question, and no money
        return Rights(None, None)
    told = venue.ask("sapiGetAccountApiRestrictions")
    if not isinstance(told, dict):
        raise VenueSilent(f"{venue.title}'s answer about the key cannot be read")
    trading = ("enableSpotAndMarginTrading", "enableMargin", "enableFutures", "enableVanillaOptions")
    leaving = ("enableWithdrawals", "enableInternalTransfer", "permitsUniversalTransfer")
    return Rights(_any(told, trading), _any(told, leaving))


def _any(told: Mapping[str, Any], names: tuple[str, ...]) -> bool | None:
    stated = [told[name] for name in names if isinstance(told.get(name), bool)]
    return any(stated) if stated else None


_RIGHTS = {"kraken": _kraken_rights, "binance": _binance_rights}


def require_no_way_out(rights: Rights, venue: Venue) -> None:
    """Raise SettingError for a key that may take money away: nothing that the desk does needs it."""
    if rights.withdraws:
        reason = f"the key for {venue.title} may withdraw or transfer money, and the desk never does"
        raise SettingError(reason, remedy=f"make a key at {venue.title} without that right, and delete this one")


def require_reading(rights: Rights, venue: Venue) -> None:
    """Raise SettingError for a key that may do more than read."""
    require_no_way_out(rights, venue)
    if rights.trades:
        reason = f"the key for {venue.title} may trade, and reading balances needs none that may"
        raise SettingError(reason, remedy=f"make a key at {venue.title} that reads, and delete this one")


class Balances(NamedTuple):
    """What an account has by coin: free and in orders together. locked: of it what cannot be traded, such as what is
    staked. number: the venue's own for the account, empty where it says none. closed: the venue takes no orders on
    it."""

    held: Mapping[str, Decimal]
    locked: Mapping[str, Decimal]
    number: str = ""
    closed: bool = False


def balances_of(venue: Venue) -> Balances:
    """Raises VenueSilent where a figure is missing or none: it is not taken for nothing."""
    try:
        return _BALANCES[venue.name](venue)
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        reason = f"the balances of {venue.title} cannot be read: {type(error).__name__}"
        raise VenueSilent(reason, remedy="try again in a minute") from None


def _kraken_balances(venue: Venue) -> Balances:
    venue.pairs()  # so that its names of coins are known
    held: dict[str, Decimal] = {}
    locked: dict[str, Decimal] = {}
    for name, row in _result(venue.ask("privatePostBalanceEx"), venue).items():
        amount = _amount(row["balance"]) - _amount(row.get("credit_used") or 0)
        plain, dot, _ = name.partition(".")
        coin = str(venue.client().safe_currency_code(plain))
        into = locked if dot and not name.endswith(_REWARDS) else held
        into[coin] = into.get(coin, Decimal(0)) + amount
    return Balances(held, locked)


def _binance_balances(venue: Venue) -> Balances:
    told = venue.ask("privateGetAccount", {"omitZeroBalances": "true"})
    rows = {str(row["asset"]): _amount(row["free"]) + _amount(row["locked"]) for row in told["balances"]}
    coins = {str(venue.client().safe_currency_code(name)): amount for name, amount in rows.items()}
    # Flexible savings are listed as coins of their own.
    saved = {name: amount for name, amount in coins.items() if name.startswith("LD") and name[2:] in venue.coins()}
    held = {name: amount for name, amount in coins.items() if name not in saved}
    return Balances(
        held,
        {name[2:]: amount for name, amount in saved.items()},
        str(told.get("uid") or ""),
        told["canTrade"] is False,
    )


_BALANCES = {"kraken": _kraken_balances, "binance": _binance_balances}


def _result(told: Any, venue: Venue) -> dict[str, Any]:
    found = told.get("result") if isinstance(told, dict) else None
    if not isinstance(found, dict):
        raise VenueSilent(f"an answer of {venue.title} cannot be read", remedy="try again in a minute")
    return found


def _amount(value: Any) -> Decimal:
    if value is None or isinstance(value, bool):
        raise ValueError("a figure is missing")
    found = Decimal(str(value))
    if not found.is_finite():
        raise ValueError("a figure is none")
    return found
