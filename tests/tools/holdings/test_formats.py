"""Files of holdings: each format by its columns, and what is said of damaged ones."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from chordesk.models.errors import UsageError
from chordesk.models.statements import Read
from chordesk.tools.holdings.reading import read_file
from chordesk.tools.holdings.sheets import Hints

FILES = Path(__file__).parent / "files"
HINTS = Hints(today=dt.date(2026, 11, 29))
STATED = replace(HINTS, as_of=dt.date(2026, 1, 5))
# By file: its format, its day where it says it, and the worth of each of its accounts in its own currencies.
EXPECTED: dict[str, tuple[str, str | None, list[dict[str, str]]]] = {
    "fidelity.csv": ("fidelity", "2026-07-12", [{"USD": "2789.56"}, {"USD": "2000"}]),
    "schwab.csv": ("schwab", "2025-05-02", [{"USD": "18500"}]),
    "schwab-all.csv": ("schwab", "2025-08-16", [{"USD": "7100"}, {"USD": "3512.50"}]),
    "vanguard.csv": ("vanguard", None, [{"USD": "21533.74"}]),
    "etrade.csv": ("etrade", "2026-01-02", [{"USD": "21640"}]),
    "moomoo.csv": ("moomoo", None, [{"USD": "17855", "HKD": "120000"}]),
    "zerodha.csv": ("zerodha", None, [{"INR": "206010"}]),
    "degiro.csv": ("degiro", None, [{"EUR": "5806.76", "USD": "1805"}]),
    "degiro-nl.csv": ("degiro", None, [{"EUR": "3251", "USD": "1805"}]),
    "ibkr.csv": ("ibkr", "2025-12-31", [{"EUR": "11062", "USD": "7672.5"}]),
    "flex.xml": ("ibkr-flex", "2025-12-31", [{"EUR": "11062", "USD": "7672.5"}]),
}


def worth(read: Read) -> list[dict[str, Decimal]]:
    found = []
    for one in read.statements:
        sums: dict[str, Decimal] = {}
        for row in one.holdings:
            assert row.value is not None
            sums[row.currency] = sums.get(row.currency, Decimal(0)) + row.value
        found.append(sums)
    return found


def read(name: str, hints: Hints = HINTS) -> Read:
    return read_file(FILES / name, hints)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_file_is_recognised_by_its_columns_and_comes_to_what_it_holds(name: str) -> None:
    key, day, sums = EXPECTED[name]
    found = read(name, HINTS if day else STATED)
    assert found.source == key
    assert {str(one.as_of) for one in found.statements} == {day or "2026-01-05"}
    assert worth(found) == [{one: Decimal(text) for one, text in each.items()} for each in sums]


def test_symbols_contracts_and_costs_are_in_the_desk_s_spelling() -> None:
    rows = {name: {row.key: row for one in read(name, STATED if EXPECTED[name][1] is None else HINTS).statements
                   for row in one.holdings} for name in EXPECTED}  # fmt: skip
    assert rows["fidelity.csv"]["AAPL270115C00200000"].quantity == -1
    assert rows["schwab.csv"]["MSFT260116P00400000"].value == -2150
    assert rows["etrade.csv"]["QQQ261231P00600000"].cost == 5000
    assert rows["moomoo.csv"]["MSFT260117C00400000"].kind == "option"
    assert rows["moomoo.csv"]["0700.HK"].currency == "HKD"
    assert rows["zerodha.csv"]["INFY.NS"].cost == 140000
    assert rows["ibkr.csv"]["BRK.B"].isin == "US0846707026"
    assert rows["ibkr.csv"]["AAPL260116C00180000"].value == -840
    # A ticker of another market may be another company's in New York: the ISIN alone stands for it.
    assert rows["ibkr.csv"]["NL0010273215"].symbol is None
    assert round(rows["ibkr.csv"]["NL0010273215"].rate or 0, 4) == Decimal("1.0870")
    assert round(rows["degiro.csv"]["NL0010273215"].rate or 0, 4) == Decimal("1.0800")
    assert rows["vanguard.csv"]["VANGUARD FEDERAL MONEY MARKET FUND"].kind == "cash"


def test_the_plain_format_has_accounts_days_and_cash(tmp_path: Path) -> None:
    found = read("plain.csv")
    assert [(one.label, str(one.as_of), len(one.holdings)) for one in found.statements] == [
        ("Retirement", "2026-01-05", 2), ("Savings", "2026-01-05", 2),
    ]  # fmt: skip
    german = "Symbol;Quantity;Price;Currency;As of\nSAP.DE;12;1.234,50;EUR;31.12.2025\nAAPL;1,5;180,25;USD;31.12.2025\n"
    path = tmp_path / "german.csv"
    path.write_text(german, encoding="utf-16")
    rows = read_file(path, HINTS).statements[0].holdings
    assert [(row.symbol, row.quantity, row.price) for row in rows] == [
        ("SAP.DE", 12, Decimal("1234.50")), ("AAPL", Decimal("1.5"), Decimal("180.25")),
    ]  # fmt: skip


def test_lots_are_one_holding_and_rows_of_an_earlier_day_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "days.csv"
    path.write_text(
        "date,symbol,quantity,price,currency,mood\n2025-12-30,AAPL,9,180,USD,\n"
        "2025-12-31,AAPL,4,181,USD,\n2025-12-31,AAPL,6,181,USD,\n",
        encoding="utf-8",
    )
    found = read_file(path, HINTS)
    (row,) = found.statements[0].holdings
    assert (row.quantity, row.price) == (10, 181)
    assert found.notes == ("not read: the columns mood",)
    assert [(left.line, left.why) for left in found.left_out] == [(2, "of an earlier day than 2025-12-31")]


def test_a_contract_that_had_expired_by_the_files_day_is_left_out_by_name(tmp_path: Path) -> None:
    path = tmp_path / "expired.csv"
    path.write_text("symbol,quantity,price,as_of\nIBM100619C00130000,2,3.10,2010-08-09\nIBM,5,130,2010-08-09\n")
    found = read_file(path, HINTS)
    assert [row.symbol for row in found.statements[0].holdings] == ["IBM"]
    assert [(left.line, left.text) for left in found.left_out] == [(2, "IBM100619C00130000")]


def cut(text: str) -> str:
    return text[: int(len(text) * 0.7)]


def sub(old: str, new: str) -> Callable[[str], str]:
    def changed(text: str) -> str:
        assert old in text
        return text.replace(old, new, 1)

    return changed


def without(section: str) -> Callable[[str], str]:
    return lambda text: "".join(line for line in text.splitlines(keepends=True) if not line.startswith(section))


# What was done to a file, and the words of the one line about it: value, place and remedy.
DAMAGE: list[tuple[str, Callable[[str], str], str]] = [
    ("schwab.csv", sub("$5,223.36", "$5,323.36"), r"row 5: MICROSOFT CORP: 12 x 435.28 is 5,223.36"),
    ("schwab.csv", sub('"$18,500.00"', '"$18,900.00"'), "row 8: the file's total of the account is 18,900.00, and its"),
    ("schwab.csv", lambda text: text[: text.index('"Account Total"')], "has no Account Total .*--without-total"),
    ("schwab.csv", cut, "not closed|cells|Account Total"),
    ("schwab.csv", sub("400.00 P", "400.00 X"), "'MSFT 01/16/2026 400.00 X' is an option contract in an unknown form"),
    ("schwab.csv", sub("$435.28", "NaN price"), "column Price: 'NaN price' is no number"),
    ("schwab.csv", sub('"12"', '"1e12"'), "column Qty .*is too large to be meant"),
    ("schwab.csv", sub('"12"', '"Infinity"'), "column Qty .*'Infinity' is no number"),
    ("schwab.csv", sub('"12"', '"--"'), "row 5, column Qty .*'MICROSOFT CORP' has no quantity"),
    ("schwab.csv", sub('"MSFT",', '"=HYPERLINK(""http://x"")",'), "row 5, column Symbol: .*is a formula"),
    ("schwab.csv", sub("2025/05/02", "2027/05/02"), "is of 2027-05-02, which is later than today"),
    ("etrade.csv", sub("9000.00", "9.000,00"), "row 10: has 11 cells, and the header 10: decimal commas"),
    ("etrade.csv", lambda text: text[: text.index("TOTAL")], "has no TOTAL"),
    ("etrade.csv", sub("NVDA,180.00", "NVDA,90.00"), "row 10: NVDA: 50 x 90.00 is 4,500.00, and the value is 9,000.00"),
    ("ibkr.csv", sub("25,1,150,3750,180.5,4512.5", "24,1,150,3750,180.5,4512.5"), "row 18: APPLE INC: 24 x 180.5"),
    ("ibkr.csv", sub("Open Positions,Total,,Stocks,EUR,,,,,6000,,6502,502,\n", ""), "no total of Stocks in EUR"),
    ("ibkr.csv", sub("Activity Statement", "Transaction History"), "row 3: a transaction history has no positions"),
    ("ibkr.csv", sub("US0378331005", "US0378331006"), "row 26: 'US0378331006' is no ISIN"),
    ("ibkr.csv", sub('EUR,"4,560.00"', 'EUR,"9,560.00"'), "row 11: the file's cash in EUR is 6,400.00, and its rows"),
    ("ibkr.csv", sub('Cash Report,Data,Ending Cash,USD,"2,000.00","2,000.00",0,\n', ""), "its rows come to 4,560.00"),
    ("ibkr.csv", lambda text: text[: text.rindex("Open Positions,Header")], "has no section Financial .* may be cut"),
    ("ibkr.csv", lambda text: text[: text.index("Base Currency Ex")], "has no exchange rate of USD: the file may be"),
    ("ibkr.csv", sub('0,"12,493.50"', '0,"14,493.50"'), "row 33: the file's Stock in the Net Asset .* to 12,493.50"),
    ("ibkr.csv", without("Cash Report"), "Cash in the Net Asset Value is 6,400.00, .* to 0.00: perhaps a section was"),
    ("degiro.csv", sub("US0378331005", "US0378331006"), "row 3: 'US0378331006' is no ISIN"),
    ("degiro.csv", sub('"180,50"', '"180.50"'), "row 3.*shows decimal"),
    ("fidelity.csv", lambda text: text[: text.index('"The data')], "Date downloaded.*may be cut"),
    ("fidelity.csv", sub("Z12345678,INDIVIDUAL,AAPL", ",INDIVIDUAL,AAPL"), "row 3, column Account Number: has no acc"),
    ("degiro.csv", lambda text: text + "SAP SE,DE0007164600\n", "has 2 cells, and the header 7: the file may be cut"),
    ("fidelity.csv", sub("10,$180.50", "10"), "row 3: APPLE INC: 10 x 1.00 is 10.00"),
    ("vanguard.csv", sub("15210.41", "152"), "and the value is 152.00"),
    ("plain.csv", sub("AAPL,10,USD", "AAPL,10,Dollars"), "row 2: 'Dollars' is no currency"),
    ("plain.csv", sub("AAPL,10", ",10"), "row 2, column symbol: names no symbol"),
    ("plain.csv", lambda text: text.split("\n")[0], "a header and no holdings|has a header"),
    ("flex.xml", cut, "row .*: is no whole XML"),
    ("flex.xml", lambda text: '<!DOCTYPE x [<!ENTITY a "b">]>' + text, "row 1: declares a document type"),
    ("flex.xml", sub('positionValue="6502"', 'positionValue="7502"'), "ASML: 10 x 650.2 is 6,502.00"),
    (
        "flex.xml",
        sub('"EUR" endingCash="4560"', '"EUR" endingCash="9560"'),
        "total of cash is 6,400.00, .* 11,400",
    ),
    ("flex.xml", sub('fxRateToBase="0.92"', 'fxRateToBase="-0.92"'), "a rate of -0.92 for USD: a rate is above 0"),
    ("flex.xml", sub('position="25"', 'position="2,5"'), "row 14, column position: '2,5' is no number"),
]


@pytest.mark.parametrize(("name", "damage", "words"), DAMAGE)
def test_damage_is_named_by_row_and_value(name: str, damage: Callable[[str], str], words: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(damage((FILES / name).read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(UsageError, match=words) as refused:
        read_file(path, HINTS if EXPECTED.get(name, ("", "day", []))[1] else STATED)
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"<!doctype html><html><body>Log in</body></html>", "is a web page"),
        (b"PK\x03\x04abc", "is a workbook or a zip"),
        (b"OFXHEADER:100\nDATA:OFXSGML\n", "is OFX"),
        (b"date,open,close\n2026-01-05,1,2\n", "is the header of no format that is known"),
        (b"symbol,quantity\nAAPL,1\0\n", "row 2: has a zero byte"),
        (b'symbol,quantity\nAAPL,"1\nMSFT,2\n', "not closed"),
        (b"symbol,quantity,price\nAAPL,\"1,234\",\"5,678\"\n", "row 2, column .*may be"),
        (b"symbol,quantity,as_of\nAAPL,1,03/04/2026\n", "row 2, column as_of: .*day or the month"),
        (b"symbol,quantity\nAAPL,1\n", "does not say of which day it is"),
        (b"symbol,quantity\nAAPL,1,2\n", "row 2: has 3 cells, and the header 2"),
        (b"symbol,quantity\nAAPL 260116X200 CALL,1\n", "looks like an option contract"),
        (b"symbol,quantity\nAAPL 01/16/26 C200,1\n", "looks like an option contract"),
        (b"symbol,quantity\nAAPL JAN26 200C,1\n", "looks like an option contract"),
        (b"symbol,quantity,currency\nEUR CASH,1,USD\n", "column symbol: 'EUR CASH' is in EUR, and the row in USD"),
        (b"symbol,quantity,as_of\nIBM,1,2026-01-05\nKO,2,\nXOM,3,2026-01-02\n", "row 3: has no day, and other rows"),
        ("symbol,quantity,price,value\nSAP,10,€40,£400\n".encode(), "column value: '£400' is in GBP, and"),
        ("symbol,quantity,price,currency\nSAP,10,€40,USD\n".encode(), "column price: '€40' is in EUR, and"),
        ("symbol,quantity\n$CASH,€40\n".encode(), "'€40' is in EUR, and USD is due"),
        (b"symbol,quantity,price,currency,rate,as_of\nA,1,2,EUR,-1.3,2026-01-05\n", "rate of -1.3 .* above 0"),
        (b"symbol,quantity,price,currency,rate,as_of\nA,1,2,EUR,0,2026-01-05\n", "rate of 0 .* above 0"),
        (b"symbol,quantity,price,currency,rate,as_of\nA,1,2,EUR,0.77,2026-01-05\nB,1,2,EUR,1.3,2026-01-05\n",
         "row 3: has a rate of 1.3 for EUR, and row 2 one of 0.77: a currency has one rate"),
        (b"symbol,quantity,price,rate,as_of\nA,1,2,1.3,2026-01-05\n", "rate of 1.3 for USD: a dollar"),
        (b"symbol,quantity,price,value\nIBM,10,130,-1300\n", "10 is a long position, and its value is -1,300.00"),
        (b"symbol,quantity,side\nIBM,-10,Long\n", "'long' does not fit -10"),
        (b"symbol,quantity,side\nIBM,10,Flat\n", "'flat' does not fit 10"),
        (b"symbol,shares,qty\nIBM,10,20\n", "qty is 20, and shares is 10: leave one|shares is 10, and qty is 20"),
        (b"symbol,quantity,quantity\nIBM,10,20\n", "quantity is 10, and quantity is 20"),
        (b"symbol,quantity,price,value\nA,2,5,10\nTotal,,,9999\nB,1,5,5\nTotal,,,15\n", "total .* is 9,999.00"),
        (b"symbol,quantity,price,value,kind\nSPY,100,110.00,110.00,etf\n", "SPY: 100 x 110.00 is 11,000.00, and the"),
        (b"symbol,quantity,price,value,as_of\nT,1,2,2,2010-08-11\nVZ,2,3,6,2010-08-1", "row 3: ends with .*without a"),
        (b"symbol,quantity,as_of\nT,1,2010-08-11\nV", "row 3: ends with 'V', without a line end"),
        (b"symbol,quantity,price,value\nA,2,5,\nTotal,,,9999\n", "total of the file is 9,999.00, .* to 10.00"),
    ],
)  # fmt: skip
def test_what_is_no_table_of_holdings_is_said(data: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=words):
        read_file(path, HINTS)


@pytest.mark.parametrize("word", ["Total", "GESAMT", "Grand Total:", "合计", "合計", "Net worth"])
def test_a_row_of_sums_is_no_holding(word: str, tmp_path: Path) -> None:
    for row in (f"{word},,10,,{{}},", f",{word},,,{{}},"):
        for total, is_right in (("2005", True), ("2105", False)):
            path = tmp_path / "mine.csv"
            text = f"symbol,name,quantity,price,value,as_of\nAAPL,Apple,10,200.5,2005,2026-01-05\n{row.format(total)}\n"
            path.write_text(text, encoding="utf-8")
            if is_right:
                assert [one.symbol for one in read_file(path, HINTS).statements[0].holdings] == ["AAPL"]
            else:
                with pytest.raises(UsageError, match=r"the file's total of the file is 2,105.00, and its rows come to"):
                    read_file(path, HINTS)


def test_a_bond_has_a_price_per_hundred_and_a_row_twice_is_said(tmp_path: Path) -> None:
    path = tmp_path / "fidelity.csv"
    bond = 'Z12345678,INDIVIDUAL,912828XX1,US TREAS NTS 2%,1000,$99.50,,$995.00,,,,,,"$990.00",,Cash,\n'
    text = (FILES / "fidelity.csv").read_text(encoding="utf-8")
    path.write_text(
        text.replace("Z12345678,INDIVIDUAL,AAPL", f"{bond}{bond}Z12345678,INDIVIDUAL,AAPL"), encoding="utf-8"
    )
    found = read_file(path, HINTS)
    row = next(one for one in found.statements[0].holdings if one.name.startswith("US TREAS"))
    assert (row.kind, row.symbol, row.quantity, row.value) == ("other", "912828XX1", 2000, 1990)
    assert found.notes == ("row 4 is the same as row 3, and both count",)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("symbol,quantity,price,value\nSAP.DE,10,€40.00,€400.00\n", "SAP.DE 10 40.00 EUR"),
        ("symbol,quantity,price (GBX),value (GBP)\nVOD.L,10,4000,400\n", "VOD.L 10 40 GBP"),
        ("symbol,quantity,value\nSAP.DE,1,1305 EUR\n", "SAP.DE 1 None EUR"),
        ("symbol,quantity,price,currency\nSHOP.TO,1,$40,CAD\n", "SHOP.TO 1 40 CAD"),
        ("symbol,quantity,price,value,side\nIBM,10,4,40,Short\n", "IBM -10 4 USD"),
        ("symbol,shares,qty,price\nIBM,10,10.0,4\n", "IBM 10 4 USD"),
        ("symbol,qty,mkt value\nAAPL,2,10\nEUR CASH,3,3\nCash (GBP),4,4\n",
         "AAPL 2 None USD, None 3 None EUR, None 4 None GBP"),
        ("isin,quantity,price,value\nUS4592001014,2,5,10\nUS5949181045,(1),4,(4)\nTotal,,,6\n",
         "None 2 5 USD, None -1 4 USD"),
        ("symbol,quantity,price,value,account\nA,1,5,5,x\nTotal,,,5,\nB,2,5,10,y\nTotal,,,10,\nTotal,,,15,\n",
         "A 1 5 USD, B 2 5 USD"),
    ],
)  # fmt: skip
def test_the_plain_format_takes_what_a_person_writes(text: str, rows: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(text, encoding="utf-8")
    told = read_file(path, STATED)
    assert not told.notes, "each column is read"
    found = [row for one in told.statements for row in one.holdings]
    assert ", ".join(f"{one.symbol} {one.quantity:f} {one.price} {one.currency}" for one in found) == rows


def test_what_a_file_leaves_open_a_person_says(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text('symbol,quantity,price,as_of\nAAPL,"1,234","5,678",03/04/2026\n', encoding="utf-8")
    for mark, quantity in ((",", Decimal("1.234")), (".", Decimal(1234))):
        found = read_file(path, replace(HINTS, decimal=mark, days="dmy"))  # type: ignore[arg-type]
        assert found.statements[0].holdings[0].quantity == quantity
        assert str(found.statements[0].as_of) == "2026-04-03"


def test_what_may_be_cut_or_is_not_checked_is_noted(tmp_path: Path) -> None:
    for text, note in (
        (
            "symbol,quantity\nA,1\nB,2",
            "row 3, the last, has no line end: the file may be cut there; look at its figures",
        ),
        (
            "symbol,quantity,price\nA,1,2\nTotal,,\n",
            "row 3: the total is not checked: the file has no column of values",
        ),
    ):
        path = tmp_path / "mine.csv"
        path.write_text(text, encoding="utf-8")
        assert read_file(path, STATED).notes == (note,)


def test_a_link_and_a_folder_are_no_files(tmp_path: Path) -> None:
    link = tmp_path / "link.csv"
    link.symlink_to(FILES / "plain.csv")
    for path, words in ((link, "is a link to"), (tmp_path, "is no file"), (tmp_path / "none.csv", "cannot be read")):
        with pytest.raises(UsageError, match=words):
            read_file(path, HINTS)


def test_each_account_of_a_flex_query_has_the_rates_of_its_own_base_currency(tmp_path: Path) -> None:
    """By hand: of the second, in dollars, a euro is 1.25; of the first, which states none of the dollar, nothing."""
    row = '<OpenPosition currency="{}" fxRateToBase="{}" symbol="{}" position="2" markPrice="5" positionValue="10"/>'
    part = '<FlexStatement accountId="{}" toDate="20251231">{}</FlexStatement>'
    home = part.format("U1", row.format("EUR", "1", "ASML"))
    away = part.format("U2", row.format("USD", "1", "KO") + row.format("EUR", "1.25", "SAP"))
    path = tmp_path / "flex.xml"
    path.write_text(f"<FlexQueryResponse>{home}{away}</FlexQueryResponse>", encoding="utf-8")
    found = read_file(path, HINTS).statements
    assert [[row.rate for row in one.holdings] for one in found] == [[None], [1, Decimal("1.25")]]
