"""Views of the record with data that the desk made: board, equity curve, backtest, scores, comparison."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from tests.browser.kit import DeskPage, short
from tests.browser.record import Record


def panel(page: Page, name: str) -> Locator:
    return page.locator(f'section[aria-label="{name}"]')


def record_of(desk: DeskPage) -> Record:
    assert desk.record is not None
    return desk.record


def test_from_a_backtest_to_the_scores_of_its_verdicts(page: Page, desk_page: DeskPage) -> None:
    record = record_of(desk_page)
    with desk_page.service.client() as client:
        found = client.get(f"/runs/{record.backtest}").json()["backtest"]
        (score,) = client.get("/scores", params={"account": record.scored, "kind": "rating", "name": "BUY"}).json()[
            "rows"
        ]
    desk_page.open(page, "/scores?show=backtests", None)
    page.get_by_role("link", name=short(record.backtest)).click()
    expect(page.get_by_text(found["result"]["conclusion"])).to_be_visible()
    chart = panel(page, "Equity").get_by_role("img", name=re.compile("beside the universe held"))
    expect(chart.locator("canvas").first).to_be_visible()
    expect(panel(page, "Sessions").locator("tbody tr")).to_have_count(len(found["rows"]))
    expect(panel(page, "Hit rates by rating")).to_contain_text("BUY")
    page.get_by_role("link", name="scores of its verdicts").click()
    page.get_by_role("link", name="BUY", exact=True).click()
    expect(page).to_have_url(re.compile(f"/scores/rating/BUY.account={record.scored}"))
    expect(panel(page, "Scores")).to_contain_text(f"{score['brier']['mean']:.4f}")
    calibration = panel(page, "Calibration")
    expect(calibration.locator("svg circle")).to_have_count(len(score["calibration"]))
    expect(calibration.locator("tbody tr")).to_have_count(len(score["calibration"]))


def test_the_record_of_a_backtest_adds_up_and_is_saved(page: Page, desk_page: DeskPage) -> None:
    record = record_of(desk_page)
    with desk_page.service.client() as client:
        found = client.get(f"/accounts/{record.account}/record", params={"against": "paper"}).json()
    days, trades = found["days"], found["trades"]
    assert abs(sum(one["profit"] for one in trades) - (days[-1]["equity"] - days[0]["equity"])) < 0.01
    assert abs(sum(one["profit"] for one in found["lenses"]) - sum(one["profit"] for one in trades)) < 0.01
    assert {one["name"] for one in found["symbols"]} == {one["symbol"] for one in trades}
    for one in trades:
        assert abs(one["quantity"] * one["entry_price"] / one["staked"] - 1) < 0.001, "but for the commission"
        assert (one["exit_price"] is None, one["exit_reason"] is None) == (not one["sold"], not one["sold"])
        assert one["entry_reason"] != one["exit_reason"]
    desk_page.open(page, f"/runs/{record.backtest}")
    page.get_by_role("link", name="Its record").click()
    expect(page.locator("main .lead").filter(has_text=found["said"])).to_be_visible()
    expect(panel(page, "Trades").locator("tbody tr")).to_have_count(len(trades))
    with page.expect_download() as saved:
        page.get_by_role("button", name="Trades as CSV").click()
    lines = saved.value.path().read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(trades) + 1
    assert lines[0].startswith('"symbol"')
    page.get_by_role("combobox", name="Compared with").select_option("paper")
    expect(panel(page, "Equity")).to_contain_text("Against paper")
