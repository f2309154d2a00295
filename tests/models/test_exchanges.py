"""Exchanges: the table's rows are whole, and a symbol leads to one of them or to an error."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.models.errors import MarketError
from chordesk.models.exchanges import (
    EUROPEAN,
    EXCHANGES,
    HOME,
    PLACES,
    Exchange,
    at_listing,
    currency_of,
    exchange_code,
    exchange_of,
    fitting_steps,
    pair_of,
    suffix_of,
)
from chordesk.models.market import Listing, root_of
from chordesk.tools.market.universe import is_symbol


@pytest.mark.parametrize("row", EXCHANGES.values(), ids=lambda row: row.code)
def test_a_row_is_whole_and_names_where_its_facts_are_from(row: Exchange) -> None:
    assert ZoneInfo(row.zone)
    assert re.fullmatch("[A-Z]{3}", row.currency)
    assert {PLACES[suffix] for suffix in row.suffixes} <= {row.place}
    assert bool(row.source) == bool(row.steps or row.lot)
    assert not row.source or re.search(r"20\d\d", row.source), "a fact without a day"
    for table in row.steps:
        starts, steps = zip(*table.rows, strict=True)
        assert (starts[0], sorted(set(starts))) == (0, list(starts))
        assert min(steps) > 0
        for border in table.borders():
            assert not border % table.step(border), "a border is a price itself"


# Of Commission Delegated Regulation (EU) 2017/588: three ranges of prices, and in each the steps of the six bands.
@pytest.mark.parametrize(
    ("price", "steps"),
    [
        ("0.05", "0.0005 0.0002 0.0001 0.0001 0.0001 0.0001"),
        ("0.99", "0.005 0.002 0.001 0.0005 0.0002 0.0001"),
        ("10", "0.1 0.05 0.02 0.01 0.005 0.002"),
        ("9.99", "0.05 0.02 0.01 0.005 0.002 0.001"),
        ("50000", "500 200 100 50 20 10"),
    ],
)
def test_the_european_table_is_that_of_the_regulation(price: str, steps: str) -> None:
    assert [table.step(Decimal(price)) for table in EUROPEAN] == [Decimal(step) for step in steps.split()]


# As the exchanges state them: the last price of a range, and the first of the next.
@pytest.mark.parametrize(
    ("code", "price", "step"),
    [
        ("XNYS", "0.9999", "0.0001"), ("XNYS", "1", "0.01"),
        ("XTKS", "3000", "1"), ("XTKS", "3001", "5"), ("XTKS", "5000", "5"), ("XTKS", "5005", "10"),
        ("XHKG", "19.99", "0.01"), ("XHKG", "20", "0.02"), ("XHKG", "50", "0.05"),
        ("XNSE", "250", "0.01"), ("XNSE", "250.05", "0.05"), ("XNSE", "1000.1", "0.1"),
        ("XKRX", "1999", "1"), ("XKRX", "2000", "5"), ("XASX", "1.995", "0.005"), ("XASX", "2", "0.01"),
        ("XTSE", "0.495", "0.005"), ("XTSE", "0.5", "0.01"), ("XSES", "0.995", "0.005"), ("XSES", "1", "0.01"),
    ],
)  # fmt: skip
def test_a_step_belongs_to_its_range(code: str, price: str, step: str) -> None:
    assert EXCHANGES[code].steps[0].step(Decimal(price)) == Decimal(step)


@pytest.mark.parametrize(
    ("symbol", "code", "currency"),
    [
        ("AAPL", HOME, "USD"), ("BRK.B", HOME, "USD"), ("BAC.PR.L", HOME, "USD"), ("T", HOME, "USD"),
        ("AZN.L", "XLON", "GBP"), ("7203.T", "XTKS", "JPY"), ("M&M.NS", "XNSE", "INR"), ("005930.KQ", "XKRX", "KRW"),
        ("BTC-USD", "CRYPTO", "USD"), ("ETH-BTC", "CRYPTO", "BTC"),
    ],
)  # fmt: skip
def test_a_symbol_leads_to_its_exchange(symbol: str, code: str, currency: str) -> None:
    assert (exchange_of(symbol).code, currency_of(symbol)) == (code, currency)


@pytest.mark.parametrize(("symbol", "says"), [("SAP.F", "Frankfurt .*does not know"), ("EUR-USD", "an exchange rate")])
def test_what_has_no_row_is_not_taken_for_new_york(symbol: str, says: str) -> None:
    with pytest.raises(MarketError, match=f"{re.escape(symbol)} is .*{says}") as caught:
        exchange_of(symbol)
    assert caught.value.remedy


@given(st.from_regex(r"[A-Z]{1,5}(\.[ABCUW])?", fullmatch=True))
def test_a_us_symbol_is_of_new_york(symbol: str) -> None:
    assert exchange_of(symbol).code == HOME
    assert pair_of(symbol) is None


@given(st.integers(0, 5), st.lists(st.integers(1, 10**6), min_size=1, max_size=40))
def test_inferred_steps_are_never_finer_than_the_listing_s_own(band: int, units: list[int]) -> None:
    own = EUROPEAN[band]
    prices = [own.step(Decimal(unit) / 100) * unit for unit in units]
    prices = [price for price in prices if not price % own.step(price)]
    found = fitting_steps(EXCHANGES["XLON"], prices)
    if not prices:
        assert found is None
        return
    assert found is not None
    assert EUROPEAN.index(found) <= band
    assert not any(price % found.step(price) for price in prices)


def test_steps_that_no_table_fits_are_not_known() -> None:
    assert fitting_steps(EXCHANGES["XLON"], [Decimal("100.00001")]) is None
    assert fitting_steps(EXCHANGES["XTAI"], [Decimal(100)]) is None
    assert fitting_steps(EXCHANGES["XTKS"], []) is EXCHANGES["XTKS"].steps[0]


@given(st.from_regex(r"[A-Z0-9][A-Z0-9.-]{0,9}", fullmatch=True))
def test_what_was_a_symbol_is_one_of_the_same_exchange(symbol: str) -> None:
    assert is_symbol(symbol)
    listing = Listing(symbol=symbol)
    assert listing.exchange == exchange_code(symbol)
    if listing.exchange == HOME:
        assert listing.model_dump(exclude_none=True) == {"symbol": symbol}
        assert root_of(symbol) == symbol.replace(".", "").replace("-", "") or suffix_of(symbol) or pair_of(symbol)
    else:
        assert root_of(symbol) == symbol


@pytest.mark.parametrize(
    ("symbol", "told"),
    [
        ("AAPL", {}), ("BRK.B", {}),
        ("AZN.L", {"exchange": "XLON", "currency": "GBP", "lot": None}),
        ("7203.T", {"exchange": "XTKS", "currency": "JPY", "lot": Decimal(100)}),
        ("ETH-BTC", {"exchange": "CRYPTO", "currency": "BTC", "kind": "crypto", "lot": None}),
        ("SAP.F", {}),
    ],
)  # fmt: skip
def test_a_dump_of_a_listing_has_only_what_is_not_as_in_new_york(symbol: str, told: dict[str, object]) -> None:
    dumped = Listing(symbol=symbol).model_dump()
    assert {name: dumped[name] for name in dumped.keys() - {"name", "sector", "industry", "company", "aliases"}} == {
        "symbol": symbol,
        **told,
    }
    assert Listing.model_validate(dumped) == Listing(symbol=symbol)


def test_a_source_may_state_another_currency_and_no_other_exchange() -> None:
    assert Listing(symbol="VOD.L", currency="USD", lot=1).currency == "USD"
    with pytest.raises(ValueError, match=r"VOD\.L is of XLON by its form, not of XNYS"):
        Listing(symbol="VOD.L", exchange=HOME)


@pytest.mark.parametrize("symbol", ["FOO.QQ", "A.XYZ"])
def test_a_suffix_that_nobody_knows_is_named(symbol: str) -> None:
    with pytest.raises(MarketError, match=re.escape(f"{symbol} has a suffix that the desk does not know")) as caught:
        exchange_of(symbol)
    assert ".TO" in (caught.value.remedy or "")
    assert exchange_of("ABC.WS").code == exchange_of("ABC.U").code == HOME


@pytest.mark.parametrize("symbol", ["M&M.NS", "RELIANCE.NS", "A123456789012345.TO"])
def test_a_symbol_has_up_to_twenty_characters(symbol: str) -> None:
    assert is_symbol(symbol)
    assert not is_symbol(symbol.rjust(21, "A"))
    assert not is_symbol("&M.NS")


@pytest.mark.parametrize(
    ("symbol", "shown"),
    [
        ("AAPL", "2024-03-14 20:00 EDT"), ("AZN.L", "2024-03-15 00:00 GMT"), ("7203.T", "2024-03-15 09:00 JST"),
        ("BHP.AX", "2024-03-15 11:00 AEDT"), ("BTC-USD", "2024-03-15 00:00 UTC"),
        ("AAPL240419C00150000", "2024-03-14 20:00 EDT"),
    ],
)  # fmt: skip
def test_times_are_shown_where_a_symbol_is_listed(symbol: str, shown: str) -> None:
    assert at_listing(dt.datetime(2024, 3, 15, tzinfo=dt.UTC), symbol) == shown
