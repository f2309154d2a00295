"""The reader of calls: names and arguments with one meaning, and whatever else a model may write."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.agents.call_texts import calls_in, may_be_call
from chordesk.agents.calls import CallPieces, MadeCall, OfferedTools

SYMBOLS = {"type": "array", "items": {"type": "string"}}
PROPERTIES: dict[str, Any] = {
    "symbols": SYMBOLS,
    "sessions": {"type": "integer"},
    "live": {"type": "boolean"},
    "part": {"enum": ["news", "price"]},
    "note": {"type": ["string", "null"]},
}
TOOLS = OfferedTools(
    {
        "signals_get": {"type": "object", "properties": PROPERTIES, "required": ["symbols"]},
        "news_list": {"type": "object", "properties": {"symbols": SYMBOLS}, "required": ["symbols"]},
    }
)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("commentary to=functions.signals_get <|constrain|>json", "signals_get"),
        ("signals_getcommentary", "signals_get"),
        ("functions.signals_get:0", "signals_get"),
        ("mcp__desk__news_list", "news_list"),
        ("newsList", "news_list"),
        ("signals_get<|channel", "signals_get"),
        ("order_submit signals_get", None),
        ("orders.signals_get", None),
        ("signals_get.order_submit", None),
        ("signals_get news_list", None),
        ("signals_get_now", None),
        ("", None),
    ],
)
def test_a_name_means_one_offered_tool_or_none(said: str, meant: str | None) -> None:
    assert TOOLS.named(said) == meant


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ({"symbols": "IBM"}, {"symbols": ["IBM"]}),
        ({"symbols": "IBM, GE"}, {"symbols": ["IBM", "GE"]}),
        ({"symbols": '["IBM"]', "sessions": "20", "live": "True"}, {"symbols": ["IBM"], "sessions": 20, "live": True}),
        ({"symbol": ["IBM"], "sessions": None, "part": "News"}, {"symbols": ["IBM"], "part": "news"}),
        ({"symbols": ["IBM", 5], "note": 7}, {"symbols": ["IBM", "5"], "note": "7"}),
        # What has no one meaning stays, for the tool to name.
        (
            {"symbols": ["IBM"], "sessions": "20 days", "more": 1},
            {"symbols": ["IBM"], "sessions": "20 days", "more": 1},
        ),
        (
            {"symbols": ["IBM"], "sessions": 2.5, "live": "maybe"},
            {"symbols": ["IBM"], "sessions": 2.5, "live": "maybe"},
        ),
    ],
)
def test_arguments_take_the_form_of_the_schema(said: Any, meant: Any) -> None:
    found = TOOLS.read(MadeCall("1", "signals_get", json.dumps(said)))
    assert (json.loads(found.arguments), bool(found.read)) == (meant, said != meant)


@pytest.mark.parametrize(
    ("said", "note"),
    [
        ('{"symbols":["IBM"],"note":"[TOOL_CALLS] <b>as it is</b>"}<|im_end|>', "[TOOL_CALLS] <b>as it is</b>"),
        ('{"symbols":["IBM"],"note":"a \\" <|x|>"}<|call|>', 'a " <|x|>'),
        ('{"symbols":["IBM"],"note":NaN}', None),  # no text
    ],
)
def test_what_stands_within_a_string_stays(said: str, note: str | None) -> None:
    found = TOOLS.read(MadeCall("1", "signals_get", said)).arguments
    assert found == said if note is None else json.loads(found)["note"] == note


def test_a_number_of_too_many_digits_is_no_number() -> None:
    said = json.dumps({"symbols": ["IBM"], "sessions": "9" * 5000})
    assert TOOLS.read(MadeCall("1", "signals_get", said)) == MadeCall("1", "signals_get", said)


@pytest.mark.parametrize(("within", "meant"), [("signals_get", True), ("order_submit", False), ("news_list", False)])
def test_arguments_of_another_tool_are_not_those_of_the_one_that_is_called(within: str, meant: bool) -> None:
    said = json.dumps({"name": within, "arguments": {"symbols": ["IBM"]}})
    found = json.loads(TOOLS.read(MadeCall("1", "signals_get", said)).arguments)
    assert found == ({"symbols": ["IBM"]} if meant else json.loads(said))


MARKS = (
    "<tool_call>",
    "</tool_call>",
    "<function=signals_get>",
    "</function>",
    "<parameter=symbols>",
    "[TOOL_CALLS]",
    "```",
    "<|python_tag|>",
    '{"name":"signals_get","arguments":',
    '{"symbols":["IBM"]}',
    "}",
    "[",
    "]",
    "signals_get(",
    ")",
    "\n",
    "<|channel|>commentary to=",
    "<|message|>",
    "signals_get",
    "Action: ",
    "Action Input: ",
    " ",
    '"',
    "order_submit",
    ",",
)


@given(st.lists(st.sampled_from(MARKS) | st.text(max_size=5), max_size=14).map("".join))
def test_whatever_is_written_is_calls_or_none(text: str) -> None:
    found = calls_in(text, TOOLS)
    assert found is None or all(call.name in TOOLS.schemas or TOOLS.named(call.name) is None for call in found.calls)
    assert isinstance(may_be_call(text), bool)
    read = TOOLS.read(MadeCall("1", "signals_get", text))
    assert read.read or read.arguments == text


PIECE = st.tuples(
    st.none() | st.integers(0, 2) | st.text(max_size=2),
    st.none() | st.sampled_from("ab"),
    st.none() | st.sampled_from(["signals", "_get", "signals_get", "news_list", "halt"]),
    st.none() | st.sampled_from(["{}", '{"symbols":', '["IBM"]}', '{"symbols":["IBM"]}', "x"]),
)


@given(st.lists(PIECE, max_size=6))
def test_no_piece_of_a_call_is_lost(given_pieces: list[tuple[Any, ...]]) -> None:
    pieces = CallPieces()
    for piece in given_pieces:
        pieces.add(*piece)
    assert bool(pieces.calls(TOOLS)) is bool(given_pieces)
    names = "".join(call.name for call in pieces.calls(TOOLS))
    assert "halt" not in [piece[2] for piece in given_pieces] or "halt" in names or len(given_pieces) > 1
