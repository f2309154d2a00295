"""The login in a browser: one-time links, tabs that share it, its end, and what a foreign page can do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.kit import DeskPage, logged_in
from tests.browser.kit import short as short_id
from tests.patience import PATIENCE


def login(page: Page) -> None:
    """The page shows its login alone."""
    expect(page.get_by_role("form", name="Log in")).to_be_visible()
    expect(page.get_by_role("navigation", name="Views")).to_have_count(0)


def test_a_link_logs_in_once_and_leaves_no_code_behind(browser: Browser, desk_page: DeskPage) -> None:
    link = desk_page.link("/runs?kind=screen")
    context = browser.new_context()
    desk_page.watch(context)
    page = context.new_page()
    page.goto(link)
    expect(page.get_by_role("heading", level=1, name="Runs")).to_be_visible()
    assert page.url == f"{desk_page.url}/#/runs?kind=screen"
    code = link.partition("#")[2].partition("/")[0]
    assert not [url for url in desk_page.requests if code in url]
    assert context.cookies() == []
    page.reload()
    expect(page.get_by_role("heading", level=1, name="Runs")).to_be_visible()
    page.get_by_role("link", name="Desk", exact=True).click()
    expect(page.get_by_role("heading", level=1, name="Desk")).to_be_visible()
    context.close()
    other = browser.new_context()
    second = other.new_page()
    second.goto(link)
    login(second)
    expect(second.get_by_role("alert")).to_contain_text("used already")
    other.close()


def test_a_wrong_code_is_refused_and_another_link_can_be_pasted(browser: Browser, desk_page: DeskPage) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{desk_page.url}/#/runs")
    login(page)
    field = page.get_by_label("Link or code")
    field.fill("hello")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("This is no login link")
    field.fill("A" * 43)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("not one of this desk's")
    expect(field).to_have_value("A" * 43)
    field.fill(desk_page.link())
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", level=1, name="Runs")).to_be_visible()
    context.close()


def test_seven_tabs_share_a_login_and_all_of_them_work(page: Page, desk_page: DeskPage) -> None:
    tabs = [page]
    for _ in range(6):
        tab = page.context.new_page()
        tab.goto(f"{desk_page.url}/#/runs")
        tabs.append(tab)
    for tab in tabs[1:]:
        expect(tab.get_by_role("link", name=short_id(desk_page.run))).to_be_visible()
    states = [tab.get_by_role("heading", level=1).inner_text() for tab in tabs]
    assert len(states) == 7
    for tab in tabs:
        expect(tab.get_by_role("heading", level=1)).to_contain_text("ing")  # receiving, or polling
    tabs[0].get_by_text("Ann", exact=True).click()
    tabs[0].get_by_role("button", name="Log out").click()
    tabs[0].get_by_role("dialog").get_by_role("button", name="Log out").click()
    for tab in tabs:
        expect(tab.get_by_role("form", name="Log in")).to_be_visible()


def test_the_end_of_all_sessions_keeps_what_was_typed(page: Page, browser: Browser, desk_page: DeskPage) -> None:
    desk_page.open(page, "/runs?start=screen")
    page.get_by_role("dialog").get_by_label("Symbols").fill("IBM KO")
    with logged_in(browser, desk_page) as other:
        other.get_by_text("Ann", exact=True).click()
        other.get_by_role("button", name="End all sessions").click()
        other.get_by_role("dialog").get_by_role("button", name="End all").click()
        login_over = other.get_by_role("form", name="Log in")
        expect(login_over).to_be_visible()
    # The page may have noticed by itself, and then asks for a link above the dialog.
    start = page.get_by_role("dialog").get_by_role("button", name="Start", exact=True, include_hidden=True)
    start.evaluate("one => one.click()")
    expect(page.get_by_text("The session has ended. What you typed is kept.")).to_be_visible()
    desk_page.complaints.clear()
    late: list[Route] = []
    page.route("**/questions?*", lambda route: route.continue_() if late else late.append(route))
    with page.expect_request("**/questions?*"):
        page.evaluate("() => { import('/page/lib/api.js').then(({ get }) => get('/questions', { limit: 1 })); }")
    page.get_by_label("Link or code").fill(desk_page.link())  # above the dialog, which is still open
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("form", name="Log in")).to_have_count(0)
    with page.expect_response(lambda answer: "/questions?" in answer.url and answer.ok):
        late[0].fulfill(status=401, json={"status": 401, "title": "refused", "detail": "the session before has ended"})
    expect(page.get_by_role("form", name="Log in")).to_have_count(0)
    expect(page.get_by_role("dialog").get_by_label("Symbols")).to_have_value("IBM KO")


FOREIGN = """<!doctype html><title>elsewhere</title><a href="{url}/#/runs">to the desk</a>
<iframe src="{url}/" name="inside"></iframe>
<form method="post" enctype="text/plain" action="{url}/session/end">
<input name='{{"all":true,"x":"' value='"}}'><button>send</button></form>"""


@pytest.fixture
def elsewhere(shared_desk: DeskPage) -> Iterator[str]:
    """A page of another port, which a person was lured to."""

    class Lure(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = FOREIGN.format(url=shared_desk.url).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Lure)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    serving.join(PATIENCE)


def test_a_foreign_page_reaches_nothing(page: Page, desk_page: DeskPage, elsewhere: str, shared_desk: DeskPage) -> None:
    """It is open beside the logged-in page, in the same browser."""
    lure = page.context.new_page()
    lure.goto(elsewhere)
    for way in ("/runs", "/session", "/page/app.js", "/"):
        answer = lure.evaluate("url => fetch(url).then(() => 'read', () => 'refused')", shared_desk.url + way)
        assert answer == "refused", way
    send = "url => fetch(url, {method: 'POST', mode: 'no-cors', body: '{\"all\":true}'})"
    sent = f"{send}.then(() => 'read', () => 'refused')"
    assert lure.evaluate(sent, f"{shared_desk.url}/session/end") == "refused"
    assert "Views" not in lure.frame(name="inside").content(), "the desk shows in no frame"  # type: ignore[union-attr]
    with lure.expect_navigation():
        lure.get_by_role("button", name="send").click()
    assert "foreign_origin" in lure.content()
    lure.goto(elsewhere)
    lure.get_by_role("link", name="to the desk").click()
    # The link opened the shell; that it is logged in comes from the other tab of the desk, not from the foreign page.
    expect(lure.get_by_role("heading", level=1, name="Runs")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", level=1, name="Desk")).to_be_visible()
    desk_page.requests[:] = [url for url in desk_page.requests if not url.startswith(elsewhere)]
    desk_page.complaints.clear()  # the browser's, of what the foreign page was refused
