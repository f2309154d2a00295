"""What a person decides on the page: approve, deny, halt, flatten, resume; on a desk of its own, as it changes it."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect
from sqlmodel import Session, col, select

from chordesk.agents.runtime import ApprovalRequest, Scope
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.models.tables.orders import Approval, Order, Preview
from chordesk.models.tables.runtime import RuntimeApproval
from chordesk.tasks import approval_requests
from chordesk.tools.orders import approvals as order_approvals
from chordesk.tools.orders.sessions import to_next_session
from tests.browser import kit
from tests.browser.kit import DeskPage, short
from tests.stack import wait_for
from tests.tasks.views.chain import a_chain

HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>\u202e"


@pytest.fixture(scope="module")
def own_desk(browser: Browser) -> Iterator[DeskPage]:
    with kit.desk_page() as found:
        yield found


@pytest.fixture
def own_page(browser: Browser, own_desk: DeskPage) -> Iterator[Page]:
    own_desk.requests.clear()
    own_desk.complaints.clear()
    with kit.logged_in(browser, own_desk) as page:
        yield page
    assert own_desk.complaints == []
    assert [url for url in own_desk.requests if not url.startswith((f"{own_desk.url}/", "blob:"))] == []


def test_a_reason_outlives_a_lost_answer_and_the_order_is_approved_once(own_page: Page, own_desk: DeskPage) -> None:
    waiting, keys = _waiting(own_desk), []
    order, quantity, symbol = (waiting["order"][name] for name in ("id", "quantity", "symbol"))
    money = f"${waiting['approval']['notional']:,.2f}"

    def lose_the_first(route: Route) -> None:
        if route.request.method == "GET":
            return route.continue_()
        keys.append(route.request.headers["idempotency-key"])
        assert route.request.post_data_json["expect"] == waiting["approval"]["payload_hash"]
        if len(keys) == 1:
            route.fetch()  # the desk takes it, and the answer is lost
            return route.abort()
        return route.continue_()

    own_page.route("**/approvals/*", lose_the_first)
    own_desk.open(own_page, f"/orders/{order}")
    own_page.get_by_role("button", name="Approve…").click()
    dialog = own_page.get_by_role("dialog")
    for text in ("paper", "buy", f"{quantity:g} shares", symbol, "market, day", money, "live, play money"):
        expect(dialog).to_contain_text(text)
    dialog.get_by_label("Reason").fill("as planned")
    dialog.get_by_role("button", name="Approve", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("approved by Ann via the API")
    expect(dialog.get_by_label("Reason")).to_have_value("as planned")
    expect(dialog.get_by_role("button", name="Approve", exact=True)).to_be_disabled()
    dialog.get_by_role("button", name="Cancel").click()
    expect(own_page.get_by_role("heading", level=1)).to_contain_text("at the broker")
    assert len(set(keys)) == 1
    with own_desk.service.store.read() as session:
        approval = session.exec(select(Approval).where(col(Approval.order_id) == order)).one()
        assert (approval.state, approval.decided_by, approval.why) == ("approved", "Ann via the API", "as planned")
        assert session.get_one(Order, order).sent_at is not None


def test_an_open_dialog_says_what_becomes_of_its_question(own_page: Page, own_desk: DeskPage) -> None:
    """Answered by somebody, expired, halted, altered, the session ended: dialog and what was typed stay."""
    store, settings = own_desk.service.store, own_desk.service.processes.settings

    def answered(session: Session, approval: Approval) -> None:
        order_approvals.decide(session, settings, approval.order_id, False, "bob", "not today")

    def altered(session: Session, approval: Approval) -> None:
        order = session.get_one(Order, approval.order_id)
        order.quantity = (order.quantity or 0) + 1

    def halted(session: Session, approval: Approval) -> None:
        (settings.home / "HALT").write_text("a fire drill")

    def expired(session: Session, approval: Approval) -> None:
        approval.expires_at = utcnow()

    dialog = own_page.get_by_role("dialog")
    own_desk.open(own_page, "/approvals")
    for meanwhile in (
        ((altered, "altered"), (halted, "a fire drill"), (answered, "denied by bob at .*: not today")),
        ((expired, "expired at"),),
    ):
        order = _asked(own_desk)
        with store.read() as session:
            quantity = session.get_one(Order, order).quantity
        row = own_page.locator(".waiting > li", has_text=short(order))
        row.get_by_role("button", name="Approve…").click()
        dialog.get_by_label("Reason").fill("as planned")
        with own_desk.service.client() as client:
            assert client.post("/session/end", json={"all": True}).is_success
        own_page.get_by_label("Link or code").fill(own_desk.link())
        own_page.get_by_role("button", name="Log in").click()
        expect(own_page.get_by_role("form", name="Log in")).to_have_count(0)
        expect(dialog.get_by_label("Reason")).to_have_value("as planned")
        for happens, told in meanwhile:
            with store.session() as session:
                happens(session, session.exec(select(Approval).where(col(Approval.order_id) == order)).one())
            expect(dialog).to_contain_text(re.compile(told))
            expect(dialog.get_by_label("Reason")).to_have_value("as planned")
            (settings.home / "HALT").unlink(missing_ok=True)
            if happens is altered:
                with store.session() as session:
                    session.get_one(Order, order).quantity = quantity
        expect(dialog.get_by_role("alert")).to_contain_text(re.compile(told))
        expect(dialog.get_by_role("button", name="Approve", exact=True)).to_be_disabled()
        dialog.get_by_role("button", name="Cancel").click()
        expect(row).to_have_count(0)


def test_an_answer_that_was_refused_is_taken_once_nothing_refuses_it(own_page: Page, own_desk: DeskPage) -> None:
    order = _asked(own_desk)
    own_desk.open(own_page, f"/orders/{order}")
    own_page.get_by_role("button", name="Approve…").click()
    dialog = own_page.get_by_role("dialog")

    def asked_later(by: dt.timedelta) -> None:
        with own_desk.service.store.session() as session:
            session.exec(select(Approval).where(col(Approval.order_id) == order)).one().asked_at += by

    asked_later(dt.timedelta(days=1))  # as it is where this machine's clock is behind
    dialog.get_by_role("button", name="Approve", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("this machine's clock")
    asked_later(dt.timedelta(days=-1))
    dialog.get_by_role("button", name="Approve", exact=True).click()
    expect(dialog).to_have_count(0)
    with own_desk.service.store.read() as session:
        assert session.exec(select(Approval).where(col(Approval.order_id) == order)).one().state == "approved"


def test_several_orders_are_answered_at_once_by_keys_and_boxes(own_page: Page, own_desk: DeskPage) -> None:
    both = [_asked(own_desk) for _ in range(2)]
    own_desk.open(own_page, "/approvals")
    rows = [own_page.locator(".waiting > li", has_text=short(order)) for order in both]
    dialog = own_page.get_by_role("dialog")
    rows[1].get_by_role("link").first.focus()
    own_page.keyboard.press("d")
    expect(dialog).to_contain_text(short(both[1]))
    own_page.keyboard.press("Escape")
    for row in rows:
        row.get_by_role("checkbox").check()
    own_page.get_by_role("button", name="Deny 2…").click()
    expect(dialog).to_contain_text("Buys together")
    together = dialog.get_by_label("The account after all of them")
    expect(dialog).to_contain_text("Without 2 whose effect is not known now")
    expect(together).to_have_count(0)
    with own_desk.service.store.session() as session:
        for order in both:
            session.get_one(Order, order).symbol = "KO"  # which the replay has, unlike the symbol of before
    expect(together).to_contain_text("after these 2")
    dialog.get_by_label("Reason").fill("too many")
    dialog.get_by_role("button", name="Deny", exact=True).click()
    expect(own_page.get_by_role("status").filter(has_text="the refusal is on record")).to_contain_text(short(both[1]))
    with own_desk.service.store.read() as session:
        found = session.exec(select(Approval).where(col(Approval.order_id).in_(both))).all()
        assert [(one.state, one.why) for one in found] == [("denied", "too many")] * 2


def test_an_order_is_approved_by_the_keyboard_alone(own_page: Page, own_desk: DeskPage) -> None:
    order = _asked(own_desk)
    keys = own_page.keyboard
    keys.press("g")
    keys.press("p")
    row = own_page.locator(".waiting > li", has_text=short(order))
    expect(row).to_be_visible()
    for _ in range(own_page.locator("[data-row]").count()):
        keys.press("j")
        if row.evaluate("one => one.contains(document.activeElement)"):
            break
    keys.press("a")
    dialog = own_page.get_by_role("dialog")
    expect(dialog).to_contain_text(short(order))
    approve = dialog.get_by_role("button", name="Approve", exact=True)
    expect(approve).to_be_enabled()
    for wanted, act in ((dialog.get_by_label("Reason"), lambda: keys.type("as planned")), (approve, lambda: None)):
        for _ in range(20):
            if wanted.evaluate("one => one === document.activeElement"):
                break
            keys.press("Tab")
        expect(wanted).to_be_focused()
        act()
    keys.press("Enter")
    expect(own_page.get_by_role("status").filter(has_text="approved")).to_contain_text(short(order))
    with own_desk.service.store.read() as session:
        found = session.exec(select(Approval).where(col(Approval.order_id) == order)).one()
        assert (found.decided_by, found.why) == ("Ann via the API", "as planned")


def test_a_request_of_a_model_is_shown_as_text_and_denied_with_a_reason(own_page: Page, own_desk: DeskPage) -> None:
    id_, command = new_id(), f"rm -rf / {HOSTILE}"
    detail = {"action": "command", "command": command, "cwd": "/tmp", "reason": None}
    request = ApprovalRequest("command", "thread-1", "turn-1", "item-1", None, detail)
    with own_desk.service.store.session() as session:
        approval_requests.add_request(session, id_, request, Scope(run_id=own_desk.run, role="quick"), 600)
    own_desk.open(own_page, "/approvals")
    row = own_page.locator(".waiting > li", has_text="rm -rf /")
    expect(row).to_contain_text("<img src=x onerror=")
    expect(row).to_contain_text("\u25af")  # what would have turned the direction of the text
    row.get_by_role("button", name="Deny…").click()
    dialog = own_page.get_by_role("dialog")
    deny = dialog.get_by_role("button", name="Deny", exact=True)
    expect(deny).to_be_disabled()
    dialog.get_by_label("Reason").fill("no such thing")
    deny.click()
    expect(row).to_have_count(0)
    expect(own_page).not_to_have_title("owned")
    with own_desk.service.store.read() as session:
        found = session.get_one(RuntimeApproval, id_)
        assert (found.state, found.decided_by, found.why) == ("denied", "Ann via the API", "no such thing")


def test_a_press_on_close_is_refused_or_leads_to_the_run_that_says_what_came_of_it(
    own_page: Page, own_desk: DeskPage
) -> None:
    settings = own_desk.service.processes.settings
    to_next_session(
        own_desk.service.store, own_desk.service.processes.app.desk.settings
    )  # the order at the broker is filled
    with own_desk.service.client() as client:
        symbol = client.get("/accounts/paper").json()["holdings"][0]["symbol"]

    def pressed() -> Locator:
        own_desk.open(own_page, "/")
        held = own_page.get_by_role("region", name="Positions")
        held.get_by_role("row", name=symbol).get_by_role("button", name="Close…").click()
        dialog = own_page.get_by_role("dialog", name=f"Close {symbol}")
        dialog.get_by_role("button", name="Close it").click()
        return dialog

    (settings.home / "HALT").write_text("a fire drill")
    refused = pressed().get_by_role("alert")
    expect(refused).to_contain_text(re.compile(rf"a fire drill .*; {symbol} was not closed"))
    expect(refused).to_contain_text("desk resume --reduce-only")
    own_page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    (settings.home / "HALT").unlink()
    expect(pressed()).to_have_count(0)
    expect(own_page.get_by_role("heading", level=1)).to_contain_text("Close")
    expect(own_page.get_by_text("2010-08-12 is over for it").first).to_be_visible()  # the day of this desk's replay


def test_trading_is_halted_flattened_and_resumed(own_page: Page, own_desk: DeskPage) -> None:
    to_next_session(own_desk.service.store, own_desk.service.processes.app.desk.settings)  # the orders are filled
    own_desk.open(own_page, "/account")
    heading = own_page.get_by_role("heading", level=1)
    expect(heading).to_contain_text("active")
    own_page.get_by_role("button", name="Halt…").click()
    dialog = own_page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("a fire drill")
    dialog.get_by_role("button", name="Halt now").click()
    expect(heading).to_contain_text("halted")
    expect(own_page.locator('section[aria-label="Standing"]')).to_contain_text("a fire drill")
    own_page.get_by_role("button", name="Halt and flatten…").click()
    flatten = dialog.get_by_role("button", name="Halt and flatten", exact=True)
    expect(flatten).to_be_disabled()
    dialog.get_by_label("to go on").fill("flatten paper")
    flatten.click()
    expect(own_page.get_by_text("Closing:")).to_be_visible()
    own_desk.open(own_page, "/runs")
    banner = own_page.get_by_role("region", name="Trading is stopped")
    expect(banner).to_contain_text("HALTED: account paper since")
    expect(banner).to_contain_text("by Ann via the API: halted by a person")
    banner.get_by_role("button", name="Resume…").click()
    dialog.get_by_label("to go on").fill("resume paper")
    dialog.get_by_role("button", name="Resume", exact=True).click()
    expect(banner).to_have_count(0)
    _nothing_is_halted(own_desk)


def test_a_thread_is_forked_and_its_fork_is_asked(own_page: Page, own_desk: DeskPage) -> None:
    own_desk.thaw()  # the last test of this desk: its model answers again
    with own_desk.service.client() as client:
        parent = client.get("/threads", params={"role": "trader"}).json()[0]["thread"]
    own_desk.open(own_page, f"/threads/{parent['thread_id']}")
    fork = own_page.locator('section[aria-label="Fork"]')
    fork.get_by_label("Copy the turns before").fill("9")
    own_page.get_by_label("Model (its own").fill("gpt-5.5")
    fork.evaluate("one => { one.querySelector('form').noValidate = true; }")
    fork.get_by_role("button", name="Fork", exact=True).click()
    expect(fork.get_by_role("alert")).to_contain_text("9")
    expect(own_page.get_by_label("Model (its own")).to_have_value("gpt-5.5")
    fork.get_by_label("Copy the turns before").fill("2")
    fork.get_by_role("button", name="Fork", exact=True).click()
    ask = own_page.locator('section[aria-label="Ask in this fork"]')
    ask.get_by_label("Question").fill("why these symbols?")
    ask.get_by_role("button", name="Ask").click()
    expect(ask.get_by_label("Answer", exact=True)).not_to_be_empty()
    expect(ask.get_by_label("Question")).to_have_value("")
    expect(own_page.locator(".turnlist > li")).to_have_count(2)
    expect(own_page.get_by_text("Fork of").locator("xpath=..")).to_contain_text(short(parent["thread_id"]))


def _asked(desk: DeskPage) -> str:
    with desk.service.store.session() as session:
        order = session.get_one(Order, a_chain(session).order_id)
        preview = session.exec(select(Preview).where(Preview.order_id == order.id)).one()
        order_approvals.request_approval(session, desk.service.processes.settings, order, preview)
        return order.id


def _waiting(desk: DeskPage) -> dict[str, Any]:
    with desk.service.client() as client:
        return next(row for row in client.get("/approvals").json() if row["order"])


def _nothing_is_halted(desk: DeskPage) -> None:
    def active() -> bool:
        with desk.service.client() as client:
            return bool(client.get("/accounts/paper").json()["trading"] == "active")

    wait_for(active, "the account trades again")
