"""Balances by a key that only reads: what is held, what it is worth, and which keys are refused."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from chordesk_ccxt import FEATURE, holdings
from far_binance import FarBinance
from far_kraken import FarKraken

from chordesk.plugins import MarketError, MarketUnavailable, SettingError, Snapshot

READING = {"Kraken": ["query-funds", "query-closed-trades"], "Binance": ["enableReading"]}
TRADING = {"Kraken": [*READING["Kraken"], "modify-trades"], "Binance": ["enableReading", "enableSpotAndMarginTrading"]}
LEAVING = {"Kraken": [*READING["Kraken"], "withdraw-funds"], "Binance": ["enableReading", "enableWithdrawals"]}


@pytest.fixture(params=[FarKraken, FarBinance], ids=["kraken", "binance"])
def far(request: pytest.FixtureRequest) -> Iterator[Any]:
    with request.param() as venue:
        venue.prices |= {f"BTC-{venue.money}": Decimal("60000.5"), f"ETH-{venue.money}": Decimal(3000)}
        venue.balances = {venue.money: Decimal("120.25"), "BTC": Decimal("0.12345678"), "ETH": Decimal(0)}
        venue.rights = READING[venue.title]
        yield venue


def read(far: Any) -> Snapshot:
    name = far.title.lower()
    source = FEATURE.holdings[name]
    values = dict(zip(source.credentials, (far.key, far.secret), strict=True))
    return getattr(holdings, name)(values | {"CCXT_STAND_IN": far.url})  # type: ignore[no-any-return]


def test_what_is_held_has_its_quantity_and_the_venues_price(far: Any) -> None:
    (account,) = read(far).statements
    btc, money = account.holdings
    assert (btc.kind, btc.symbol, btc.quantity) == ("crypto", f"BTC-{far.money}", Decimal("0.12345678"))
    assert (btc.price, btc.currency) == (Decimal("60000.5"), far.money)
    assert (money.name, money.quantity) == (far.money, Decimal("120.25"))
    assert btc.rate == (1 if far.money == "USD" else None), "a stablecoin is no dollar"


@pytest.mark.parametrize(("rights", "said"), [(TRADING, "may trade"), (LEAVING, "may withdraw")])
def test_a_key_that_may_do_more_than_read_is_refused_before_anything_is_read(far: Any, rights: Any, said: str) -> None:
    far.rights = rights[far.title]
    with pytest.raises(SettingError, match=said) as told:
        read(far)
    assert "delete this one" in told.value.remedy
    assert not [path for path, _ in far.asked if path.endswith(("BalanceEx", "/account"))]


def test_where_the_venue_does_not_say_what_a_key_may_do_that_is_said(far: Any) -> None:
    far.rights = None
    assert any("does not say what the key may do" in note for note in read(far).notes)


def test_a_wrong_key_is_refused_and_not_shown(far: Any) -> None:
    key, far.key = far.key, "another"
    with pytest.raises(MarketError, match="refuses") as told:
        far_key = far.key
        far.key = key  # what is sent
        values = {f"{far.title.upper()}_READ_KEY": far_key, f"{far.title.upper()}_READ_SECRET": far.secret}
        getattr(holdings, far.title.lower())(values | {"CCXT_STAND_IN": far.url})
    assert "another" not in str(told.value)


def test_a_figure_that_is_missing_is_not_nothing(far: Any) -> None:
    far.missing = True
    with pytest.raises(MarketUnavailable, match="balances"):
        read(far)


def test_a_coin_without_a_price_is_held_and_said(far: Any) -> None:
    far.balances["WIF"] = Decimal(7)
    found = read(far)
    wif = next(row for row in found.statements[0].holdings if row.name == "WIF")
    assert (wif.quantity, wif.price, wif.symbol) == (7, None, None)
    assert any("no price of WIF" in note for note in found.notes)


def test_what_is_staked_is_held_and_said() -> None:
    with FarKraken() as far:
        far.rights = READING["Kraken"]
        far.prices["ETH-USD"] = Decimal(3000)
        far.balances = {"ETH": Decimal(1), "ETH.S": Decimal(2), "ETH.F": Decimal("0.5")}
        found = read(far)
    (eth,) = found.statements[0].holdings
    assert eth.quantity == Decimal("3.5")
    assert found.notes == ("of ETH, 2 are staked or saved",)


def test_an_address_elsewhere_gets_no_key() -> None:
    with pytest.raises(ValueError, match="address of this machine"):
        holdings.kraken({"KRAKEN_READ_KEY": "k", "KRAKEN_READ_SECRET": "s", "CCXT_STAND_IN": "https://example.com"})
