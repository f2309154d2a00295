"""Recorded streams of the real binary through the whole adapter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chordesk.agents.codex.protocol import KINDS
from chordesk.models.events import EventType
from tests.golden.record import expected_of, replay
from tests.golden.scenes import SCENES


@pytest.mark.parametrize("name", SCENES)
async def test_a_recorded_stream_comes_to_what_it_came_to(name: str, tmp_path: Path) -> None:
    """The recorded server sends what the real one sent, and ends the scene when the desk sends anything else than then.
    Events, lifecycles, results and what a person was asked are compared as a whole."""
    seen = await replay(name, SCENES[name], tmp_path)
    assert seen == json.loads(expected_of(name).read_text(encoding="utf-8"))


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


def _expected(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(expected_of(name).read_text(encoding="utf-8"))
    return found


def _opened(expected: dict[str, Any]) -> int:
    return sum(1 for event in expected["events"] if event["domain"] == "thread" and event["type"] != "thread.closed")
