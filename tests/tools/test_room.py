"""Answers of tools that have to fit what a model's context has left."""

from __future__ import annotations

import asyncio

from chordesk.agents.roles import ROLES
from chordesk.tools.market.replay.market import ReplayMarket
from chordesk.tools.registry import ToolAnswer
from chordesk.tools.toolsets import LEFT_OUT, Room, TurnTools, text_of, tokens_of
from tests.tools.conftest import MakeContext

SCREENER = ROLES["screener_technical"].tools
ASKED = {"symbols": ["AAPL", "IBM", "XOM", "GE", "JPM", "BAC", "WMT", "PG", "T", "KO", "MRK", "CVX"]}


def test_answers_are_shortened_to_half_of_what_is_left(make_context: MakeContext, market: ReplayMarket) -> None:
    room, answers = Room(4_000), list[ToolAnswer]()
    tools = TurnTools(SCREENER, make_context(market), 30, lambda _, answer: answers.append(answer), room=room)
    first = asyncio.run(tools.call("technicals_get", ASKED))
    assert first.has_data
    assert first.payload[LEFT_OUT]["technicals"]["of"] == 12
    assert len(first.payload["technicals"]) == 12 - first.payload[LEFT_OUT]["technicals"]["rows"]
    assert tokens_of(first.text()) <= 2_000
    left = room.left
    assert left >= 1_900
    second = asyncio.run(tools.call("signals_get", ASKED))
    assert tokens_of(second.text()) <= left / 2
    assert answers == [first, second], "what the model saw is what is recorded"


def test_without_room_for_a_row_the_call_fails_and_says_what_to_do(
    make_context: MakeContext, market: ReplayMarket
) -> None:
    tools = TurnTools(SCREENER, make_context(market), room=Room(150))
    answer = asyncio.run(tools.call("technicals_get", {"symbols": ["IBM", "AAPL"]}))
    assert (answer.success, answer.has_data) == (False, False)
    assert "tokens, and the model's context has room for 55: ask for less, or answer now" in answer.payload["error"]


def test_calls_at_once_share_the_room(make_context: MakeContext, market: ReplayMarket) -> None:
    room = Room(6_000)
    tools = TurnTools(SCREENER, make_context(market), room=room)

    async def at_once() -> list[ToolAnswer]:
        return list(await asyncio.gather(*(tools.call("technicals_get", ASKED) for _ in range(4))))

    answers = asyncio.run(at_once())
    assert sum(tokens_of(text_of(one.payload)) for one in answers) < 6_000
    assert room.left > 0
