"""Made prices of other exchanges, which are own data like any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from chordesk.models.errors import UsageError
from chordesk.models.exchanges import EXCHANGES, HOME
from chordesk.tasks.samples import demo
from chordesk.tasks.samples.made_market import DAY, NAMES, write_made_market
from chordesk.tools.market.files.data_folder import check_folder
from tests.tools.market.files.folders import market


@pytest.mark.parametrize(
    ("code", "currency", "opened"),
    [("XTKS", "JPY", "14:55 JST"), ("XLON", "GBP", "16:25 BST"), ("CRYPTO", "USD", "23:55 UTC")],
)
def test_a_made_folder_is_a_market_without_a_problem(tmp_path: Path, code: str, currency: str, opened: str) -> None:
    day = write_made_market(tmp_path / "own", code)
    report = check_folder(tmp_path / "own", "auto", 20)
    assert (report.problems.of("error"), report.problems.of("warning")) == ([], [])
    assert "made prices" in (report.about or "")
    seen = market(tmp_path, tmp_path / "own", day, exchange=code)
    rows = seen.universe("sp500")
    assert (day, len(rows), {one.currency for one in rows}) == (DAY, NAMES, {currency})
    assert all(one.symbol.startswith("MADE") for one in rows)
    assert f"{seen.clock.now():%H:%M %Z}" == opened
    assert len(seen.bars(rows[0].symbol, 252)) == 252


def test_two_folders_of_an_exchange_are_alike(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_made_market(tmp_path / name, "XTKS")
    files = ({file.name: file.read_bytes() for file in (tmp_path / name / "bars").iterdir()} for name in ("one", "two"))
    assert next(files) == next(files)


def test_the_exchange_of_a_demo_is_named_by_its_city_and_is_not_new_york(tmp_path: Path) -> None:
    assert [demo.exchange_of(name) for name in ("tokyo", "Sao Paulo", "crypto", "XLON", None)] == [
        "XTKS", "BVMF", "CRYPTO", "XLON", None,
    ]  # fmt: skip
    with pytest.raises(UsageError, match="--market 'mars' is no exchange") as caught:
        demo.exchange_of("mars")
    assert EXCHANGES["XTKS"].place in (caught.value.remedy or "")
    with pytest.raises(UsageError, match="of another exchange"):
        write_made_market(tmp_path / "own", HOME)


def test_a_demo_on_made_prices_trades_shares_alone(tmp_path: Path) -> None:
    made = demo.make_plan({}, demo.fresh_home(tmp_path / "demo"), live=False, exchange="XTKS")
    own = made.settings
    assert (own.market, own.exchange, own.stock_only, own.replay_date) == ("files", "XTKS", True, DAY)
    assert own.data == tmp_path / "demo" / demo.MADE
