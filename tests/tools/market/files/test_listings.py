"""Own data of other exchanges: units, days, universes and instants, and what `listings.csv` states."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pytest

from chordesk.models.errors import MarketError, SettingError, UsageError
from chordesk.models.settings import Settings
from chordesk.tools.market.clock import exchange_hours
from chordesk.tools.market.files.data_folder import check_folder
from chordesk.tools.market.files.news_and_earnings import read_earnings, read_statements
from chordesk.tools.market.files.symbols import symbol_in
from chordesk.tools.market.files.tables import Problems
from chordesk.tools.market.universe import resolve_universe
from chordesk.tools.rates import cost_to_trade
from tests.tools.market.files.folders import HEADER, market, sessions, walk, write_table

COLUMNS = ("symbol", "exchange", "currency", "kind", "step", "quantity step", "lot", "least amount")
OF = {"AZN.L": "XLON", "7203.T": "XTKS", "BTC-USD": "CRYPTO", "AAPL": "XNYS"}
START = {"AZN.L": 9_000.0, "7203.T": 3_000.0, "BTC-USD": 60_000.0, "AAPL": 180.0}
AZN = ("AZN.L", "LSE", "GBp", "share", "", "", "1", "")
BTC = ("BTC-USD", "crypto", "USD", "crypto", "0.01", "0.00001", "", "0.0001")


def folder(path: Path, *listings: tuple[str, ...], symbols: tuple[str, ...] = ("AZN.L", "7203.T", "BTC-USD")) -> Path:
    for symbol in symbols:
        write_table(
            path / "bars" / f"{symbol}.csv", HEADER, walk(sessions("2024-02-01", 60, OF[symbol]), START[symbol])
        )
    if listings:
        write_table(path / "listings.csv", COLUMNS, listings)
    return path


def errors(path: Path) -> list[str]:
    return [str(one) for one in check_folder(path, "auto", 20).problems.of("error")]


def test_a_folder_of_three_exchanges_is_seen_from_the_one_of_the_run(tmp_path: Path) -> None:
    own = folder(tmp_path / "own", AZN, BTC)
    assert errors(own) == []
    day = dt.date(2024, 3, 28)
    london = market(tmp_path, own, day, exchange="XLON")
    assert london.clock.now().isoformat() == "2024-03-28T16:25:00+00:00"
    assert [one.symbol for one in london.universe("sp500")] == ["AZN.L"]
    assert [one.isoformat() for one in london.sessions(2)] == ["2024-03-27", "2024-03-28"]
    written = [float(row[4]) for row in walk(sessions("2024-02-01", 60, "XLON"), 9_000.0)]  # type: ignore[arg-type]
    bars = london.bars("AZN.L", 100)
    assert bars.close.tolist() == [close / 100 for close in written[: len(bars)]], "pence in the file, pounds here"
    # Of the others nothing is known whose session closes later than this instant.
    assert london.bars("7203.T", 1).dates == [day]
    assert london.bars("BTC-USD", 1).dates == [dt.date(2024, 3, 27)]
    assert london.quote("7203.T").at.isoformat() == "2024-03-28T15:00:00+09:00"
    tokyo = market(tmp_path, own, day, exchange="XTKS")
    assert tokyo.clock.now().isoformat() == "2024-03-28T14:55:00+09:00"
    assert tokyo.bars("AZN.L", 1).dates == [dt.date(2024, 3, 27)]


def test_no_bar_is_seen_before_its_own_exchange_has_closed(tmp_path: Path) -> None:
    """From each session of each exchange; its own bar alone is known the minutes before its close that it is decided
    in."""
    own = folder(tmp_path / "own", AZN, BTC, symbols=tuple(OF))
    seen = 0
    for home in OF.values():
        for day in sessions("2024-02-10", 30, home):
            then = market(tmp_path, own, day, exchange=home)
            now = then.clock.now()
            assert 0 < (exchange_hours(home).close_of(day) - now).total_seconds() <= 300
            for symbol, exchange in OF.items():
                last = then.bars(symbol, 1).dates[-1]
                known = now if exchange == home else exchange_hours(exchange).close_of(last)
                assert last == day if exchange == home else known <= now, (symbol, home, day)
                assert then.quote(symbol).at <= now
                seen += 1
    assert seen == 30 * len(OF) ** 2


def test_days_of_pairs_have_weekends_and_are_decided_before_midnight(tmp_path: Path) -> None:
    own = folder(tmp_path / "own", AZN, BTC)
    crypto = market(tmp_path, own, dt.date(2024, 3, 31), exchange="CRYPTO")
    assert crypto.clock.now().isoformat() == "2024-03-31T23:55:00+00:00"
    assert list(crypto.bars("BTC-USD", 3).dates) == [dt.date(2024, 3, day) for day in (29, 30, 31)]
    assert crypto.bars("AZN.L", 1).dates == [dt.date(2024, 3, 28)], "London has an Easter"


def test_a_listing_has_what_is_stated_and_else_what_its_exchange_has(tmp_path: Path) -> None:
    own = folder(tmp_path / "own", AZN, BTC)
    write_table(own / "universe.csv", ("symbol", "name", "sector"), [("AZN.L", "AstraZeneca", "Health Care")])
    seen = market(tmp_path, own, dt.date(2024, 3, 28), exchange="XLON")
    azn, btc, toyota = map(seen.listing, ("AZN.L", "BTC-USD", "7203.T"))
    assert (azn.name, azn.sector, azn.currency, azn.lot) == ("AstraZeneca", "Health Care", "GBP", 1)
    assert (btc.kind, btc.price_step, btc.quantity_step, btc.lot, btc.least_amount) == (
        "crypto", Decimal("0.01"), Decimal("0.00001"), Decimal("0.00001"), Decimal("0.0001"),
    )  # fmt: skip
    assert (toyota.currency, toyota.lot) == ("JPY", 100)


def test_two_exchanges_are_no_universe(tmp_path: Path) -> None:
    seen = market(tmp_path, folder(tmp_path / "own", AZN, BTC), dt.date(2024, 3, 28), exchange="XLON")
    with pytest.raises(UsageError, match="symbols of 2 exchanges") as caught:
        resolve_universe("AZN.L,7203.T", seen)
    assert "DESK_EXCHANGE=XTKS DESK_UNIVERSE=7203.T" in (caught.value.remedy or "")
    with pytest.raises(SettingError, match="DESK_EXCHANGE=XPAR, and the symbols of DESK_DATA"):
        market(tmp_path, tmp_path / "own", dt.date(2024, 3, 28), exchange="XPAR")


def test_a_row_that_cannot_be_read_is_not_said_to_be_missing_too(tmp_path: Path) -> None:
    own = folder(tmp_path / "own", ("AZN.L", "", "GBp", "", "", "", "many", ""), BTC)
    assert errors(own) == ["listings.csv, row 2, column lot: 'many' is no amount: write it as 0.0001 or 100"]


def test_a_step_above_the_price_is_named(tmp_path: Path) -> None:
    own = folder(tmp_path / "own", ("7203.T", "", "", "", "100000", "", "", ""), symbols=("7203.T",))
    (found,) = errors(own)
    assert found.startswith("listings.csv, column step: 7203.T has a step of 100000, above its last close of")


def test_a_time_without_a_zone_is_where_its_symbol_is_listed(tmp_path: Path) -> None:
    own = tmp_path / "own"
    stated = [("7203.T", "2024-05-08 15:00"), ("AZN.L", "2024-05-08 07:00"), ("AAPL", "2024-05-08"), ("BTC-USD", "")]
    rows = [(symbol, "2024-05-09", "", announced, "", "") for symbol, announced in stated]
    write_table(own / "earnings.csv", ("symbol", "date", "time", "announced", "eps estimate", "eps"), rows)
    dates = read_earnings(own / "earnings.csv", "earnings.csv", Problems())
    known = {symbol: dates[symbol][0].known_at.isoformat() for symbol in dates}
    assert known == {
        "7203.T": "2024-05-08T15:00:00+09:00", "AZN.L": "2024-05-08T07:00:00+01:00",
        "AAPL": "2024-05-08T23:59:00-04:00", "BTC-USD": "2024-05-09T23:59:00+00:00",
    }  # fmt: skip
    filed = [*stated[:3], ("7203.T", "2024-05-09"), ("AAPL", "2024-05-08 15:00"), ("AZN.L", "2024-05-08 15:00Z")]
    figures = [(symbol, "2024-03-31", at, f"eps{number}", number) for number, (symbol, at) in enumerate(filed)]
    write_table(own / "statements.csv", ("symbol", "period end", "filed", "item", "value"), figures)
    read = read_statements(own / "statements.csv", "statements.csv", set(OF), Problems())
    seen = {(one.value, one.filed.isoformat(), one.known_at.isoformat()) for symbol in read for one in read[symbol]}
    assert seen == {
        (0, "2024-05-08", "2024-05-08T15:00:00+09:00"), (3, "2024-05-09", "2024-05-09T00:00:00+09:00"),
        (1, "2024-05-08", "2024-05-08T07:00:00+01:00"), (5, "2024-05-08", "2024-05-08T15:00:00+00:00"),
        (2, "2024-05-08", "2024-05-08T00:00:00-04:00"), (4, "2024-05-08", "2024-05-08T15:00:00-04:00"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ((), "listings.csv: has no row of AZN.L, whose prices may be in two units: write GBP or, where its prices are"),
        ((AZN, AZN), "listings.csv, row 3, column symbol: AZN.L has a second row; the first is row 2"),
        (
            (("AZN.L", "TSE", "GBp"),),
            "row 2, column exchange: AZN.L is on the exchange TSE (Toronto or Tokyo); its symb",
        ),
        ((("AZN.L", "XNYS", "GBp"),), "column exchange: AZN.L is of XLON (London) by its symbol, and of XNYS here"),
        ((("AZN.L", "Mars", "GBp"),), "column exchange: 'Mars' is no exchange that the desk knows: write XLON"),
        ((("AZN.L", "", "pence"),), "column currency: 'pence' is no currency that the desk knows: write GBP, or GBp"),
        ((("AZN.L", "", ""),), "column currency: AZN.L states no currency: write GBP or"),
        ((("AZN.L", "", "GBp", "bond"),), "column kind: 'bond' is no kind of listing: write share, etf or crypto"),
        ((("AZN.L", "", "GBp", "crypto"),), "AZN.L is of XLON (London) by its symbol, and of the kind crypto here"),
        ((("AZN.L", "", "GBp", "", "0"),), "column step: '0' is no amount above 0"),
        ((("AZN.L", "", "GBp", "", "a lot"),), "column step: 'a lot' is no amount: write it as 0.0001 or 100"),
        ((("AZN.L", "", "GBp", "", "1E-9"),), "column step: '1E-9' has more than 8 decimals"),
        (
            (("AZN.L", "", "GBp", "", "", "", "0.5"),),
            "AZN.L has a lot of 0.5, which is no multiple of its quantity step 1",
        ),
        ((("BTC-USD", "", "EUR"), AZN), "BTC-USD is priced in USD by its symbol, and in EUR here"),
        ((("AAPL", "", "EUR"), AZN), "row 2, column currency: AAPL is priced in EUR; leave it out; a share is written"),
        ((("SAP.F", "", "EUR"), AZN), "column symbol: SAP.F is listed in Frankfurt (.F), which the desk does not know"),
    ],
)
def test_a_row_that_says_something_else_than_its_symbol_is_an_error(
    tmp_path: Path, rows: tuple[tuple[str, ...], ...], says: str
) -> None:
    own = folder(tmp_path / "own", *((*row, *[""] * (len(COLUMNS) - len(row))) for row in rows))
    assert any(says in one for one in errors(own)), errors(own)


def test_bars_that_flip_between_pence_and_pounds_are_an_error(tmp_path: Path) -> None:
    days = sessions("2024-02-01", 4, "XLON")
    rows = [(day, close, close, close, close, 1) for day, close in zip(days, (9_100, 9_150, 91.6, 9_100), strict=True)]
    own = folder(tmp_path / "own", AZN, symbols=())
    write_table(own / "bars" / "AZN.L.csv", HEADER, rows)
    said = "AZN.L closed at 0.916 on 2024-02-05, at 91.5 before: pence in one of them and pounds in the other"
    assert any(f"bars/AZN.L.csv, row 4, column close: {said}" in one for one in errors(own)), errors(own)


def test_bars_on_a_day_without_a_session_there_are_an_error(tmp_path: Path) -> None:
    """A day on which New York traded and London did not, and the other way round."""
    own = folder(tmp_path / "own", AZN, symbols=("AAPL",))
    for symbol in ("AZN.L", "AAPL"):
        rows = [(day, 10, 10, 10, 10, 1) for day in ("2024-05-03", "2024-05-06", "2024-05-27")]
        write_table(own / "bars" / f"{symbol}.csv", HEADER, rows)
    assert [one.partition(": ")[2] for one in errors(own)] == [
        "Monday, 2024-05-06, is no session of XLON (London)",
        "Monday, 2024-05-27, is no session of XLON (London)",
        "Monday, 2024-05-27, is no session of the New York Stock Exchange",
    ]


@pytest.mark.parametrize(
    ("column", "cell", "says"),
    [
        (
            "currency",
            "GBp",
            "row 2, column currency: AZN.L is priced in GBp; leave the column out, and state it in list",
        ),
        (
            "exchange",
            "TSE",
            "row 2, column exchange: AZN.L is on the exchange TSE (Toronto or Tokyo); leave the column",
        ),
    ],
)
def test_a_table_of_bars_says_no_unit_of_its_own(tmp_path: Path, column: str, cell: str, says: str) -> None:
    own = folder(tmp_path / "own", AZN, symbols=())
    day = sessions("2024-02-01", 1, "XLON")[0]
    write_table(own / "bars.csv", ("symbol", "date", "close", column), [("AZN.L", day, 9_100, cell)])
    assert any(says in one for one in errors(own)), errors(own)


def test_a_stated_dividend_is_in_the_unit_of_the_prices(tmp_path: Path) -> None:
    days = sessions("2024-02-01", 3, "XLON")
    own = folder(tmp_path / "own", AZN, symbols=())
    header = ("date", "close", "adj close")
    write_table(
        own / "bars" / "AZN.L.csv", header, [(days[0], 10_000, 9_900), *((day, 9_900, 9_900) for day in days[1:])]
    )
    write_table(own / "actions.csv", ("symbol", "date", "dividend"), [("AZN.L", days[1], 100)])
    seen = market(tmp_path, own, days[2], exchange="XLON")
    assert [one.dividend for one in seen.actions("AZN.L", days[0])] == [1.0]


@pytest.mark.parametrize(("unit", "cash"), [("GBP", 25), ("GBp", 0.25)])
def test_a_dividend_in_another_unit_than_the_closes_show_is_an_error(tmp_path: Path, unit: str, cash: float) -> None:
    days, whole = sessions("2024-02-01", 3, "XLON"), 100 if unit == "GBp" else 1
    own = folder(tmp_path / "own", ("AZN.L", "LSE", unit, "share", "", "", "1", ""), symbols=())
    rows = [(days[0], 35 * whole, 34.75 * whole), *((day, 34.75 * whole, 34.75 * whole) for day in days[1:])]
    write_table(own / "bars" / "AZN.L.csv", ("date", "close", "adj close"), rows)
    write_table(own / "actions.csv", ("symbol", "date", "dividend"), [("AZN.L", days[1], cash)])
    assert any("a hundredfold" in one for one in errors(own)), errors(own)


@pytest.mark.parametrize(
    ("written", "symbol"),
    [
        ("BATS.L", "BATS.L"),
        ("IEX.NS", "IEX.NS"),
        ("NAS.OL", "NAS.OL"),
        ("BATS:AAPL", "AAPL"),
        ("NYSE.T", "T"),
        ("AAPL.US", "AAPL"),
    ],
)
def test_a_share_abroad_may_be_called_like_a_venue_in_the_us(written: str, symbol: str) -> None:
    assert symbol_in(f"{written}.csv") == symbol


def test_what_a_trade_costs_has_duties_and_the_commission_at_its_rate(tmp_path: Path) -> None:
    own, day = folder(tmp_path / "own", AZN), dt.date(2024, 3, 28)
    write_table(own / "fx.csv", ("date", "pair", "rate"), [(day - dt.timedelta(days=1), "GBPUSD", 1.25)])
    seen = market(tmp_path, own, day, exchange="XLON")
    paid = Settings(home=tmp_path, slippage_bps=5.0, commission_per_share=0.1)
    assert cost_to_trade(seen, "AZN.L", 10.0, paid) == pytest.approx(2 * (0.0005 + 0.1 / 12.5) + 0.005)
    assert cost_to_trade(seen, "AZN.L", None, paid) == pytest.approx(2 * 0.0005 + 0.005)


def test_an_unknown_symbol_says_so(tmp_path: Path) -> None:
    seen = market(tmp_path, folder(tmp_path / "own", AZN), dt.date(2024, 3, 28), exchange="XLON")
    with pytest.raises(MarketError, match=r"unknown symbol VOD\.L"):
        seen.quote("VOD.L")
