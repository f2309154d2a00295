"""Own option chains: quoted by now, with their age, checked; and their golden figures."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlmodel import col, select

from chordesk.models.database.store import Store
from chordesk.models.errors import MarketError
from chordesk.models.settings import Settings
from chordesk.models.tables.orders import OptionMark
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.files.chains import read_chains
from chordesk.tools.market.files.data_folder import check_folder
from chordesk.tools.market.files.market import ChainedFiles, FilesMarket
from chordesk.tools.market.files.tables import Problems
from chordesk.tools.market.protocol import ChainSource, OptionSource
from chordesk.tools.options.option_contracts import contract_figures
from chordesk.tools.registry import ToolContext
from tests.examples import examples
from tests.tools.conftest import Call
from tests.tools.market.files.folders import HEADER, market, sessions, walk, write_table

DAYS = sessions("2026-03-20", 12)
TODAY = dt.date(2026, 3, 27)
GOLDEN = "MSFT260417P00335000"
COLUMNS = ("quote date", "contract", "bid", "ask", "volume", "open interest", "iv", "delta", "gamma", "theta", "vega", "spot")  # fmt: skip  # noqa: E501
# One put as a user's file may have it: a real quote of a public sample.
PUT = (TODAY, GOLDEN, 3.85, 3.95, 900, 4000, 0.3673, -0.21, 0.009, -0.21, 0.25, 356.77)


def write(tmp_path: Path, *rows: tuple[object, ...], header: tuple[str, ...] = COLUMNS) -> Path:
    write_table(tmp_path / "own" / "bars" / "MSFT.csv", HEADER, walk(DAYS, 356.77))
    write_table(tmp_path / "own" / "chains.csv", header, rows)
    return tmp_path / "own"


def chained(tmp_path: Path, folder: Path, day: dt.date = TODAY) -> ChainedFiles:
    own = market(tmp_path, folder, day)
    assert isinstance(own, ChainedFiles)
    assert isinstance(own, ChainSource)
    assert isinstance(own, OptionSource)
    return own


def quoted(day: object, bid: float = 3.85, ask: float = 3.95, contract: str = GOLDEN) -> tuple[object, ...]:
    return (day, contract, bid, ask, *PUT[4:])


def test_a_chain_s_computed_figures_are_the_golden_ones(tmp_path: Path) -> None:
    chain = chained(tmp_path, write(tmp_path, PUT)).chain("MSFT", TODAY, dt.date(2026, 12, 31))
    (row,) = chain.rows
    assert (row.contract.symbol, chain.spot, chain.at.isoformat()) == (GOLDEN, 356.77, "2026-03-27T15:55:00-04:00")
    found = contract_figures(row._replace(greeks=None), chain._replace(dividend_yield=0.009), 0.04)
    assert found.greeks is not None
    assert found.returns is not None
    greeks = (found.iv, found.greeks.delta, found.greeks.theta, found.greeks.vega, found.probability)
    assert greeks == pytest.approx((0.35962, -0.21357, -0.20632, 0.24902, 0.80044), abs=5e-6)
    assert (found.returns.roc, found.returns.weekly) == pytest.approx((0.011642, 0.003881), abs=5e-7)
    assert (found.returns.annual, found.returns.break_even) == pytest.approx((0.20235, 331.10), abs=5e-6)


def test_greeks_are_computed_where_the_file_has_none(tmp_path: Path, call: Call) -> None:
    header = ("symbol", "expiry", "type", "strike", "date", "bid", "ask")
    rows = [("MSFT", "2026-04-17", "P", "340", TODAY, 4.9, 5.1)]
    own = chained(tmp_path, write(tmp_path, *rows, header=header))
    (row,) = call(own, "option_chain_get", symbols=["MSFT"], deltaMax=1).payload["contracts"]
    assert (row["contract"], row["greeks"]) == ("MSFT260417P00340000", "computed")
    assert row["openInterest"] is None


def test_a_later_quote_does_not_exist(tmp_path: Path) -> None:
    folder = write(tmp_path, quoted("2026-03-25", 1.0, 1.2), quoted("2026-03-30", 9.0, 9.2))
    own = chained(tmp_path, folder)
    chain = own.chain("MSFT", TODAY, dt.date(2026, 12, 31))
    assert [row.bid for row in chain.rows] == [1.0]
    assert chain.at.date() == dt.date(2026, 3, 25)
    assert own.option_quote(GOLDEN).price == pytest.approx(1.1)
    with pytest.raises(MarketError, match="no option quotes of MSFT up to 2026-03-24"):
        chained(tmp_path, folder, dt.date(2026, 3, 24)).chain("MSFT", TODAY, dt.date(2026, 12, 31))


@pytest.mark.parametrize(
    ("time", "bid"),
    [
        ("2026-03-27 10:00:00", 5.0),  # New York's, without a zone
        ("2026-03-27T19:54:00Z", 5.0),
        ("2026-03-27 16:00:00", 5.0),  # the close, which 15:55 stands for
        ("2026-03-27 00:00:00", 5.0),  # no time of day
        ("2026-03-27 17:00:00", 1.0),
        ("2026-03-27T20:30:00Z", 1.0),
    ],
)
def test_a_quote_with_a_time_counts_from_it_on(tmp_path: Path, time: str, bid: float) -> None:
    folder = write(tmp_path, quoted("2026-03-26", 1.0, 1.2), quoted(time, 5.0, 5.2))
    (row,) = chained(tmp_path, folder).chain("MSFT", TODAY, dt.date(2026, 12, 31)).rows
    assert row.bid == bid


def test_a_chain_without_the_share_s_price_takes_that_day_s_raw_close(tmp_path: Path) -> None:
    folder = write(tmp_path, quoted("2026-03-25")[:-1], header=COLUMNS[:-1])
    own = chained(tmp_path, folder)
    closes = dict(zip(own.bars("MSFT", 20).dates, own.bars("MSFT", 20).close, strict=True))
    assert own.chain("MSFT", TODAY, dt.date(2026, 12, 31)).spot == closes[dt.date(2026, 3, 25)]
    adjusted = market(tmp_path, folder, TODAY, data_prices="adjusted")
    assert isinstance(adjusted, ChainedFiles)
    with pytest.raises(MarketError, match="has no price of the share, and its closes are adjusted"):
        adjusted.chain("MSFT", TODAY, dt.date(2026, 12, 31))


@pytest.mark.parametrize(("bid", "ask"), [(4.0, 3.9), (0.0, 0.0), ("", 3.9)])
def test_a_contract_without_a_two_sided_quote_has_no_price(tmp_path: Path, bid: object, ask: object) -> None:
    own = chained(tmp_path, write(tmp_path, quoted(TODAY, bid, ask)))  # type: ignore[arg-type]
    with pytest.raises(MarketError, match="has no two-sided quote on 2026-03-27"):
        own.option_quote(GOLDEN)
    with pytest.raises(MarketError, match="the newest chain of the data folder does not list it"):
        own.option_quote("MSFT260417P00340000")


def test_modelled_chains_stand_in_for_the_folder_s_own(tmp_path: Path) -> None:
    days = sessions("2026-01-02", 59)
    folder = write(tmp_path, PUT)
    write_table(folder / "bars" / "MSFT.csv", HEADER, walk(days, 356.77))
    own = market(tmp_path, folder, days[-1], replay_options="modelled")
    assert not isinstance(own, ChainedFiles)
    assert isinstance(own, ChainSource)
    assert own.chain("MSFT", days[-1], dt.date(2026, 12, 31)).source == "modelled"


@pytest.mark.parametrize(
    ("level", "row", "problem"),
    [
        ("error", quoted("soon"), "row 2, column quote date: 'soon' cannot be read as a day"),
        ("error", quoted(TODAY, contract="MSFT2026"), "row 2, column contract: 'MSFT2026' is no OCC symbol"),
        ("error", quoted(TODAY, -1), f"row 2: {GOLDEN}: a negative quote"),
        ("error", quoted(TODAY, contract="MSFT260320P00335000"), "the contract expired before its quote"),
        ("error", quoted(TODAY, "x"), "row 2, column bid: 'x' is no number"),  # type: ignore[arg-type]
        ("warning", quoted(TODAY, 4.0, 3.9), "row 2: 1 crossed quotes, the bid above the ask; the first is here"),
        ("warning", quoted(TODAY, 0.0), "row 2: 1 quotes with a bid of zero"),
        ("warning", quoted(TODAY, contract="MSFT260327P00335000"), "1 contracts that expire on the day of their quote"),
        ("warning", quoted(TODAY, contract="MSFT260417P00400000"), "1 asks below what an exercise gives"),
        ("warning", (*PUT[:6], 36.73, *PUT[7:]), "1 volatilities above 20; 0.35 is 35 %"),
    ],
)
def test_odd_quotes_are_named(tmp_path: Path, level: str, row: tuple[object, ...], problem: str) -> None:
    report = check_folder(write(tmp_path, row), "auto", 9)
    found = [str(one) for one in report.problems.of(level) if one.file == "chains.csv"]  # type: ignore[arg-type]
    assert problem in "\n".join(found)


def test_parquet_chains_are_read_as_csv_is(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    folder = write(tmp_path, PUT)
    (folder / "chains.csv").unlink()
    assert type(market(tmp_path, folder, TODAY)) is FilesMarket, "without a file of chains it has none"
    columns = {name: [value] for name, value in zip(COLUMNS, PUT, strict=True)}
    parquet.write_table(arrow.table(columns), folder / "chains.parquet")
    (row,) = chained(tmp_path, folder).chain("MSFT", TODAY, dt.date(2026, 12, 31)).rows
    assert (row.contract.symbol, row.bid, row.iv) == (GOLDEN, 3.85, 0.3673)


TIMES = ["", " 09:31", " 15:54", " 15:56", " 16:20"]


@settings(max_examples=examples(60), deadline=None)
@given(
    quotes=st.lists(
        st.tuples(st.integers(0, 11), st.sampled_from(TIMES), st.integers(1, 99)),
        min_size=1,
        max_size=25,
        unique_by=lambda one: one[:2],
    ),
    today=st.integers(0, 11),
)
def test_no_chain_depends_on_a_later_quote(
    tmp_path_factory: pytest.TempPathFactory, quotes: list[tuple[int, str, int]], today: int
) -> None:
    now, folder = ReplayClock(DAYS[today]).now(), tmp_path_factory.mktemp("chains")

    def seen(rows: list[tuple[int, str, int]]) -> list[object]:
        path = write_table(folder / "chains.csv", COLUMNS, [quoted(f"{DAYS[at]}{time}", bid) for at, time, bid in rows])
        table = read_chains(path, path.name, Problems())
        return [(table.time_of(row), table.quote(row).bid) for row in table.of_day("MSFT", now).tolist()]

    past = [one for one in quotes if one[0] < today or (one[0] == today and one[1] != " 16:20")]
    found = seen(quotes)
    assert found == seen(past)
    assert all(at <= now for at, _ in found)  # type: ignore[misc]


def test_the_rank_counts_earlier_days_of_the_folder_and_none_twice(tmp_path: Path, call: Call, store: Store) -> None:
    """A put and a call of 30 days at the money each day, whose volatility rises by a point a day from .20."""
    days = sessions("2026-01-02", 62)
    strike, spot = 100.0, 100.0
    rows = []
    for at, day in enumerate(days):
        expiry, iv = day + dt.timedelta(days=30), 0.20 + at / 100
        mid = 0.4 * spot * iv * (30 / 365) ** 0.5
        for kind in "CP":
            contract = f"MSFT{expiry:%y%m%d}{kind}{int(strike * 1000):08d}"
            rows.append((day, contract, mid - 0.05, mid + 0.05, 10, 20, iv, "", "", "", "", spot))
    folder = write(tmp_path, *rows)
    write_table(folder / "bars" / "MSFT.csv", HEADER, walk(days, spot))
    own = market(tmp_path, folder, days[-2])
    context = ToolContext(own, own.clock, store, Settings(home=tmp_path), "paper", None)
    for _ in range(2):
        (found,) = call(context, "volatility_get", symbols=["MSFT"]).payload["volatilities"]
        assert (found["ivRank"], found["ivRankDays"]) == (1.0, 60)
    # Without a database the folder's own days count as well.
    bare = ToolContext(own, own.clock, None, Settings(home=tmp_path), "paper", None)
    (found,) = call(bare, "volatility_get", symbols=["MSFT"]).payload["volatilities"]
    assert (found["ivRank"], found["ivRankDays"]) == (1.0, 60)
    early = market(tmp_path, folder, days[-3])
    answer = call(ToolContext(early, early.clock, None, Settings(home=tmp_path), "paper", None), "volatility_get",
                  symbols=["MSFT"]).payload  # fmt: skip
    assert (answer["volatilities"][0]["ivRank"], answer["volatilities"][0]["ivRankDays"]) == (None, 59)
    assert "the market has its chains of 59 days of the year before" in str(answer["missing"])
    with store.read() as session:
        marks = session.exec(select(OptionMark).order_by(col(OptionMark.day))).all()
    assert [one.day for one in marks] == list(days[:-1]), "each day once, and none that was to come"
    assert [one.at_the_money_iv for one in marks] == pytest.approx([0.20 + at / 100 for at in range(61)], abs=0.006)
