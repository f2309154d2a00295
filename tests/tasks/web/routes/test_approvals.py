"""A person's answer through the service: from the order that waits to the fill, and every answer that comes too late or
to the wrong question."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

import httpx
import pytest
from sqlmodel import col, select

from chordesk.agents.runtime import ApprovalRequest, Scope
from chordesk.models.states import StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Approval, Order
from chordesk.models.tables.runtime import RuntimeApproval
from chordesk.tasks import approval_requests
from chordesk.tools.brokers.protocol import build_broker
from chordesk.tools.market.factory import build_market
from chordesk.tools.orders.accounts import FencingLease
from chordesk.tools.orders.audit import log_path
from tests.builders import a_run, a_step
from tests.stack import wait_for
from tests.tasks.web.kit import Service, service
from tests.tasks.web.test_security import problem
from tests.tools.orders.desk import Desk, action

YES = {"answer": "approve", "by": "Ann Lee"}
NO = {"answer": "deny", "by": "Ann Lee", "why": "enough of it"}
QUESTION = {"id": "size", "header": "Size", "question": "How large?", "options": [], "other": True, "secret": False}


@dataclass(frozen=True, slots=True)
class Waiting:
    """Desk with all orders waiting for a person, and the service. No trade worker, but in the test that starts one."""

    service: Service
    desk: Desk
    client: httpx.Client

    def ask(self, *symbols: str) -> list[str]:
        """Orders that wait from now on; their ids."""
        lease = FencingLease(self.desk.store, "paper", "the test")  # takes the account from its holder
        outcomes = replace(self.desk, lease=lease).run(*(action(symbol) for symbol in symbols))
        assert {outcome.state for outcome in outcomes} == {"approval_pending"}, outcomes
        return [str(outcome.order_id) for outcome in outcomes]

    def state(self, order_id: str) -> str:
        with self.desk.store.read() as session:
            return session.get_one(Order, order_id).state

    def approval(self, order_id: str) -> Approval:
        with self.desk.store.read() as session:
            return session.exec(select(Approval).where(col(Approval.order_id) == order_id)).one()

    def answer(self, id_: str, body: dict[str, str]) -> httpx.Response:
        return self.client.post(f"/approvals/{id_}", json=body)


@pytest.fixture(scope="module")
def waiting() -> Iterator[Waiting]:
    with (
        service(TRADER_LIVE="1", DESK_APPROVAL="manual", DESK_COOLDOWN_HOURS="0") as running,
        running.client() as client,
    ):
        settings = running.processes.settings
        market = build_market(settings)
        broker = build_broker(settings, market, running.store)
        desk = Desk(running.store, settings, market, broker, FencingLease(running.store, "paper", "the test"))
        yield Waiting(running, desk, client)


def test_an_order_goes_from_the_question_to_the_fill(waiting: Waiting) -> None:
    yes, no = waiting.ask("AAPL", "IBM")
    waiting.service.processes.workers("trade")
    listed = {row["order"]["id"]: row for row in waiting.client.get("/approvals").json()}
    assert set(listed) == {yes, no}
    order, approval = listed[yes]["order"], listed[yes]["approval"]
    assert (order["symbol"], order["side"], order["quantity"]) == ("AAPL", "buy", 10.0)
    assert approval["payload_hash"] == waiting.approval(yes).payload_hash
    other = waiting.answer(no, {**YES, "expect": approval["payload_hash"]})
    assert problem(other, 409) == "order_error"
    assert "symbol was AAPL, is IBM" in other.json()["detail"]
    approved = waiting.answer(approval["id"], {**YES, "expect": approval["payload_hash"]})
    assert approved.status_code == 200, approved.text
    assert approved.json() == {
        "approval": approval["id"], "order": yes, "state": "approved", "by": "Ann Lee via the API",
        "notified": True,
    }  # fmt: skip
    wait_for(lambda: waiting.state(yes) == "submitted", "the approved order is sent")
    waiting.desk.next_session()
    waiting.service.processes.end("trade")
    denied = waiting.answer(no, NO)
    assert (denied.status_code, denied.json()["state"], denied.json()["notified"]) == (200, "denied", False)
    assert waiting.state(no) == "denied"
    assert waiting.client.get("/approvals").json() == []
    found = waiting.client.get(f"/orders/{yes}").json()
    assert (found["order"]["state"], found["approval"]["decided_by"]) == ("filled", "Ann Lee via the API")
    assert [fill["quantity"] for fill in found["fills"]] == [10.0]
    lines = [json.loads(line) for line in log_path(waiting.desk.settings).read_text().splitlines()]
    decided = [line["facts"] for line in lines if line["kind"] == "approval_decided"]
    assert [(row["order"], row["by"], row["why"]) for row in decided] == [
        (yes, "Ann Lee via the API", None), (no, "Ann Lee via the API", "enough of it"),
    ]  # fmt: skip


def test_an_answer_that_comes_too_late_is_no_yes(waiting: Waiting) -> None:
    (order,) = waiting.ask("KO")
    with waiting.desk.store.session() as session:
        approval = session.get_one(Approval, waiting.approval(order).id)
        approval.expires_at = utcnow() - dt.timedelta(seconds=1)
        session.add(approval)
    late = waiting.answer(order, YES)
    assert problem(late, 409) == "order_error"
    assert "too late" in late.json()["detail"]
    assert (waiting.state(order), waiting.approval(order).state) == ("denied", "expired")


def test_an_id_that_there_is_not(waiting: Waiting) -> None:
    assert problem(waiting.answer("ffffffff", YES), 404) == "not_found"
    assert problem(waiting.answer("a.b", YES), 404) == "not_found"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"answer": "approve"},
        {"by": "ann"},
        {"answer": "maybe", "by": "ann"},
        {"answer": "deny", "by": "ann"},
        {"answer": "approve", "by": ""},
        {"answer": "approve", "by": "a\nb"},
        {"answer": "approve", "by": "a" * 81},
        {"answer": "approve", "by": "ann", "why": "\x1b[2J"},
        {"answer": "approve", "by": "ann", "payload_hash": "0"},
        {"answer": "deny", "by": "ann", "why": "x", "expect": "0" * 11},
        {"answer": True, "by": "ann"},
        [],
        "approve",
        None,
    ],
)
def test_half_an_answer_is_none(waiting: Waiting, body: object) -> None:
    (order,) = waiting.ask("XOM")
    content, headers = json.dumps(body), {"Content-Type": "application/json"}
    response = waiting.client.post(f"/approvals/{order}", content=content, headers=headers)
    assert problem(response, 422) == "wrong_request"
    assert waiting.state(order) == "approval_pending"
    assert waiting.answer(order, NO).status_code == 200


def test_no_web_page_approves_an_order(waiting: Waiting) -> None:
    """Each of these is what a page in a browser on this machine can send; some even hold the token."""
    (order,) = waiting.ask("PG")
    url, host = f"{waiting.service.url}/approvals/{order}", f"127.0.0.1:{waiting.service.port}"
    token = {"Authorization": f"Bearer {waiting.service.token}"}
    json_type, form = {"Content-Type": "application/json"}, {"Content-Type": "application/x-www-form-urlencoded"}
    evil = {"Origin": "https://evil.example"}
    body = json.dumps(YES)
    tries: list[tuple[dict[str, str], str, int]] = [
        ({**json_type}, body, 401),
        ({**json_type, "Authorization": "Bearer guess"}, body, 401),
        ({**json_type, **token, **evil}, body, 403),
        ({**json_type, **token, "Origin": "null"}, body, 403),
        ({**json_type, **token, "Sec-Fetch-Site": "cross-site"}, body, 403),
        ({**json_type, **token, "Host": "evil.example", "Origin": "http://evil.example"}, body, 421),
        ({**json_type, **token, "Host": f"evil.example:{waiting.service.port}"}, body, 421),
        ({**form, **token, "Host": host}, "answer=approve&by=ann", 415),
        ({"Content-Type": "text/plain", **token}, body, 415),
    ]
    for headers, sent, status in tries:
        problem(httpx.post(url, headers=headers, content=sent), status)
        assert waiting.state(order) == "approval_pending", headers
    assert waiting.client.get(f"/approvals/{order}", params=YES).json()["approval"]["state"] == "pending"
    assert waiting.state(order) == "approval_pending"
    assert waiting.answer(order, NO).status_code == 200


def test_a_request_of_a_model_is_listed_and_answered_once(waiting: Waiting) -> None:
    running, client = waiting.service, waiting.client
    asked(running, "request-1", 60)
    (row,) = client.get("/approvals").json()
    asking = row["approval"]
    assert (asking["kind"], asking["id"], row["what"]) == ("user_input", "request-1", "How large?")
    assert asking["detail"] == {"questions": [QUESTION]}
    unanswered = client.post("/approvals/request-1", json=YES)
    assert problem(unanswered, 409) == "usage_error"
    assert "size: How large?" in unanswered.json()["remedy"]
    answered = client.post("/approvals/request-1", json={**YES, "answers": {"size": ["small"]}})
    assert answered.json() == {
        "approval": "request-1", "order": None, "state": "approved", "by": "Ann Lee via the API", "notified": False,
    }  # fmt: skip
    assert client.get("/approvals").json() == []
    again = client.post("/approvals/request-1", json=NO)
    assert problem(again, 409) == "not_waiting"
    asked(running, "request-2", 0)
    late = client.post("/approvals/request-2", json=NO)
    assert problem(late, 409) == "not_waiting"
    with running.store.read() as session:
        assert session.get_one(RuntimeApproval, "request-1").answers == {"size": ["small"]}
        assert session.get_one(RuntimeApproval, "request-2").state == "expired"


def asked(running: Service, id_: str, seconds: float) -> None:
    request = ApprovalRequest("user_input", "thread-1", "turn-1", "item-1", None, {"questions": [QUESTION]})
    with running.store.session() as session:
        run = a_run(session)
        step = a_step(session, run, state=StepState.RUNNING, attempt=1)
        approval_requests.add_request(session, id_, request, Scope(run.id, step.id, 1, "quick", "ACME"), seconds)


def test_without_redis_the_answer_counts_and_the_lack_of_a_message_is_reported(waiting: Waiting) -> None:
    """Last in this file. The trade worker finds the order by itself, at its next look after Redis is back."""
    (order,) = waiting.ask("WMT")
    waiting.service.processes.end("redis")
    answered = waiting.answer(order, YES)
    assert (answered.status_code, answered.json()["state"], answered.json()["notified"]) == (200, "approved", False)
    assert waiting.state(order) == "approved"
    assert waiting.client.get("/runs").status_code == 200
    assert problem(waiting.client.get("/threads"), 503) == "redis_down", "the registry of threads is there"
