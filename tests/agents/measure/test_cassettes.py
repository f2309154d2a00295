"""Kept turns: found by what the model saw, played in the ids of now, and missed by name."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import orjson
import pytest

from chordesk.agents.measure.cassettes import MISS, PLAYED, CassetteRuntime, Shelf
from chordesk.agents.runtime import ConversationSpec, Runtime, Scope, TurnResult
from chordesk.models.answers import Failure
from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.tools.model_tools.signals import SIGNALS_GET
from chordesk.tools.registry import ToolAnswer, ToolSpec
from tests.databases import make_database
from tests.fakes.runtime import FakeRuntime, FakeTurn

SCHEMA = {"type": "object"}
KEY = "sk-" + "of-the-provider-1"
CALL = ("signals_get", {"symbols": ["IBM"]})


class Tools:
    """Tools whose answers have an id to be cited by, an id and a moment of their run. close: the figure in them."""

    def __init__(self, tag: str, close: float = 120.0) -> None:
        self.called: list[Any] = []
        self._tag, self._close = tag, close

    def specs(self) -> Sequence[ToolSpec]:
        return (SIGNALS_GET,)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        self.called.append((name, arguments))
        of_run = {"run": self._tag.encode().hex() * 4, "at": f"2026-11-27T06:{len(self.called):02}:01.123456+00:00"}
        payload = {"cite": f"{self._tag}-{'abc'[len(self.called) - 1]}", **of_run, "close": self._close}
        return ToolAnswer(name, True, payload, True, True, 0.0)


class Desk:
    """A shelf, and turns on it."""

    def __init__(self, store: Store, home: Path) -> None:
        self.shelf, self._home = Shelf(store), home

    def turns(
        self,
        mode: Literal["record", "replay", "auto"],
        tools: Tools,
        *texts: str,
        behind: Runtime | None = None,
        home: str = "",
        **spec: Any,
    ) -> list[TurnResult]:
        settings = Settings(home=self._home / home, provider_key=KEY, provider="endpoint", provider_url="http://x/v1")
        runtime = CassetteRuntime("codex", behind, mode, self.shelf, settings)
        scope = Scope(f"run-of-{tools._tag}", "step", 1, "quick", "IBM")
        kept = {"role": "quick", "model": "big-1", "base_instructions": "Role: quick\nLook.", **spec}
        asked = ConversationSpec(subject="IBM", keep=True, tools=tools, toolset_hash="", scope=scope, **kept)

        async def all_of_them() -> list[TurnResult]:
            async with runtime.conversation(asked, asyncio.get_running_loop().time() + 60) as conversation:
                return [await conversation.turn(text, SCHEMA, {}) for text in texts]

        return asyncio.run(all_of_them())


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    url = f"sqlite:///{tmp_path / 'desk.db'}"
    make_database(url)
    store = Store(url)
    yield Desk(store, tmp_path)
    store.close()


def test_a_turn_is_played_in_the_ids_of_now_whatever_those_of_then_were(desk: Desk) -> None:
    """The answer names a tool's answer, and the run by its id; another home is another folder in the text."""
    run = b"hhtm".hex() * 4
    model = FakeRuntime(turns=_turns(FakeTurn(f'{{"source":"hhtm-a","run":"{run}"}}', (CALL,))))
    text = f'Look at {desk._home}/one/notes. Earlier: "qqqq-b" of backtest-{"1" * 12}. The key is {KEY}.'
    (asked,) = desk.turns("record", Tools("hhtm"), text, behind=model, home="one")
    assert asked.way is None
    again = Tools("udmf")
    (played,) = desk.turns("replay", again, _elsewhere(text), home="two")
    assert orjson.loads(played.text) == {"source": "udmf-a", "run": b"udmf".hex() * 4}
    assert (played.status, played.usage, again.called) == ("completed", asked.usage, [CALL])
    assert str(played.way).startswith(PLAYED)
    assert played.cost_usd == 0.0
    (kept,) = desk.shelf.near("quick", "IBM")
    assert not any(secret in kept.model_dump_json() for secret in (KEY, str(desk._home)))


def _elsewhere(text: str) -> str:
    return text.replace("/one", "/two").replace("qqqq", "rrrr").replace("1" * 12, "a2" * 6)


@pytest.mark.parametrize(
    ("change", "text", "close", "what"),
    [
        ({}, "Look at GE.", 120.0, "its text was 'Look at IBM.' and is 'Look at GE.'"),
        ({"model": "big-2"}, "Look at IBM.", 120.0, "its model was 'big-1' and is 'big-2'"),
        ({"effort": "high"}, "Look at IBM.", 120.0, "its effort was 'None' and is 'high'"),
        (
            {"base_instructions": "Role: quick\nJudge."},
            "Look at IBM.",
            120.0,
            "its instructions was 'Role: quick\\nLook.'",
        ),
        ({}, "Look at IBM.", 121.5, "answer 1 of its tools, of signals_get, was"),
        ({"role": "risk", "base_instructions": "Role: risk\nLook."}, "Look at IBM.", 120.0, "no turn of risk is kept"),
    ],
)
def test_a_miss_names_the_first_difference_to_the_nearest(
    desk: Desk, change: dict[str, Any], text: str, close: float, what: str
) -> None:
    desk.turns("record", Tools("hhtm"), "Look at IBM.", behind=FakeRuntime(turns=_turns(FakeTurn("{}", (CALL,)))))
    (missed,) = desk.turns("replay", Tools("udmf", close), text, **change)
    assert missed.failure is not None
    assert (missed.status, missed.failure.kind, missed.failure.retryable) == ("failed", MISS, False)
    assert what in missed.failure.message


def test_auto_asks_the_model_for_what_is_not_kept_and_calls_no_tool_twice(desk: Desk) -> None:
    model = FakeRuntime(turns=_turns(FakeTurn('{"n":1}', (CALL,)), FakeTurn('{"n":2}', (CALL,))))
    for tag, close, n in (("hhtm", 120.0, 1), ("udmf", 120.0, 1), ("kkkk", 130.0, 2), ("zzzz", 130.0, 2)):
        tools = Tools(tag, close)
        (result,) = desk.turns("auto", tools, "Look at IBM.", behind=model)
        assert (orjson.loads(result.text), len(model.prompts), tools.called) == ({"n": n}, n, [CALL])


def test_a_repaired_answer_is_played_with_its_repair_and_a_broken_conversation_is_not_kept(desk: Desk) -> None:
    texts = ("Look at IBM.", "That does not fit: again.")
    failed = FakeTurn(failure=Failure(kind="stream_cut", retryable=True, message="cut"))
    model = FakeRuntime(turns=_turns(FakeTurn("no JSON"), failed, FakeTurn("no JSON"), FakeTurn('{"n":2}')))
    desk.turns("record", Tools("hhtm"), *texts, behind=model)
    assert desk.shelf.near("quick", "IBM") == []
    desk.turns("record", Tools("hhtm"), *texts, behind=model)
    assert [one.text for one in desk.turns("replay", Tools("udmf"), *texts)] == ["no JSON", '{"n":2}']
    # Asked for another repair, a model is told what was played to it.
    other = FakeRuntime(turns=_turns(FakeTurn('{"n":3}')))
    assert [one.text for one in desk.turns("auto", Tools("kkkk"), texts[0], "Shorter.", behind=other)] == [
        "no JSON",
        '{"n":3}',
    ]
    assert other.prompts[0].text == "Look at IBM.\n\nYou answered:\nno JSON\n\nShorter."


def _turns(*turns: FakeTurn) -> deque[FakeTurn]:
    return deque(turns)
