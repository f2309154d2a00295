"""Exchange rates: what a source states, what is worked out of it, and what is not known by then."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from chordesk.models.errors import MarketError, SettingError, UsageError
from chordesk.models.money import FxRate, Money, parse_pair
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.ecb import ecb_rates
from chordesk.tools.market.files.data_folder import check_folder
from chordesk.tools.market.fx import last_known, rate_into
from chordesk.tools.market.rate_tables import RateTable
from tests.tools.market.files.folders import market as market_of
from tests.tools.market.files.folders import sessions, walk, write_table
from tests.tools.orders.tape import Tape, TapeClock

DAY = dt.date(2010, 8, 12)  # a Thursday
DOLLARS, EUROS = Money(), Money("EUR")
FX = ("date", "pair", "rate")


@dataclass
class Stated(Tape):
    """A tape that states rates, by pair."""

    table: dict[str, list[tuple[dt.datetime, float]]] = field(default_factory=dict)

    def rate(self, pair: str, at: dt.datetime | None = None) -> FxRate:
        rows = {parse_pair(name): tuple(zip(*rows, strict=True)) for name, rows in self.table.items()}
        return RateTable("the tape", rows).rate(*parse_pair(pair), at or self.clock.now())  # type: ignore[arg-type]


def at_noon(day: int) -> dt.datetime:
    return dt.datetime(2010, 8, day, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize("text", ["GBPUSD", "gbp/usd", "GBP-USD", "GBPUSD=X", "GBP USD"])
def test_a_pair_is_read_as_it_is_written(text: str) -> None:
    assert parse_pair(text) == ("GBP", "USD")


@pytest.mark.parametrize(
    ("text", "why"), [("GBX/USD", "a hundredth of GBP"), ("GBP", "no pair"), ("USDUSD", "twice"), ("XQQUSD", "no pair")]
)
def test_what_is_no_pair_is_named(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why) as found:
        parse_pair(text)
    assert found.value.remedy


def test_a_coin_is_no_dollar() -> None:
    assert parse_pair("USDTUSD") == ("USDT", "USD")
    market = Stated({"USDT-USD": 0.97}, TapeClock())
    assert rate_into(market, "USDT", DOLLARS).rate == 0.97
    with pytest.raises(MarketError, match="no rate of USDC/USD"):
        rate_into(market, "USDC", DOLLARS)


def test_the_newest_statement_counts_either_way_round_and_over_one_currency() -> None:
    market = Stated({}, table={"GBPUSD": [(at_noon(9), 1.5), (at_noon(11), 1.6)], "USDEUR": [(at_noon(10), 0.75)]})
    assert rate_into(market, "GBP", DOLLARS)[2:4] == (1.6, at_noon(11))
    assert rate_into(market, "USD", Money("GBP"))[2:4] == (0.625, at_noon(11))
    over = rate_into(market, "GBP", EUROS)
    assert over[2:] == (1.2, at_noon(10), "the tape over USD")  # as old as the older of the two


def test_a_rate_of_later_or_of_too_long_ago_is_not_known() -> None:
    clock = TapeClock()
    market = Stated({}, table={"TTDUSD": [(clock.now() - dt.timedelta(days=5), 0.15)]}, clock=clock)
    assert rate_into(market, "TTD", DOLLARS).rate == 0.15
    clock.at += dt.timedelta(seconds=1)
    with pytest.raises(MarketError, match=r"no rate of TTDUSD is known: .* more than DESK_MAX_FX_AGE=5"):
        rate_into(market, "TTD", DOLLARS)
    assert (found := last_known(market, "TTD", DOLLARS)) is not None  # what is sold may not wait
    assert found.rate == 0.15
    market.table = {"TTDUSD": [(clock.now() + dt.timedelta(hours=1), 0.15)]}
    with pytest.raises(MarketError, match="no rate of TTDUSD is known"):
        rate_into(market, "TTD", DOLLARS)
    assert last_known(market, "TTD", DOLLARS) is None


def test_the_ecb_s_rate_of_a_day_is_known_from_its_afternoon_on() -> None:
    pytest.importorskip("currency_converter")
    frankfurt = dt.timezone(dt.timedelta(hours=2))
    before, after = (dt.datetime(2010, 8, 12, *time, tzinfo=frankfurt) for time in ((15, 59), (16, 0)))
    assert [ecb_rates().rate("EUR", "USD", at).rate for at in (before, after)] == [1.3016, 1.279]
    assert [ecb_rates().rate("EUR", "USD", at).at.day for at in (before, after)] == [11, 12]
    assert ecb_rates().rate("GBP", "USD", after).source == "ECB over EUR"


def folder(path: Path, *rows: tuple[object, ...]) -> Path:
    write_table(
        path / "bars" / "AAA.csv", ("date", "open", "high", "low", "close", "volume"), walk(sessions("2010-08-02", 20))
    )
    write_table(path / "fx.csv", FX, rows)
    return path


def test_a_folder_s_rate_of_a_day_is_known_when_that_day_is_over(tmp_path: Path) -> None:
    data = folder(
        tmp_path / "data", ("2010-08-11", "GBPUSD", 1.57), ("2010-08-12", "GBP/USD", 1.56),
        ("2010-08-12T15:30:00-04:00", "EURUSD", 1.28), ("2010-08-12T16:30:00-04:00", "EURUSD", 1.29),
    )  # fmt: skip
    market = market_of(tmp_path, data, DAY)
    assert rate_into(market, "GBP", DOLLARS).rate == 1.57
    assert rate_into(market, "EUR", DOLLARS).rate == 1.28
    tomorrow = market.on(ReplayClock(dt.date(2010, 8, 13), at_open=True))
    assert [rate_into(tomorrow, one, DOLLARS).rate for one in ("GBP", "EUR")] == [1.56, 1.29]
    assert rate_into(tomorrow, "GBP", DOLLARS, market.clock.now()).rate == 1.57  # as it was known then
    assert rate_into(market, "GBP", DOLLARS, tomorrow.clock.now()).rate == 1.57  # nothing later is seen


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([("2010-08-11", "GBPUSD", -1.5)], "row 2, column rate: a rate of -1.5 is not above 0"),
        ([("2010-08-11", "GBPUSD", 0)], "row 2, column rate: a rate of 0 is not above 0"),
        ([("2010-08-11", "GBPUSD", "x")], "row 2, column rate: 'x' is no number"),
        ([("2010-08-11", "GBPUSD", "")], "row 2, column rate: no rate"),
        ([("yesterday", "GBPUSD", 1.5)], "row 2, column date: 'yesterday' cannot be read as a day"),
        ([("2010-08-11", "GBPQQQ", 1.5)], "row 2, column pair: 'GBPQQQ' is no pair of currencies"),
        ([("2010-08-11", "GBp/USD", 0.015)], "row 2, column pair: GBp is a hundredth of GBP.*give it in GBP"),
        ([("2010-08-11", "GBPUSD", 1.5), ("2010-08-11", "GBPUSD", 1.6)], "row 3, .*in row 2, 1.5 and not 1.6"),
        ([("2010-08-11", "GBPUSD", 1.5), ("2010-08-11", "USDGBP", 1.5)], "row 3, .*contradicts GBPUSD of 1.5 in row 2"),
        ([("2010-08-11", "GBPUSD", 1.5), ("2010-08-12", "GBPUSD", 150)], "row 3, .*goes from 1.5 to 150"),
        ([("2099-09-10", "GBPUSD", 1.5)], "row 2, column date: GBPUSD has a rate of 2099-09-10, which is after today"),
        ([("2010-08-11", "USDUSD", 1)], r"row 2, column pair: 'USDUSD' is one currency twice \(name two, [^;]*$"),
    ],
)
def test_a_wrong_rate_is_named_with_its_row(tmp_path: Path, rows: list[tuple[object, ...]], why: str) -> None:
    data = folder(tmp_path / "data", *rows)
    (error,) = check_folder(data, "auto", 1).problems.of("error")
    assert re.search(f"fx.csv, {why}", str(error)), error
    with pytest.raises(SettingError, match=r"fx\.csv, row"):  # the ECB's stand in for none of one's own
        rate_into(market_of(tmp_path, data, DAY), "GBP", DOLLARS)


@pytest.mark.parametrize(
    ("pair", "rates", "why"),
    [
        ("GBPUSD", (1.27, 0.787), "row 3, .*from 1.27 to 0.787, which is near 1 / 1.27, as if turned round"),
        ("GBPUSD", (1.27, 1.05), None),
        ("EURUSD", (1.02, 0.98), None),
        ("USDT/USD", (1.0, 0.62), "row 3, .*USDT/USD of 0.62 on 2010-08-12 is 38% off its peg of 1"),
        ("USDC/USDT", (0.9, 0.88), "row 3, .*0.88 on .* 12% off its peg of 1, the furthest of 2 rates"),
        ("USDT/EUR", (0.9, 0.88), None),
    ],
)
def test_a_rate_that_may_be_wrong_is_warned_of(
    tmp_path: Path, pair: str, rates: tuple[float, float], why: str | None
) -> None:
    data = folder(tmp_path / "data", *((f"2010-08-1{day}", pair, rate) for day, rate in enumerate(rates, start=1)))
    problems = check_folder(data, "auto", 5).problems
    found = [str(one) for one in problems.of("warning") if "fx.csv" in str(one)]
    assert (list(problems.of("error")), len(found)) == ([], int(why is not None))
    assert why is None or re.search(f"fx.csv, {why}", found[0]), found
