"""Files that list what happened: the sum of each, and what is refused because the sum would be wrong."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from chordesk.models.errors import UsageError
from chordesk.models.statements import Read
from chordesk.tools.holdings.reading import read_file
from tests.tools.holdings.test_formats import EXPECTED as FORMATS
from tests.tools.holdings.test_formats import FILES, HINTS, sub

# By file: rows that count, the last day, and what each account holds, by hand.
EXPECTED: dict[str, tuple[int, str, list[dict[str, str]]]] = {
    "trading212.csv": (9, "2024-06-30", [{"AAPL": "8", "GB00BH4HKS39": "120", "NVDA": "20"}]),
    "scalable.csv": (5, "2024-12-11", [{"US9168961038": "60", "IE00B4L5Y983": "1.234567"}]),
    # 1,350 paid in, 265.96 + 71.69 spent, 90.58 got, 33.97 spent, 7.94 got, 20.79 spent, 20 got.
    "trade-republic.csv": (9, "2024-04-05", [{"DE0005557508": "14", "BTC": "0.0011", "EUR": "1076.11"}]),
    "robinhood.csv": (7, "2025-06-20", [{"AAPL": "6", "SPY270115P00500000": "-1", "USD": "4042.47"}]),
    # 0.05 bought, 0.00363125 converted, 0.02 sent.
    "coinbase.csv": (6, "2025-01-17", [{"BTC": "0.02636875", "ETH": "0.505", "XRP": "156.145683"}]),
    "kraken.csv": (8, "2024-06-02", [{"BTC": "0.0024", "DOT": "10.5", "EUR": "899.82"}]),
    "degiro-account.csv": (
        9, "2022-12-16",
        [{"IE00B3RBWM25": "3", "AU000000FBR4": "1500", "US9256521090": "1", "USD": "1.36", "EUR": "50.07"}],
    ),
    "etoro.csv": (6, "2024-01-17", [{"AMD": "0.337209"}]),
    "portfolio-performance.csv": (6, "2021-07-01", [{"APC.DE": "7.5", "EUNL.DE": "12.5", "SAP.DE": "3"}]),
    "trade-republic-old.csv": (4, "2024-11-30", [{"IE00BKX55T58": "0.01"}]),
    "ghostfolio.json": (
        5, "2026-01-05", [{"AAPL": "8", "SAP.DE": "4", "USD": "250.5"}, {"Bitcoin": "0.25", "EUR": "40.25"}]
    ),
}  # fmt: skip


def read(path: Path) -> Read:
    return read_file(path, HINTS, from_activity=True)


def held(found: Read) -> list[dict[str, str]]:
    def text(number: object) -> str:
        shown = f"{number:f}"
        return shown.rstrip("0").rstrip(".") if "." in shown else shown

    return [
        {row.currency if row.kind == "cash" else row.key: text(row.quantity) for row in one.holdings}
        for one in found.statements
    ]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_file_of_activity_is_summed_where_a_person_agrees(name: str) -> None:
    rows, day, holdings = EXPECTED[name]
    path = FILES / "activity" / name
    with pytest.raises(UsageError, match="it lists what happened") as refused:
        read_file(path, HINTS)
    assert "--from-activity" in refused.value.remedy
    found = read(path)
    assert (found.summed, held(found)) == (rows, holdings)
    assert {str(one.as_of) for one in found.statements} == {day}


def lines_without(*parts: str) -> Callable[[str], str]:
    def changed(text: str) -> str:
        kept = [line for line in text.splitlines(keepends=True) if not any(part in line for part in parts)]
        assert len(kept) < text.count("\n")
        return "".join(kept)

    return changed


def twice(part: str, old: str = "", new: str = "") -> Callable[[str], str]:
    """A row again, perhaps changed."""

    def changed(text: str) -> str:
        line = next(one for one in text.splitlines(keepends=True) if part in one)
        assert old in line
        return text.replace(line, line + line.replace(old, new))

    return changed


SALE, LESS = "the first row of .* is a sale: rows before it are not in the file", "would be -"
KIND, NUMBER, LARGE, ISIN = "is a kind of .* that is not known", "is no number", "too large to be meant", "is no ISIN"
AMOUNT = "x .* is .*, and the amount is"
NONE = "moves a holding and has no quantity"
DAY, CUT = "is no day|day or the month", "cells, and the header|no whole JSON|no CSV|not closed"
DAMAGE: dict[str, list[tuple[Callable[[str], str], str]]] = {
    "trading212.csv": [
        (lines_without("EOF1,"), SALE),
        (
            sub(
                '2.5000000000,179.60,USD,1.0812,-1.30,"EUR",415.20',
                '25.5000000000,179.60,USD,1.0812,-1.30,"EUR",4235.20',
            ),
            LESS,
        ),
        (sub("2.5000000000,179.60", "25.5000000000,179.60"), AMOUNT),
        (sub("Market sell", "Market barter"), KIND),
        (sub("10.5000000000,182.50", "NaN,182.50"), NONE),
        (sub("10.5000000000,182.50", "1e12,182.50"), LARGE),
        (sub("US0378331005,AAPL", "US0378331006,AAPL"), ISIN),
        (sub("2024-03-01 15:30:05.104", "2024-02-31 15:30:05"), DAY),
        (sub("2024-03-01", "2029-03-01"), "later than today"),
        (sub("Market buy,2024-01-08", "Market buy;2024-01-08"), CUT),
        (sub("120.0000000000,68.20", "1.2,68.20"), AMOUNT),
        (sub("120.0000000000,68.20", ",68.20"), "moves a holding and has no quantity"),
        (sub(',AAPL,"Apple",10.5', ',=1+1,"Apple",10.5'), "is a formula"),
        (sub("68.20,GBX", "68.20,???"), "is no currency"),
    ],
    "scalable.csv": [
        (lines_without("SCAL1"), SALE),
        (sub("Sell;US9168961038;20;7,34;146,80", "Sell;US9168961038;200;7,34;1468,00"), LESS),
        (sub("Sell;US9168961038;20;", "Sell;US9168961038;200;"), AMOUNT),
        (sub("Savings plan", "Corporate action"), KIND),
        (sub("Pending", "Perhaps"), KIND),
        (sub("1,234567", "Infinity"), NUMBER),
        (sub("80;7,34", "1e12;7,34"), LARGE),
        (sub("Buy;US9168961038;80", "Buy;US9168961039;80"), ISIN),
        (sub("2024-10-22;13", "2024-13-22;13"), DAY),
        (sub("Sell;US9168961038;20;", "Sell;US9168961038;20"), CUT),
        (sub("Buy;US9168961038;80;", "Buy;;80;"), "first row|is a sale"),
    ],
    "trade-republic.csv": [
        (lines_without(";t2;", ";t3;"), SALE),
        (sub("-5.0000000000;18.315000;91.58", "-50.0000000000;18.315000;915.75"), LESS),
        (sub("-5.0000000000;", "-50.0000000000;"), AMOUNT),
        (sub("REDEMPTION", "SPIN_OFF"), KIND),
        (sub("TRADING;SELL", "BARTER;SELL"), KIND),
        (sub("15.0000000000;17", "NaN;17"), NONE),
        (sub("15.0000000000;17", "1000000000000;17"), LARGE),
        (sub("DE0005557508;15", "DE0005557509;15"), ISIN),
        (sub("2023-09-08;DEFAULT", "2023-09-31;DEFAULT"), DAY),
        (sub("-1.00;;EUR;;;;BUY;t2", "-1.00;;EUR;;BUY;t2"), CUT),
        (sub("2024-02-12;DEFAULT", "2029-02-12;DEFAULT"), "later than today"),
    ],
    "robinhood.csv": [
        (lines_without('"1/15/2025"', 'CUSIP: 037833100","Buy'), SALE),
        (sub('"Sell","4","$210.00","$840.00"', '"Sell","40","$210.00","$8,400.00"'), LESS),
        (sub('"Sell","4"', '"Sell","40"'), AMOUNT),
        (sub('"CDIV"', '"SOFF"'), KIND),
        (sub('"Sell","4"', '"Sell","four"'), NUMBER),
        (sub('"Sell","4"', '"Sell","NaN"'), NUMBER),
        (sub('"Buy","10","$230.00"', '"Buy","10000000000",""'), LARGE),
        (sub('"STO","1"', '"STO","10"'), AMOUNT),
        (sub('"OEXP","2S"', '"OEXP","3S"'), "TMC250620C00011000 would be -1"),
        (sub('"5/14/2025","5/14/2025"', '"14/5/2025","5/14/2025"'), DAY),
        (sub('Put $500.00"', 'Put at $500"'), "looks like an option contract"),
        (sub('"STO","1","$31.00"', '"STO","1"'), CUT),
        (sub('"Settle Date","Instrument"', '"Settle Date","Thing"'), "header of no format"),
    ],
    "coinbase.csv": [
        (lines_without("c2,"), SALE),
        (sub('-0.02,EUR,"€96,302.65","-€1,926.05"', '-0.2,EUR,"€96,302.65","-€19,260.53"'), LESS),
        (sub("Send,BTC,-0.02", "Send,BTC,-0.2"), AMOUNT),
        (sub("Staking Income", "Margin Loan"), KIND),
        (sub("Converted 0.00363125 BTC to 156.145683 XRP", "Converted"), "does not say what was converted"),
        (sub("Converted 0.00363125", "Converted 0.00463125"), "its quantity is another"),
        (sub("Receive,ETH,0.5", "Receive,ETH,-0.5"), "does not fit 'receive'"),
        (sub("Buy,BTC,0.05", "Buy,BTC,NaN"), NONE),
        (sub("Buy,BTC,0.05", "Buy,BTC,1e17"), LARGE),
        (sub("Buy,BTC,0.05", "Buy,<b>,0.05"), "is no name of a coin"),
        (sub("2024-06-01 06", "2024-06-31 06"), DAY),
        (sub('€3500.00,"€1', '€3500.00,€9,"€1'), CUT),
    ],
    "kraken.csv": [
        (lines_without('"L7"'), "balance of XXBT .*do not come to it"),
        (sub("-0.0005000000,0.0001000000", "-0.0005000000,0.0000000000"), "balance of XXBT .*do not come to it"),
        (sub("0,6.5000000000", "0,7.5000000000"), "do not come to it"),
        (sub("-100.0000,0.1800", "NaN,0.1800"), "has no amount or no balance"),
        (sub("899.8200", "much"), NUMBER),
        (sub("0.0024000000", "-0.0024000000"), "do not come to it"),
        (sub('"2024-03-19 19', '"2024-03-39 19'), DAY),
        (sub('"DOT28.S","earn', '"","earn'), "has no time or no asset"),
        (sub("4.0000000000,0,4.0000000000", "4.0000000000,0"), CUT),
        (sub("2024-06-02", "2029-06-02"), "later than today"),
    ],
    "degiro-account.csv": [
        (lines_without("Koop 5 @"), SALE),
        (sub('Verkauf 2 zu je 63,97 EUR",,EUR,"127,94', 'Verkauf 7 zu je 63,97 EUR",,EUR,"447,79'), LESS),
        (sub("Koop 1 @ 33,9 USD", "Spin-off 1 aan 33,9"), KIND),
        (sub('"-33,90",USD,"-33,90"', '"-39,90",USD,"-33,90"'), "1 at 33,9 is not the amount"),
        (sub("127,94", "12x,94"), NUMBER),
        (sub('IE00B3RBWM25,"Verkauf', 'IE00B3RBWM26,"Verkauf'), ISIN),
        (sub("10-08-2021,16", "31-06-2021,16"), DAY),
        (sub("16-02-2021,14", "02-16-2021,14"), DAY),
        (sub('Koop 1.500 @ 0,039 EUR",,EUR,-58.5', 'Koop 1.500 @ 2,000 EUR",,EUR,-3000'), "two meanings: --decimal"),
        (sub(',"Koop 5 @ 79,35 EUR"', ",Koop 5 @ 79,35 EUR"), CUT),
    ],
    "etoro.csv": [
        (lines_without("Open Position,SLAB"), SALE),
        (sub("61.27,0.219575", "61.27,0.319575"), LESS),
        (sub("Interest Payment", "Copy Started"), KIND),
        (sub("Stocks", "Tulips"), KIND),
        (twice("2596572937", "49.88", "48.88"), "open position 2596572937 is in row 2 too"),
        (sub("AMD/USD,49.88", "AMD,49.88"), "is no SYMBOL/CURRENCY"),
        (sub("0.337209", "0.33x"), NUMBER),
        (sub("0.337209", "1e12"), LARGE),
        (sub("09/01/2024", "31/04/2024"), DAY),
        (sub("16/01/2024", "01/16/2024"), DAY),
        (sub("Stocks,0.00", "Stocks"), CUT),
    ],
    "portfolio-performance.csv": [
        (lines_without("Kauf;-1.234"), SALE),
        (sub(";2,5;", ";25;"), LESS),
        (sub("Einlieferung", "Schenkung"), KIND),
        (sub(";12,5;", ";zwölf;"), NUMBER),
        (sub(";12,5;", ";1e12;"), LARGE),
        (sub("12,5;IE00B4L5Y983", "12,5;IE00B4L5Y984"), ISIN),
        (sub("2021-06-01", "2021-06-31"), DAY),
        (sub("2021-07-01", "2029-07-01"), "later than today"),
        (sub("Kauf;-650,00;EUR", "Kauf;-650,00;Euro"), "is no currency"),
        (sub(";865985;APC.DE;Apple Inc.;\n2021-02", ";865985\n2021-02"), CUT),
    ],
    "trade-republic-old.csv": [
        (lines_without("Aankoop"), SALE),
        (sub("0,042361", "0,142361"), LESS),
        (sub("Onttrekking", "Weggegeven"), KIND),
    ],
    "ghostfolio.json": [
        (lines_without('"type": "BUY", "symbol": "AAPL"'), SALE),
        (sub('"quantity": 2,', '"quantity": 20,'), LESS),
        (sub('"DIVIDEND"', '"AIRDROP"'), KIND),
        (sub('"quantity": 2,', '"quantity": NaN,'), "NaN is no number"),
        (sub('"quantity": 2,', '"quantity": 1e15,'), "is no number that can be meant"),
        (sub('"quantity": 2,', '"quantity": "2",'), "is no number that can be meant"),
        (sub("2025-03-01", "2025-02-30"), "is no day"),
        (sub('"date": "2026-01-05', '"date": "2029-01-05'), "later than today"),
        (lambda text: text[:900], CUT),
        (lambda text: '{"a":' * 100_000, "nested too deeply|no whole JSON"),
        (lambda text: "{}", "no export of Ghostfolio"),
        (sub('"activities": [', '"activities": ["x", '), "an activity is due"),
    ],
}


@pytest.mark.parametrize(("name", "at"), [(name, at) for name, rows in DAMAGE.items() for at in range(len(rows))])
def test_a_sum_that_would_be_wrong_is_refused(name: str, at: int, tmp_path: Path) -> None:
    damage, words = DAMAGE[name][at]
    path = tmp_path / name
    path.write_text(damage((FILES / "activity" / name).read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(UsageError, match=words) as refused:
        read(path)
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("trading212.csv", twice("EOF1,")),
        ("scalable.csv", twice("SCAL1")),
        ("trade-republic.csv", twice(";t4;")),
        ("coinbase.csv", twice("c6,")),
        ("kraken.csv", twice('"L8"')),
        ("etoro.csv", twice("2596572937")),
        ("degiro-account.csv", twice("Koop 5 @")),
    ],
)
def test_a_row_that_two_periods_share_counts_once(name: str, damage: Callable[[str], str], tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(damage((FILES / "activity" / name).read_text(encoding="utf-8")), encoding="utf-8")
    found = read(path)
    assert held(found) == EXPECTED[name][2]
    assert [left.why for left in found.left_out if "again" in left.why]


def test_a_later_day_may_be_said_and_an_earlier_one_not() -> None:
    path = FILES / "activity" / "etoro.csv"
    later = replace(HINTS, as_of=dt.date(2024, 6, 1))
    assert str(read_file(path, later, from_activity=True).statements[0].as_of) == "2024-06-01"
    with pytest.raises(UsageError, match="is of 2024-01-17, and --as-of says 2024-01-16"):
        read_file(path, replace(HINTS, as_of=dt.date(2024, 1, 16)), from_activity=True)


def test_a_conversion_and_a_sale_of_an_old_file_have_no_signs(tmp_path: Path) -> None:
    path = tmp_path / "old.csv"
    path.write_text(
        "Timestamp,Transaction Type,Asset,Quantity Transacted,Spot Price Currency,Spot Price at Transaction,Notes\n"
        "2021-01-02T10:00:00Z,Buy,BTC,1.5,USD,30000.00,Bought\n"
        "2021-02-02T10:00:00Z,Sell,BTC,0.5,USD,35000.50,Sold\n"
        'x2021-03-02T10:00:00Z,Convert,BTC,0.25,USD,36000.50,"Converted 0.25 BTC to 1,234.5 XLM"\n'.replace("x2", "2"),
        encoding="utf-8",
    )
    assert held(read(path)) == [{"BTC": "0.75", "XLM": "1234.5"}]


@pytest.mark.parametrize("name", [*FORMATS, *(f"activity/{one}" for one in EXPECTED)])
def test_no_file_depends_on_how_its_letters_and_lines_are_written(name: str, tmp_path: Path) -> None:
    text = (FILES / name).read_text(encoding="utf-8")
    stated = replace(HINTS, as_of=None if "activity" in name or FORMATS[name][1] else dt.date(2026, 1, 5))
    path = tmp_path / Path(name).name
    found = []
    for data in (text.encode(), b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode(), text.encode("utf-16")):
        path.write_bytes(data)
        found.append(read_file(path, stated, from_activity=True).statements)
    assert found[0] == found[1] == found[2]
