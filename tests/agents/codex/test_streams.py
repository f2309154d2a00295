"""Recorded streams of the real binary through the whole adapter, and through its parts alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from chordesk.agents.codex.events import translate
from chordesk.agents.codex.protocol import KINDS, ApprovalRouter
from chordesk.agents.codex.turns import TurnWatch
from chordesk.agents.pulse import Pulse, TurnLimits
from chordesk.agents.runtime import ApprovalDecision
from chordesk.models.events import Envelope, EventType
from chordesk.models.tables.columns import utcnow
from tests.agents.codex.kit import Kit, ignore, run
from tests.golden import wire
from tests.golden.record import expected_of, replay, stream_of
from tests.golden.scenes import SCENES
from tests.golden.stage import SCOPE, Person, comparable

# Changes without a notification of the app-server: the desk emits their events by itself.
OF_THE_DESK = ("thread", "approval")


@pytest.mark.parametrize("name", SCENES)
def test_a_recorded_stream_comes_to_what_it_came_to(name: str, tmp_path: Path) -> None:
    """The recorded server sends what the real one sent, and ends the scene when the desk sends anything else than then.
    Events, lifecycles, results and what a person was asked are compared as a whole."""

    async def work() -> None:
        seen = await replay(name, SCENES[name], tmp_path)
        assert seen == json.loads(expected_of(name).read_text(encoding="utf-8"))

    run(work())


def test_the_streams_cover_every_end_of_a_turn_and_every_request() -> None:
    types = {event["type"] for name in SCENES for event in _expected(name)["events"]}
    assert types >= {
        EventType.TURN_COMPLETED, EventType.TURN_INTERRUPTED, EventType.TURN_FAILED, EventType.TURN_REFUSED,
        EventType.TURN_ERROR, EventType.TOOL_STARTED, EventType.TOOL_COMPLETED, EventType.ITEM_DELTA,
        EventType.THREAD_RESUMED, EventType.THREAD_FORKED, EventType.APPROVAL_DECIDED,
    }  # fmt: skip
    asked = [request for name in SCENES for request in _expected(name)["asked"]]
    assert {request["kind"] for request in asked} == set(KINDS.values())
    assert {request["approval_id"] is None for request in asked} == {True, False}
    (death,) = _expected("died")["turns"][1:]
    assert death["status"] == "failed"


@pytest.mark.parametrize("name", SCENES)
def test_every_lifecycle_that_begins_ends(name: str) -> None:
    expected = _expected(name)
    for kind, key in (("turns", "turn_id"), ("items", "item_id")):
        last = {one[key]: one["status"] for one in expected[kind]}
        assert "in_progress" not in last.values()
    closed = [one for one in expected["conversations"] if one["closed"]]
    assert len(closed) == len({event["sequence"] for event in expected["events"]}) * _opened(expected)
    assert all(one["active_turn_id"] is None for one in closed)


@pytest.mark.parametrize("name", SCENES)
def test_translator_watch_and_router_alone_make_the_same_of_it(name: str) -> None:
    """No process and no clock: the notifications of the stream, one after the other."""

    async def work() -> None:
        events = await _through_the_parts(name)
        expected = [event for event in _expected(name)["events"] if event["domain"] not in OF_THE_DESK]
        if name == "died":
            assert expected.pop()["payload"]["kind"] == "process_died"
        assert [comparable(one) for one in events] == expected

    run(work())


class Translated:
    def __init__(self) -> None:
        self.envelopes: list[Envelope] = []

    def notified(self, method: str, params: Mapping[str, Any], answer: str | None) -> None:
        self.envelopes += translate(method, params, SCOPE, utcnow(), answer)


async def _through_the_parts(name: str) -> list[Envelope]:
    """A watch for each turn; what the router answers must be what was answered when it was recorded."""
    listener, person = Translated(), Person()
    if name == "question_answered":
        person.decision = ApprovalDecision(approved=True, answers={"size": ["small"]})
    person.decision = ApprovalDecision(approved=False) if name == "command_denied" else person.decision
    asked = {request["kind"] for request in _expected(name)["asked"]}
    answers = {line["id"]: line["result"] for line in _lines(name, wire.TO_SERVER) if "result" in line}
    watch: TurnWatch | None = None
    for message in _lines(name, wire.TO_CLIENT):
        method, params = message.get("method"), message.get("params", {})
        if method is None:
            continue
        if method == "turn/started":
            router = ApprovalRouter(SCOPE, frozenset(asked), person, ignore)
            watch = TurnWatch(Kit(), router, listener.notified, Pulse(TurnLimits()), deltas=True)
            watch.until = asyncio.get_running_loop().time() + 30
        assert watch is not None
        if "id" not in message:
            watch.notify(method, params)
        elif method == "item/tool/call":
            await watch.call_tool(params, _nothing(), {})
        else:
            assert await watch.decide(method, params, None) == answers[message["id"]]
    return listener.envelopes


async def _nothing() -> dict[str, Any]:
    return {}


def _lines(name: str, direction: str) -> Iterator[dict[str, Any]]:
    for line in stream_of(name).read_text(encoding="utf-8").splitlines():
        found = json.loads(line).get(direction)
        if found is not None:
            yield found


def _expected(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(expected_of(name).read_text(encoding="utf-8"))
    return found


def _opened(expected: dict[str, Any]) -> int:
    return sum(1 for event in expected["events"] if event["domain"] == "thread" and event["type"] != "thread.closed")
