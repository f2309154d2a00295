"""The frame around the views, and the views Desk and Runs."""

from __future__ import annotations

import re

from playwright.sync_api import Page, Route, expect

from chordesk.models.looks import FIGURES, written
from chordesk.models.text import span
from tests.browser.kit import DeskPage, short
from tests.parts import needs

MARKUP = "<img src=x onerror=alert(1)>"
REVERSED = "\u202egnp.exe"


def _desk_as(browsed: Page, **changed: object) -> dict[str, object]:
    """Let the desk's glance have other values, for as long as the answer has them."""

    def answer(route: Route) -> None:
        found = route.fetch()
        route.fulfill(response=found, json={**found.json(), **changed})

    browsed.route("**/desk", answer)
    return changed


def test_the_desk_shows_what_runs_what_waits_and_the_account(page: Page, desk_page: DeskPage) -> None:
    expect(page.get_by_role("heading", level=1, name="Desk")).to_be_visible()
    runs = page.get_by_role("region", name="Runs now").first
    expect(runs.get_by_role("link", name=short(desk_page.flying))).to_be_visible()
    waiting = page.get_by_role("region", name="Waits for a person")
    expect(waiting.get_by_role("button", name="Approve…").first).to_be_visible()
    expect(page.locator("main .lead")).to_contain_text(
        re.compile(r"(Researched 2 names|Screened one name) at 15:55 on 2010-08-12")
    )
    newest = page.get_by_role("region", name="The newest decision")
    expect(newest).to_contain_text("CONFIRMED")
    order = str(newest.get_by_role("link", name="The order").get_attribute("href")).rpartition("/")[2]
    with desk_page.service.client() as client:
        assert client.get("/orders", params={"limit": 1}).json()[0]["order"]["account"].startswith("backtest-")
        assert client.get(f"/orders/{order}").json()["order"]["account"] == "paper"
    expect(page.get_by_role("region", name="How good it has been")).to_contain_text("$100,")
    expect(page.get_by_role("region", name="Fleet")).to_contain_text("3 workers")
    held = page.get_by_role("region", name="Positions").get_by_role("row").filter(has_text="KO")
    with desk_page.service.client() as client:
        (ko,) = (one for one in client.get("/accounts/paper").json()["holdings"] if one["symbol"] == "KO")
    away = (ko["market_price"] - ko["plan"]["stop"]) / ko["market_price"]
    expect(held).to_contain_text(f"{away * 100:.1f}\u202f% away")
    expect(held).to_contain_text(f"${away * ko['value']:,.0f}")
    assert ko["days"] == 1, "decided on one day, filled at the next open, of which this is the day"
    expect(page.get_by_role("region", name="Since")).to_contain_text("KO")
    expect(page.get_by_role("banner")).to_contain_text("live, play money")


def test_what_waits_says_why_and_what_it_would_do(page: Page, desk_page: DeskPage) -> None:
    with desk_page.service.client() as client:
        waiting = client.get("/approvals").json()[0]
        effect = client.get(f"/orders/{waiting['order']['id']}/checks").json()["effect"]
        held = client.get(f"/accounts/{waiting['order']['account']}").json()
    paid = effect["cash_before"] - effect["cash_after"]
    assert abs(effect["cash_before"] - held["cash"]) < 0.01
    assert abs(effect["share_after"] - effect["share_before"] - paid / held["value"]) < 0.001
    desk_page.open(page, "/")
    card = page.get_by_role("region", name="Waits for a person").locator("li").first
    expect(card.locator(".why")).to_contain_text(waiting["why"].removeprefix("Rule, not a model: ")[:40])
    expect(card.get_by_label("Effect on the account")).to_contain_text(f"{effect['share_after'] * 100:.1f}")
    expect(card.get_by_label("Effect on the account")).to_contain_text(f"after all {effect['others'] + 1}")
    expect(card).to_contain_text(f"${effect['at_risk']:,.0f}")
    for what in ("Beats the benchmark", "Price now", "away", "For it", "Against it"):
        expect(card).to_contain_text(what)
    expect(card.get_by_role("img", name=re.compile(r"the last \d+ sessions"))).to_be_visible()
    card.get_by_role("link", name=re.compile("BUY")).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Verdict on")


def test_the_first_visit_starts_a_screen_with_one_button(page: Page, desk_page: DeskPage) -> None:
    changed = _desk_as(page, last=None)
    page.reload()
    with page.expect_response(lambda answer: answer.request.method == "POST") as answered:
        page.get_by_role("button", name="Run a sample screen").click()
    run = answered.value.json()
    changed.clear()
    try:
        assert (run["kind"], len(run["params"]["symbols"])) == ("screen", 8)
        expect(page.get_by_role("region", name="Decided now")).to_contain_text("screen now")
    finally:
        desk_page.stop_run(run["id"])


def test_the_palette_finds_a_symbol_and_a_command_by_keys_alone(page: Page, desk_page: DeskPage) -> None:
    desk_page.open(page, "/")
    asked = page.get_by_role("combobox", name="Symbols, runs, orders, commands")
    page.keyboard.press("Control+k")
    expect(asked).to_be_focused()
    page.keyboard.type("ko")
    found = page.get_by_role("listbox", name="Found").get_by_role("option", name="KO symbol")
    expect(found).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#/symbols/KO$"))
    page.keyboard.press("Control+k")
    expect(asked).to_be_focused()
    page.keyboard.type("halt")
    expect(page.get_by_role("option", name="Halt trading… do")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    halt = page.get_by_role("dialog", name="Halt trading")
    expect(halt.get_by_label("Reason")).to_be_focused()
    page.keyboard.press("Escape")
    expect(halt).to_have_count(0)
    page.keyboard.press("Control+k")
    expect(asked).to_be_focused()
    page.keyboard.type("nothing")
    page.keyboard.press("Escape")
    expect(asked).to_have_count(0)
    page.keyboard.press("Control+k")
    expect(asked).to_be_focused()
    page.keyboard.type("start screen")
    expect(page.get_by_role("option", name="Start: screen")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Start a run")).to_be_visible()


def test_a_run_is_started_here_and_a_refusal_is_shown_with_what_was_typed(page: Page, desk_page: DeskPage) -> None:
    desk_page.open(page, "/runs?start=research", "Runs")
    dialog = page.get_by_role("dialog", name="Start a run")
    dialog.get_by_label("Symbols").fill("ib/m")
    dialog.get_by_role("button", name="Start", exact=True).click()
    expect(dialog.get_by_role("alert")).to_have_text("IB/M is not of the form that is asked for here")
    assert page.evaluate(REFUSED) == {"most": "at least 1", "days": "valid days: 3"}
    expect(dialog.get_by_label("Symbols")).to_have_value("ib/m")
    dialog.get_by_label("Symbols").fill("ge")
    with page.expect_response(lambda answer: answer.request.method == "POST") as answered:
        dialog.get_by_role("button", name="Start", exact=True).click()
    run = answered.value.json()
    assert (run["kind"], answered.value.status) == ("research", 201)
    assert answered.value.request.headers["idempotency-key"]
    page.wait_for_url(f"**/#/runs/{run['id']}")
    desk_page.stop_run(run["id"])


@needs("measure")
def test_runs_are_folded_sorted_by_the_desk_and_started_again(page: Page, desk_page: DeskPage) -> None:
    assert desk_page.record is not None
    backtest = short(desk_page.record.backtest)
    desk_page.open(page, "/runs", "Runs")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=backtest))
    expect(row).to_contain_text(re.compile("Played [0-9]+ sessions.*%, against .* bought and held"))
    expect(page.locator("tr.within")).to_have_count(0)
    row.get_by_role("button", name=re.compile("sessions$")).click()
    within = page.locator("tr.within")
    expect(within.first).to_contain_text("Screened")
    symbol = within.locator("a.symbol").first
    assert "?run=" in str(symbol.get_attribute("href")), "what a backtest saw is shown as of then"
    with page.expect_response(re.compile("/runs[?].*sort=took")):
        page.get_by_role("button", name="Took").click()
    expect(page).to_have_url(re.compile("[?]sort=took$"))
    expect(page.get_by_role("columnheader", name="Took")).to_have_attribute("aria-sort", "descending")
    page.get_by_role("button", name=f"Run {backtest} again").click()
    dialog = page.get_by_role("dialog", name="Start a run")
    expect(dialog.get_by_label("First")).to_have_value(re.compile("2010-"))
    expect(dialog.get_by_role("status")).to_contain_text("no cost")
    dialog.get_by_role("button", name="Cancel").click()
    expect(page).to_have_url(re.compile("[?]sort=took$"))
    page.emulate_media(media="print")
    for name, seen in (("banner", False), ("table", True)):
        expect(page.get_by_role(name).first).to_be_visible(visible=seen)  # type: ignore[arg-type]
    expect(page.get_by_role("button", name="Took")).to_be_visible()  # the name of its column
    expect(page.get_by_role("button", name="Start a run")).to_be_hidden()


@needs("board", "measure")
def test_a_form_has_the_fields_of_its_kind(page: Page, desk_page: DeskPage) -> None:
    desk_page.open(page, "/", "Desk")
    page.get_by_role("navigation", name="Start a run").get_by_role("link", name="screen").click()
    dialog = page.get_by_role("dialog", name="Start a run")
    for kind in ("analyze", "episode", "trade", "backtest"):
        dialog.get_by_role("button", name=kind, exact=True).click()
        expect(dialog.get_by_role("button", name=kind, exact=True)).to_have_attribute("aria-pressed", "true")
    start = dialog.get_by_role("button", name="Start", exact=True)
    expect(start).to_be_disabled()
    dialog.get_by_role("button", name="trade", exact=True).click()
    expect(dialog.get_by_label("Run")).to_have_value(re.compile(".+"))  # the newest with verdicts
    expect(start).to_be_enabled()
    dialog.get_by_role("button", name="backtest", exact=True).click()
    dialog.get_by_label("First").fill("2010-08-09")
    dialog.get_by_label("Last").fill("2010-08-10")
    dialog.get_by_label("Symbols").fill("IBM KO")
    dialog.get_by_text("More: ").click()
    forecast = dialog.get_by_role("status")
    expect(forecast).to_have_text(re.compile(r"Forecast: at most \d+ turns of rules, which are no model: no cost"))
    for_two_days = forecast.inner_text()
    dialog.get_by_label("Last").fill("2010-08-11")
    expect(forecast).not_to_have_text(for_two_days)
    expect(forecast).to_contain_text("no cost")
    dialog.get_by_label("Budget tokens").fill("0")
    start.click()
    assert "greater" in dialog.get_by_label("Budget tokens").evaluate("one => one.validationMessage")
    expect(forecast).to_contain_text("budget_tokens: ")
    expect(dialog.get_by_label("Symbols")).to_have_value("IBM KO")
    dialog.get_by_label("Budget tokens").fill("5000000")
    dialog.get_by_label("Last").fill("2010-08-10")
    with page.expect_response(lambda answer: answer.request.method == "POST") as answered:
        start.click()
    run = answered.value.json()
    assert (run["kind"], run["params"]["days"]) == ("backtest", ["2010-08-09", "2010-08-10"])
    assert run["settings"]["budget_run_tokens"] == 5_000_000
    page.wait_for_url(f"**/#/runs/{run['id']}")
    expect(page.locator("main .lead")).to_contain_text("of 2 sessions, 2010-08-09 to 2010-08-10")
    desk_page.stop_run(run["id"])


def test_a_page_of_before_an_upgrade_says_so_and_keeps_what_was_typed(page: Page, desk_page: DeskPage) -> None:
    desk_page.open(page, "/runs?start=research", "Runs")
    symbols = page.get_by_role("dialog", name="Start a run").get_by_label("Symbols")
    symbols.fill("ge")
    changed = _desk_as(page, page="another")
    notice = page.get_by_role("status", include_hidden=True).filter(has_text="of before the desk was upgraded")
    expect(notice).to_have_count(1)
    changed.clear()
    notice.get_by_role("button", name="Load it again", include_hidden=True).evaluate("one => one.click()")
    expect(notice).to_have_count(0)
    expect(symbols).to_have_value("ge")


def test_text_of_the_desk_is_never_markup(page: Page, desk_page: DeskPage) -> None:
    seen: list[str] = []
    page.on("dialog", lambda dialog: (seen.append(dialog.message), dialog.dismiss()))
    run = desk_page.add_run("screen", schedule=f"{MARKUP}{REVERSED}", symbols=[MARKUP[:16], "javascript:x"])
    desk_page.open(page, "/runs?kind=screen", "Runs")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=short(run)))
    expect(row).to_contain_text(MARKUP)
    expect(row).to_contain_text("\u25afgnp.exe")
    assert row.locator("img").count() == 0
    links = row.get_by_role("link").evaluate_all("all => all.map(one => one.getAttribute('href'))")
    assert all(link.startswith("#/") for link in links), links
    desk_page.remove_run(run)
    assert seen == []


def test_the_policy_stops_what_text_could_do(page: Page, desk_page: DeskPage) -> None:
    """Even code of the page could not make text a script, nor send anything elsewhere."""
    policy = page.evaluate("fetch('/page/').then(answer => answer.headers.get('content-security-policy'))")
    assert "unsafe" not in policy
    for part in ("default-src", "frame-ancestors", "base-uri", "form-action", "trusted-types"):
        assert f"{part} 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    # Later: what the test itself evaluates is exempt from the policy.
    caught = "() => new Promise(done => setTimeout(() => { try { %s; done('') } catch (error) { done(error.name) } }))"
    assert page.evaluate(caught % "new Function('return 1')()") == "EvalError"
    assert page.evaluate(caught % "document.createElement('div').innerHTML = '<b>x</b>'") == "TypeError"
    sent = "() => fetch('http://127.0.0.1:9/x').then(() => 'sent', () => 'stopped')"
    assert page.evaluate(sent) == "stopped"
    desk_page.requests[:] = [url for url in desk_page.requests if ":9/" not in url]
    desk_page.complaints.clear()


def test_the_schedule_is_edited_and_says_why_nothing_starts(page: Page, desk_page: DeskPage) -> None:
    desk_page.open(page, "/settings?show=schedule", re.compile("Settings"))
    table = page.get_by_role("group", name="Schedule")
    expect(page.get_by_role("status")).to_contain_text("no beat runs")
    expect(table.get_by_role("row").filter(has_text="midday")).to_contain_text("not while no beat runs")
    page.get_by_role("button", name="Add…").click()
    dialog = page.get_by_role("dialog", name="Add to the schedule")
    dialog.get_by_label("Name").fill("Early")
    dialog.get_by_label("New York time").fill("07:45")
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("name")
    expect(dialog.get_by_label("Name")).to_have_value("Early")
    dialog.get_by_label("Name").fill("early")
    dialog.get_by_label("Days").fill("mon,thu")
    dialog.get_by_label("With").fill("most=5")
    dialog.get_by_role("button", name="Add", exact=True).click()
    row = table.get_by_role("row").filter(has_text="early")
    for text in ("07:45", "mon,thu", "screen most=5", "at most"):  # the last is the forecast's
        expect(row).to_contain_text(text)
    expect(row).to_contain_text("Ann via the API")
    row.get_by_role("button", name="Off").click()
    expect(row).to_contain_text("off")
    row.get_by_role("button", name="Change…").click()
    page.get_by_label("New York time").fill("07:50")
    page.get_by_role("dialog").get_by_role("button", name="Change", exact=True).click()
    expect(row).to_contain_text("07:50")
    row.get_by_role("button", name="Remove…").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove…").click()
    expect(row).to_have_count(0)


def test_settings_are_grouped_and_found_by_a_word_of_their_meaning(page: Page, desk_page: DeskPage) -> None:
    desk_page.open(page, "/settings", re.compile("Settings"))
    expect(page.get_by_role("region", name="Limits of orders")).to_contain_text("DESK_MAX_ORDER_NOTIONAL")
    live = page.get_by_role("region", name="The account").get_by_role("row").filter(has_text="TRADER_LIVE")
    expect(live).to_contain_text("set TRADER_LIVE")
    page.get_by_role("searchbox", name="Search").fill("last quote")
    expect(page.get_by_role("region", name="Limits of orders").locator("tbody tr")).to_have_count(1)
    expect(page.get_by_role("region", name="The account")).to_have_count(0)


MONEY = """async () => {
  const { home, moment, money, priceOf, signedMoney } = await import('/page/lib/format.js');
  while (!home.value.currencies.L) await new Promise((resolve) => { setTimeout(resolve, 20); });
  const told = home.value;
  const at = '2024-03-15T00:00:00Z';
  const found = [money(1234.5), moment(at, 'both', 'exchange')];
  home.value = { ...told, zone: 'Asia/Tokyo', place: 'Tokyo', currency: 'JPY' };
  found.push(moment(at, 'both', 'exchange'), money(3795), money(-3795.4), signedMoney(12), money(null));
  found.push(priceOf(104.2, { symbol: 'AZN.L' }), priceOf(180.25, { symbol: 'BRK.B' }));
  found.push(priceOf(520, { symbol: 'CSPX.L', currency: 'USD' }), priceOf(381.4, { symbol: '0700.HK' }));
  found.push(priceOf(0.00001234, { symbol: 'SHIB-USD' }), priceOf(0.98, { symbol: 'BTC-USDT' }));
  found.push(priceOf(3012.5, { symbol: '9984.T' }), priceOf(0.0235, { symbol: 'VOD.L' }));
  home.value = told;
  return found;
}"""


KINDS = """async (kinds) => {
  const shown = await import('/page/lib/format.js');
  const made = { shares: 'quantity', change: 'signedPercent', probability: 'chance' };
  return kinds.map(([kind, value]) => shown[made[kind] ?? kind](value));
}"""


def test_figures_and_spans_are_written_as_in_the_terminal(page: Page, desk_page: DeskPage) -> None:
    desk_page.open(page, "/", re.compile("Desk"))
    values = (0.371822, -0.0049999, 0.0, 1234.56789, -2.0)
    asked = [(kind, value) for kind in FIGURES for value in values]
    found = [text.replace("\u202f", " ") for text in page.evaluate(KINDS, asked)]
    assert found == [written(kind, value) for kind, value in asked]
    seconds = (4.24, 9.98, 59.7, 200, 7_523, 86_399.7, 800_000)
    asking = "async (all) => all.map((await import('/page/lib/format.js')).span)"
    assert page.evaluate(asking, [one * 1000 for one in seconds]) == [span(one) for one in seconds]


def test_money_has_its_currency_and_times_are_of_the_exchange(page: Page, desk_page: DeskPage) -> None:
    desk_page.open(page, "/", re.compile("Desk"))
    assert page.evaluate(MONEY) == [
        "$1,234.50", "2024-03-14 20:00:00", "2024-03-15 09:00:00", "¥3,795", "-¥3,795", "+¥12", "—",
        "£104.20", "$180.25", "$520.00", "HK$381.40", "$0.00001234", "0.98 USDT", "¥3,012.5", "£0.0235",
    ]  # fmt: skip


def test_filters_are_kept_under_a_name(page: Page, desk_page: DeskPage) -> None:
    desk_page.open(page, "/runs?state=done", re.compile("Runs"))
    page.get_by_role("button", name="Keep these filters…").click()
    page.get_by_label("Name").fill("finished")
    page.get_by_role("button", name="Keep", exact=True).click()
    page.get_by_role("button", name="Clear").click()
    expect(page).to_have_url(re.compile(r"#/runs$"))
    page.reload()
    page.get_by_role("button", name="finished", exact=True).click()
    expect(page).to_have_url(re.compile(r"state=done"))
    expect(page.get_by_role("button", name="finished", exact=True)).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="Forget finished").click()
    expect(page.get_by_role("button", name="finished", exact=True)).to_have_count(0)


# A message that has no words of its own is shown as it came.
REFUSED = """async () => (await import('/page/lib/refused.js')).wrongFields({ status: 422, detail:
  "body.screen.most=-3: Input should be greater than or equal to 1; body.screen.days='x': valid days: 3" })"""
