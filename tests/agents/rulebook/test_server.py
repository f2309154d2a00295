"""The wire: events, errors, what of a thread counts."""

from __future__ import annotations

import itertools
import json
from typing import Any

import httpx
import pytest

from chordesk.agents.rulebook.cases import Case, Payload
from chordesk.agents.rulebook.policies import POLICIES
from chordesk.agents.rulebook.server import build_server
from chordesk.models.errors import SettingError
from tests.agents.rulebook.market import CALM, Desk
from tests.agents.rulebook.turns import ask, converse, events, offered, user

SUBJECT = {"symbol": "AA", "instrument": "equity", "screenTheses": [], "constraints": {}, "memory": None}


def body(**changes: Any) -> dict[str, Any]:
    """A request that is answered; a change to None takes the key away."""
    tools = offered(["signals_get"])
    whole = {"model": "gpt-5.5", "instructions": "Role: quick\nx", "input": [ask(SUBJECT)], "tools": tools, **changes}
    return {key: value for key, value in whole.items() if value is not None}


def test_a_tool_call_is_a_stream_of_three_events(http: httpx.Client) -> None:
    answer = http.post("/responses", json=body())
    assert answer.headers["content-type"].startswith("text/event-stream")
    created, item, done = events(answer)
    assert [created[0], item[0], done[0]] == ["response.created", "response.output_item.done", "response.completed"]
    call = item[1]["item"]
    assert (call["type"], call["name"]) == ("function_call", "signals_get")
    assert json.loads(call["arguments"]) == {"symbols": ["AA"]}
    assert done[1]["response"]["output"] == [call]
    assert created[1]["response"]["id"] == done[1]["response"]["id"]


@pytest.mark.parametrize(
    ("changes", "code", "named"),
    [
        ({"instructions": None}, "no_role", "Role: <key>"),
        ({"instructions": "You are quick"}, "no_role", "You are quick"),
        ({"instructions": "Role: astrologer"}, "unknown_role", "astrologer"),
        ({"input": None}, "invalid_input", "list"),
        ({"input": "hello"}, "invalid_input", "str"),
        ({"input": []}, "no_subject", "subject"),
        ({"input": [user("no block here")]}, "no_subject", "subject"),
        ({"input": [user("```subject\n{oops\n```")]}, "invalid_subject", "JSON"),
        ({"input": [user("```subject\n[1]\n```")]}, "invalid_subject", "object"),
        ({"text": {"format": {"type": "json_schema"}}}, "invalid_schema", "schema"),
    ],
)
def test_a_bad_request_names_the_fault(http: httpx.Client, changes: dict[str, Any], code: str, named: str) -> None:
    answer = http.post("/responses", json=body(**changes))
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["code"] == code
    assert named in error["message"]


def test_only_the_latest_subject_and_what_follows_counts(http: httpx.Client) -> None:
    """A kept thread: the turn before asked of another symbol and got an answer that would reject."""
    desk = Desk()
    desk.signals = {"OLD": {**CALM, "rsi14": 95.0}, "AA": CALM}
    old = converse(http, "quick", [ask({**SUBJECT, "symbol": "OLD"})], desk.tools("signals_get"))
    assert old.answer["verdict"] == "REJECT"
    new = converse(http, "quick", [*old.items, ask(SUBJECT)], desk.tools("signals_get"))
    assert new.calls == [("signals_get", {"symbols": ["AA"]})]
    assert new.answer["verdict"] == "CONFIRMED"
    assert "OLD" not in new.answer["summary"]


def test_a_repair_message_gets_the_answer_again_without_a_call(http: httpx.Client) -> None:
    desk = Desk()
    desk.signals = {"AA": {**CALM, "rsi14": 95.0}}
    first = converse(http, "quick", [ask(SUBJECT)], desk.tools("signals_get"))
    again = converse(http, "quick", [*first.items, user("Your answer does not fit.")], desk.tools("signals_get"))
    assert again.calls == []
    assert again.answer == first.answer


@pytest.mark.parametrize("role", sorted(POLICIES))
def test_output_that_is_no_json_is_reported_as_failed(http: httpx.Client, role: str) -> None:
    """Whatever the tools answer, every role ends with an answer; validators name the tool that failed."""
    subject = {"symbol": "AA", "symbols": ["AA"], "verdicts": [{"symbol": "AA", "rating": "BUY", "confidence": "high"}]}
    spoiled = ["", "[]", '{"error":"took too long","success":false}']
    texts = itertools.cycle(spoiled)
    items = [ask(subject)]
    for _ in range(6):
        request = body(instructions=f"Role: {role}", input=items, tools=offered(Desk().tools()))
        item = events(http.post("/responses", json=request))[1][1]["item"]
        items.append(item)
        if item["type"] == "message":
            break
        items.append({"type": "function_call_output", "call_id": item["call_id"], "output": next(texts)})
    assert items[-1]["type"] == "message"
    answer = json.loads(items[-1]["content"][0]["text"])
    if "verdict" in answer:
        assert answer["verdict"] == "CAUTION"
        assert answer["confidence"] == "low"
        assert "failed" in answer["summary"]


def test_only_loopback_is_served() -> None:
    for host in ("0.0.0.0", "example.org", "::"):
        with pytest.raises(SettingError, match="loopback"):
            build_server(host)
    assert build_server("::1").config.host == "::1"


def test_a_policy_that_fails_is_named_and_not_tried_again(http: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(case: Case) -> Payload:
        return {"verdict": case.subject["nowhere"]}

    monkeypatch.setitem(POLICIES, "faulty", faulty)
    answer = http.post("/responses", json=body(instructions="Role: faulty"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "policy_failed")
    assert answer.json()["error"]["message"].startswith("the policy of the role faulty: KeyError: 'nowhere' (")
