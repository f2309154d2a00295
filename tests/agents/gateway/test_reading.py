"""Answers of chat completions put together from any pieces, and reasoning kept apart from them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.agents.gateway.stream import LEAST_BOUND, ChatAnswer, added, usage_of, with_own_ids
from chordesk.agents.gateway.translation import fits
from chordesk.agents.providers.completions import Apart
from tests.fakes.local_server import value_of

JSON = '{"a":1}'
# The text, whether it may begin within its reasoning, the reasoning, the answer.
TEXTS: Mapping[str, tuple[str, bool, str, str]] = {
    "none": (JSON, False, "", JSON),
    "none where some was likely": (JSON, True, "", JSON),
    "prose": ("It rose < 3 % [so].", False, "", "It rose < 3 % [so]."),
    "prose where some was likely": ("It rose.", True, "", "It rose."),
    "tags": (f"<think>hm\nhm</think>\n\n{JSON}", False, "hm\nhm", JSON),
    "empty tags": (f"<think>\n\n</think>\n\n{JSON}", False, "\n\n", JSON),
    "other tags": (f"[THINK]hm[/THINK]{JSON}", False, "hm", JSON),
    "a tag in the answer": ('{"a":"<think>"}', False, "", '{"a":"<think>"}'),
    "an end in the answer": ('{"a":"</think>"}', False, "", '{"a":"</think>"}'),
    "a beginning in the prompt": (f"hm</think>{JSON}", True, "hm", JSON),
    "a beginning in the prompt, unforeseen": (f"hm</think>{JSON}", False, "", JSON),
    "no end": ("<think>hm", False, "hm", ""),
    "channels": (
        f"<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>{JSON}<|return|>",
        False, "hm", JSON,
    ),
    "a call in a channel": (
        "<|start|>assistant<|channel|>commentary to=functions.x <|constrain|>json<|message|>{}<|call|>",
        False, "{}", "",
    ),
    "channels without their tokens": (f"analysisIt is so.assistantfinal{JSON}", False, "", JSON),
    "half a tag": ("<thin", False, "", "<thin"),
    "nothing": ("", True, "", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_reasoning_is_kept_apart_in_pieces_of_any_size(name: str, size: int) -> None:
    text, hidden, reasoning, answer = TEXTS[name]
    apart = Apart(hidden)
    pieces = [piece for at in range(0, len(text), size) for piece in apart.feed(text[at : at + size])]
    pieces += apart.end()
    assert "".join(told for reasoned, told in pieces if reasoned) == reasoning
    assert apart.answer == answer


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def _odd(**shapes: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A mapping with some of its names, each of its own shape or of any."""
    return st.fixed_dictionaries({}, optional={name: shape | ANYTHING for name, shape in shapes.items()})


COUNTS = st.integers(-(2**53), 2**53)
FUNCTION = _odd(name=st.text(max_size=4), arguments=st.text(max_size=8))
DELTA = _odd(
    content=st.text(max_size=12), reasoning_content=st.text(max_size=4), reasoning=st.text(max_size=4),
    tool_calls=st.lists(_odd(index=st.integers(0, 2), id=st.text(max_size=2), function=FUNCTION), max_size=3),
    function_call=FUNCTION, refusal=st.text(max_size=4),
)  # fmt: skip
CHUNK = _odd(
    choices=st.lists(
        _odd(index=st.integers(0, 1), delta=DELTA, message=DELTA, finish_reason=st.text(max_size=4)), max_size=2
    ),
    usage=_odd(prompt_tokens=COUNTS, completion_tokens=COUNTS, prompt_tokens_details=ANYTHING),
    model=st.text(max_size=4),
)


@given(st.lists(CHUNK | ANYTHING, max_size=6), st.booleans())
def test_whatever_comes_is_read(chunks: list[Any], thinks: bool) -> None:
    answer = ChatAnswer(thinks=thinks)
    for chunk in chunks:
        for piece in answer.take(orjson.loads(orjson.dumps(chunk))):
            assert isinstance(piece.text, str)
    answer.end()
    usage = usage_of(answer.usage, 100, 1000)
    assert usage is None or (0 < usage["input_tokens"] <= 100 + LEAST_BOUND and usage["output_tokens"] <= 1000)
    ids = [call.id for call in with_own_ids(answer.calls, {"a"})]
    assert len({*ids, "a"}) == len(ids) + 1


def _deltas(*deltas: Mapping[str, Any]) -> ChatAnswer:
    answer = ChatAnswer()
    for delta in deltas:
        answer.take({"choices": [{"index": 0, "delta": delta}]})
    return answer


def _piece(index: int | None, id_: str | None, name: str | None, arguments: Any) -> dict[str, Any]:
    call: dict[str, Any] = {"function": {"arguments": arguments}}
    call |= {} if index is None else {"index": index}
    call |= {} if id_ is None else {"id": id_}
    call["function"] |= {} if name is None else {"name": name}
    return {"tool_calls": [call]}


CALLS: Mapping[str, tuple[list[dict[str, Any]], list[tuple[str, str]]]] = {
    "by index": (
        [_piece(0, "a", "x", ""), _piece(1, "b", "y", ""), _piece(0, None, None, "{}"), _piece(1, None, None, "[]")],
        [("x", "{}"), ("y", "[]")],
    ),
    "without index": (
        [_piece(None, "a", "x", '{"a"'), _piece(None, None, None, ":1}"), _piece(None, "b", "y", "{}")],
        [("x", '{"a":1}'), ("y", "{}")],
    ),
    "all of index 0": ([_piece(0, "a", "x", "{}"), _piece(0, "b", "y", "{}")], [("x", "{}"), ("y", "{}")]),
    "all of one id": ([_piece(0, "a", "x", "{}"), _piece(1, "a", "y", "{}")], [("x", "{}"), ("y", "{}")]),
    "the name again": ([_piece(0, "a", "x", '{"a":'), _piece(0, "a", "x", "1}")], [("x", '{"a":1}')]),
    "an object": ([_piece(0, "a", "x", {"a": 1})], [("x", '{"a":1}')]),
    "null": ([_piece(0, "a", "x", None)], [("x", "")]),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_are_put_together(name: str) -> None:
    deltas, calls = CALLS[name]
    assert [(call.name, call.arguments) for call in _deltas(*deltas).calls] == calls


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_reasoning_in_a_field_of_its_own_is_no_answer(key: str) -> None:
    answer = _deltas({key: "It is so, I think."}, {"content": JSON})
    answer.end()
    assert (answer.text, answer.reasoned) == (JSON, True)


def test_parts_of_a_content_are_read() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    answer = _deltas({"content": [thinking, {"type": "text", "text": JSON}]})
    answer.end()
    assert (answer.text, answer.reasoned) == (JSON, True)


def test_tokens_of_two_calls_are_added() -> None:
    told = {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
    one = usage_of(told, 100, 100)
    both = added(one, one)
    assert both is not None
    assert (both["input_tokens"], both["input_tokens_details"], both["total_tokens"]) == (20, {"cached_tokens": 8}, 24)
    assert added(one, None) is None


SCHEMA = {
    "type": "object",
    "properties": {
        "verdict": {"enum": ["BUY", "SELL"]},
        "why": {"type": ["string", "null"]},
        "parts": {"type": "array", "items": {"$ref": "#/$defs/Part"}},
    },
    "required": ["verdict", "why", "parts"],
    "additionalProperties": False,
    "$defs": {
        "Part": {
            "anyOf": [
                {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]},
                {"type": "integer"},
            ]
        }
    },
}


@given(st.randoms(use_true_random=False))
def test_what_a_schema_makes_fits_it(chance: Any) -> None:
    assert fits(SCHEMA, value_of(SCHEMA, chance))


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        '{"verdict":"HOLD","why":"","parts":[]}',
        '{"verdict":"BUY","why":1,"parts":[]}',
        '{"verdict":"BUY","why":null,"parts":[true]}',
        '{"verdict":"BUY","why":null,"parts":[{"n":"1"}]}',
        '{"verdict":"BUY","why":null}',
        '{"verdict":"BUY","why":null,"parts":[],"more":1}',
    ],
)
def test_what_has_another_form_does_not(text: str) -> None:
    assert not fits(SCHEMA, json.loads(text))
