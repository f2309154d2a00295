"""A symbol's change of name: history, position, orders and plan go on under the new name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chordesk.models.errors import SettingError
from chordesk.tools.market.files.data_folder import check_folder
from chordesk.tools.market.files.market import build
from chordesk.tools.orders.protection import held_plans
from tests.tools.market.files import folders
from tests.tools.market.files.folders import HEADER, market, sessions, walk, write_table
from tests.tools.orders.desk import action, make_desk
from tests.tools.orders.protection.watch import a_pass, stops

DAYS = sessions("2020-06-01", 30)
AT = 15  # the first session of the new name


def written(folder: Path, link: str = "stated", begins: int = AT, price: float = 1.0) -> Path:
    rows = walk(DAYS)
    write_table(folder / "bars" / "OLD.csv", HEADER, rows[:AT])
    later = [(row[0], *(float(str(one)) * price for one in row[1:5]), row[5]) for row in rows[begins:]]
    write_table(folder / "bars" / "NEW.csv", HEADER, later)
    write_table(folder / "bars" / "B.csv", HEADER, rows)
    if link == "stated":
        write_table(folder / "changes.csv", ("old", "new", "date"), [("OLD", "NEW", DAYS[AT])])
    elif link == "company":
        write_table(folder / "universe.csv", ("symbol", "cik"), [("OLD", 7), ("NEW", 7), ("B", 8)])
    return folder


@pytest.mark.parametrize("link", ["stated", "company"])
def test_history_position_and_plan_follow_a_new_name(template_db: Path, tmp_path: Path, link: str) -> None:
    folder = written(tmp_path / "data", link)
    own: dict[str, Any] = {"data": folder, "replay_date": DAYS[AT - 3]}
    found = build(folders.settings(tmp_path, folder), DAYS[AT - 3])
    assert [one.symbol for one in found.universe("sp500")] == ["B", "OLD"]
    desk = make_desk(template_db, tmp_path, found, max_symbol_share=1, **own)
    desk.settings = desk.settings.model_copy(update={"market": "files"})
    desk.run(action("OLD", quantity=10.0, plan={"stop": 50.0}))
    for at in range(AT - 2, AT + 14):
        desk.go(DAYS[at])
        a_pass(desk)
    assert desk.positions() == {"NEW": 10}, "not paid out as delisted"
    (stop,) = stops(desk)
    assert (stop.symbol, stop.quantity, stop.stop_price) == ("NEW", 10, 50)
    with desk.store.read() as session:
        assert [(one.symbol, plan.stop) for one, _, plan in held_plans(session, "paper", desk.market)] == [("NEW", 50)]
    bars = desk.market.bars("NEW", 40)
    assert list(bars.dates) == list(DAYS[: AT + 14])
    assert [one.symbol for one in desk.market.universe("sp500")] == ["B", "NEW"]


@pytest.mark.parametrize(("begins", "price"), [(AT + 9, 1.0), (AT, 2.0), (AT - 1, 1.0)])
def test_a_company_alone_links_no_names_that_lie_apart(tmp_path: Path, begins: int, price: float) -> None:
    found = market(tmp_path, written(tmp_path / "data", "company", begins, price), DAYS[-1])
    assert found.renamed("OLD") is None


def test_a_change_that_the_bars_contradict_is_named(tmp_path: Path) -> None:
    folder = written(tmp_path / "data", begins=AT - 1)
    with pytest.raises(SettingError, match=f"changes.csv, row 2.*NEW has a bar of {DAYS[AT - 1]}, before {DAYS[AT]}"):
        market(tmp_path, folder, DAYS[-1])


def test_before_its_day_a_new_name_is_unknown(tmp_path: Path) -> None:
    found = market(tmp_path, written(tmp_path / "data"), DAYS[AT - 1])
    assert (found.unknown(["NEW", "OLD"]), found.renamed("OLD")) == (["NEW"], None)


def test_no_name_follows_into_another_currency(tmp_path: Path) -> None:
    """Of shares held for pounds the cost and the stops would stand in dollars, and cash would come out of nothing."""
    days = sessions("2024-01-02", 40, "XLON")
    write_table(tmp_path / "own" / "bars" / "AZN.L.csv", HEADER, walk(days))
    write_table(tmp_path / "own" / "bars" / "AZN.csv", HEADER, walk(sessions("2024-03-01", 40), 127.0))
    write_table(tmp_path / "own" / "listings.csv", ("symbol", "currency"), [("AZN.L", "GBP")])
    write_table(tmp_path / "own" / "changes.csv", ("old", "new", "date"), [("AZN.L", "AZN", "2024-03-01")])
    (found,) = check_folder(tmp_path / "own", "auto", 1).problems.of("error")
    assert "AZN.L is priced in GBP and AZN in USD: what is held cannot follow" in str(found)
    write_table(tmp_path / "own" / "listings.csv", ("symbol", "currency"), [("AZN.L", "USD")])
    assert check_folder(tmp_path / "own", "auto", 1).problems.errors == 0
