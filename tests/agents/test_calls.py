"""The reader of calls: names and arguments with one meaning, and whatever else a model may write."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.agents.call_arguments import problem_in
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
        **{name: {"type": "object", "properties": {}} for name in ("top_1", "top_2", "top")},
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
        ("[TOOL_CALLS]signals_get[CALL_ID]abc", "signals_get"),
        ("assistantcommentary to=functions.signals_get", "signals_get"),
        ("assistantanalysis to=functions.signals_getjson", "signals_get"),
        ("signals_get_0", "signals_get"),
        ("functions.signals_get:call_1", "signals_get"),
        ("signals_get_call_ab12cd34e", "signals_get"),
        ("fc_123 signals_get", "signals_get"),
        ("chordesk_signals_get", "signals_get"),
        ("mcp-chordesk-signals-get", "signals_get"),
        ("SIGNALS-GET", "signals_get"),
        ("signals_get()", "signals_get"),
        ("</signals_get>", "signals_get"),
        ('{"name": "signals_get"', "signals_get"),
        ("signals_getsignals_get", "signals_get"),
        ("\uff53ignals_get\u200b\n", "signals_get"),
        ("signals get", "signals_get"),
        ('signals_get(symbols=["IBM"])', "signals_get"),
        ("top_3", None),  # of the tools are top_1 and top_2: its number is no counter
        ("order_submit signals_get", None),
        ("news_list.signals_get", None),
        ("delete_signals_get", None),
        ("old_signals_get", None),
        ("signals_get_2026", None),
        ("signals_gets", None),
        ("call_order2 signals_get", None),
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
        ({"symbols": "IBM; GE"}, {"symbols": ["IBM", "GE"]}),
        ({"symbols": "IBM GE\nBRK/B"}, {"symbols": ["IBM", "GE", "BRK/B"]}),
        ({"tickers": ["IBM, GE", ["F"]]}, {"symbols": ["IBM", "GE", "F"]}),
        ({"symbols": "(IBM and 'GE')"}, {"symbols": ["IBM", "GE"]}),
        ({"symbols": ["IBM"], "sessions": "1,000,000"}, {"symbols": ["IBM"], "sessions": 1_000_000}),
        ({"signals_get": {"symbols": ["IBM"]}}, {"symbols": ["IBM"]}),
        # A class of share, an exchange, a name: no two tickers.
        ({"symbols": ["BRK B"]}, {"symbols": ["BRK B"]}),
        ({"symbols": ["AAPL US"]}, {"symbols": ["AAPL US"]}),
        ({"symbols": ["Apple Inc"]}, {"symbols": ["Apple Inc"]}),
        ({"symbols": ["IBM"], "sessions": "1,000"}, {"symbols": ["IBM"], "sessions": "1,000"}),
        ({"symbol": "IBM", "ticker": "GE"}, {"symbol": "IBM", "ticker": "GE"}),
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


@pytest.mark.parametrize(
    "said",
    [
        '{}{"symbols":["IBM"]}',
        '{"symbols":["IBM"]} {"symbols":["IBM"]}',
        '{"symbols":["IBM"]}}',
        '```json\n{"symbols":["IBM"]}\n```',
        '<|message|>{"symbols":["IBM"],}<|call|>',
        "{'symbols': ['IBM'], 'note': null}",
        '{"symbols": ["IBM"], "note": None} // all',
        '{symbols: ["IBM"], /* none */}',
        '{\\"symbols\\":[\\"IBM\\"]}',
        "{\u201csymbols\u201d:[\u201cIBM\u201d]}",
        'symbols=["IBM"]',
        'signals_get(symbols=["IBM"])',
    ],
)
def test_arguments_in_another_notation(said: str) -> None:
    found = json.loads(TOOLS.read(MadeCall("1", "signals_get", said)).arguments)
    assert {key: value for key, value in found.items() if value is not None} == {"symbols": ["IBM"]}


@pytest.mark.parametrize(
    "said",
    [
        '{"symbols":["IBM"]}{"symbols":["GE"]}',
        '{"symbols":["IBM"',
        'news_list(symbols=["IBM"])',
        'I ask for {"symbols":["IBM"]}',
    ],
)
def test_arguments_with_two_meanings_or_none_stay(said: str) -> None:
    assert TOOLS.read(MadeCall("1", "signals_get", said)).arguments == said
    assert ("2 different" in problem_in(said)) is (said.count("}{") == 1)


def test_arguments_within_a_name_are_those_of_the_call_unless_it_has_others() -> None:
    name = 'signals_get(symbols=["IBM"])'
    found = TOOLS.read(MadeCall("1", name, "{}"))
    assert (found.name, json.loads(found.arguments)) == ("signals_get", {"symbols": ["IBM"]})
    other = MadeCall("1", name, '{"symbols":["GE"]}')
    assert TOOLS.read(other) == other


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


@pytest.mark.parametrize(
    "pieces",
    [
        [(0, "a", "order", ""), (0, None, "_submit", ""), (0, None, None, "{}")],
        [(None, None, "order", ""), (None, None, "_submit", ""), (None, None, None, "{}")],
        [(None, "a", "order", ""), (None, "a", "_submit", ""), (None, "a", None, "{}")],
        [(0, "a", "order", "{"), (0, "a", "order_submit", "}")],
    ],
)
def test_a_rogue_name_in_pieces_is_one_call_with_its_whole_name(pieces: list[tuple[Any, ...]]) -> None:
    found = CallPieces()
    for piece in pieces:
        found.add(*piece)
    assert [(call.name, call.arguments) for call in found.calls(TOOLS)] == [("order_submit", "{}")]


def test_the_first_piece_of_a_rogue_name_is_not_the_tool_of_that_name() -> None:
    found = CallPieces()
    for piece in ((0, "a", "top", ""), (0, None, "_movers", ""), (0, None, None, "{}")):
        found.add(*piece)
    assert [call.name for call in found.calls(TOOLS)] == ["top_movers"]


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
