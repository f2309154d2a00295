"""Views of the record with data that the desk made: board, equity curve, backtest, scores, charts, comparison."""

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


def test_the_equity_of_an_account_is_a_curve_with_its_table(page: Page, desk_page: DeskPage) -> None:
    account = record_of(desk_page).account
    with desk_page.service.client() as client:
        days = client.get(f"/accounts/{account}/equity").json()["days"]
    assert len(days) > 1
    desk_page.open(page, f"/accounts/{account}")
    chart = panel(page, "Equity").get_by_role("img", name=re.compile(rf"{len(days)} session days"))
    expect(chart.locator("canvas").first).to_be_visible()
    panel(page, "Equity").get_by_text("As a table").click()
    rows = page.get_by_role("group", name="Equity by day").locator("tbody tr")
    expect(rows).to_have_count(len(days))
    expect(rows.first).to_contain_text(days[-1]["day"])
    panel(page, "Equity").get_by_role("button", name="1 month").click()
    expect(page).to_have_url(re.compile("days=20"))


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
    assert {one["name"] for one in found["symbols"]} == {one["symbol"] for one in trades}
    desk_page.open(page, f"/runs/{record.backtest}")
    page.get_by_role("link", name="Its record").click()
    expect(page.locator("main .lead")).to_contain_text(found["said"])
    expect(panel(page, "Trades").locator("tbody tr")).to_have_count(len(trades))
    with page.expect_download() as saved:
        page.get_by_role("button", name="Trades as CSV").click()
    lines = saved.value.path().read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(trades) + 1
    assert lines[0].startswith('"symbol"')
    page.get_by_role("combobox", name="Compared with").select_option("paper")
    expect(panel(page, "Equity")).to_contain_text("Against paper")


def test_a_board_leads_from_a_forecast_to_its_turn(page: Page, desk_page: DeskPage) -> None:
    record = record_of(desk_page)
    with desk_page.service.client() as client:
        board = client.get(f"/runs/{record.episode}/board").json()
    desk_page.open(page, "/scores?show=episodes", None)
    page.get_by_role("link", name="questions, forecasts, signals").click()
    questions = page.get_by_role("group", name="Questions and forecasts").locator("tbody tr")
    expect(questions).to_have_count(len(board["questions"]))
    expect(panel(page, "Voices").locator("tbody tr")).to_have_count(len(board["voices"]))
    page.get_by_role("combobox", name="Voice").select_option("auditor")
    argued = panel(page, "Arguments").locator("ul.arguments > li")
    expect(argued).to_have_count(len([one for one in board["forecasts"] if one["voice"] == "auditor"]))
    expect(panel(page, "Tally").get_by_label("Tally")).to_contain_text("Leaderboard")
    argued.first.get_by_role("link", name="its turn").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("voice_auditor")
    expect(panel(page, "Answer")).to_contain_text("forecasts")


def test_a_question_that_is_resolved_has_its_evidence(page: Page, desk_page: DeskPage) -> None:
    with desk_page.service.client() as client:
        (question, *_) = client.get("/questions", params={"state": "resolved"}).json()
    desk_page.open(page, f"/questions/{question['id']}")
    expect(panel(page, "Question")).to_contain_text("yes" if question["outcome"] == 1 else "no")
    expect(page.get_by_label("Evidence", exact=True)).to_contain_text("daily closes of the replay market")


def test_the_charts_of_analysts_are_pictures(page: Page, desk_page: DeskPage) -> None:
    desk_page.open(page, "/scores?show=charts", None)
    picture = page.get_by_role("img", name="chart_render for chart, KO")
    expect(picture).to_be_visible()
    assert picture.evaluate("one => one.decode().then(() => one.naturalWidth)") > 300


def test_two_screens_are_compared_and_the_address_keeps_it(page: Page, desk_page: DeskPage) -> None:
    with desk_page.service.client() as client:
        rows = client.get(f"/runs/{record_of(desk_page).backtest}").json()["backtest"]["rows"]
        one, other = (row["screen_run_id"] for row in rows[:2])
        found = client.get(f"/runs/{one}/compare/{other}").json()
    desk_page.open(page, f"/runs/{one}", f"Run {short(one)}")
    page.get_by_role("combobox", name="Other run").select_option(other)
    expect(page).to_have_url(re.compile(f"with={other}"))
    both = page.get_by_role("group", name="Both runs")
    expect(both.get_by_role("link", name=short(other))).to_be_visible()
    candidates = page.get_by_role("group", name="Candidates of both").locator("tbody tr")
    expect(candidates).to_have_count(len(found["candidates"]))
    expect(candidates.get_by_text("differs")).to_have_count(len([row for row in found["candidates"] if row["changed"]]))
    page.goto(f"{desk_page.url}/#/runs/{one}/compare/{other}")
    expect(both.get_by_role("link", name=short(other))).to_be_visible()
