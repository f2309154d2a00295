"""The reader of calls: names and arguments with one meaning, and whatever else a model may write."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.agents.calls.call_arguments import problem_in
from chordesk.agents.calls.call_reader import CallPieces, MadeCall, OfferedTools
from chordesk.agents.calls.call_texts import calls_in, may_be_call

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


CALL = '{"name":"signals_get","arguments":{"symbols":["IBM"]}}'
GIVEN = '{"symbols":["IBM"]}'
TEXTS = {
    "flat": 'signals_get(symbols=["IBM"]);',
    "a code span": '`signals_get(symbols=["IBM"])`',
    "labels": 'signals_get(symbols: ["IBM"])',
    "by position": 'signals_get(["IBM"])',
    "an object in brackets": f"signals_get({GIVEN})",
    "a name and JSON": f"functions.signals_get\n{GIVEN}",
    "a name and a fence": f"signals_get\n```json\n{GIVEN}\n```",
    "printed": '```tool_code\nprint(default_api.signals_get(symbols=["IBM"]))\n```',
    "assigned": '```python\nfound = signals_get(symbols=["IBM"], live=true)\nprint(found)\n```',
    "invoke": "<invoke name='signals_get'><parameter name='symbols'>[\"IBM\"]</parameter></invoke>",
    "a space before the tags": f'<x:function_calls><x:invoke name="signals_get">{GIVEN}</x:invoke></x:function_calls>',
    "DSML": '<\uff5cDSML\uff5cinvoke name="signals_get"><\uff5cDSML\uff5cparameter name="symbols" string="false">'
    '["IBM"]</\uff5cDSML\uff5cparameter></\uff5cDSML\uff5cinvoke>',
    "a tag of the tool": "<signals_get><symbols>IBM</symbols></signals_get>",
    "elements": f"<tool_use><name>signals_get</name><arguments>{GIVEN}</arguments></tool_use>",
    "its end alone": f"{CALL}\n</tool_call>",
    "opened twice": f"<tool_call>\n{CALL}\n<tool_call>",
    "a brace too few": f"<tool_call>{CALL[:-1]}</tool_call>",
    "Python's quotes": f"<tool_call>{CALL.replace(chr(34), chr(39))}</tool_call>",
    "flat JSON": '<tool_call>{"name":"signals_get","symbols":["IBM"]}</tool_call>',
    "[TOOL_CALLS] with an id": f"[TOOL_CALLS]signals_get[CALL_ID]abc123456[ARGS]{GIVEN}",
    "half a mark": f"TOOL_CALLS] [{CALL}]",
    "DeepSeek": f"<\uff5ctool\u2581calls\u2581begin\uff5c><\uff5ctool\u2581call\u2581begin\uff5c>signals_get"
    f"<\uff5ctool\u2581sep\uff5c>{GIVEN}<\uff5ctool\u2581call\u2581end\uff5c><\uff5ctool\u2581calls\u2581end\uff5c>"
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "DeepSeek in ASCII": f"<|tool_call_begin|>signals_get<|tool_sep|>{GIVEN}<|tool_call_end|>",
    "channels without tokens": f"analysisI look.assistantcommentary to=functions.signals_get json{GIVEN}",
    "Gemma": 'call:signals_get{symbols:<|"|>IBM<|"|>}'.join(("<|tool_call>", "<tool_call|>")),
    "Llama": f"<|start_header_id|>assistant<|end_header_id|>\n\n{CALL.replace('arguments', 'parameters')}<|eot_id|>",
    "parts of a message": f'[{{"type":"text","text":"I"}},{{"type":"tool_use",{CALL[1:]}]',
    "by the name": f'{{"signals_get":{GIVEN}}}',
    "tool and args": f'{{"tool":"signals_get","args":{GIVEN}}}',
    "a whole message": f'{{"role":"assistant","content":null,"tool_calls":[{{"type":"function","function":{CALL}}}]}}',
    "behind reasoning": f"<think>news_list() is no help.</think>\n{CALL}",
    "behind its end": f"It is clear.</think>{CALL}",
    "Action": 'Thought: I look.\nAction: signals_get(symbols=["IBM"])',
}


@pytest.mark.parametrize("form", TEXTS)
def test_a_whole_text_that_is_a_call(form: str) -> None:
    found = calls_in(TEXTS[form], TOOLS)
    assert found is not None
    ((name, arguments),) = [(call.name, json.loads(call.arguments)) for call in found.calls]
    assert (name, arguments["symbols"]) == ("signals_get", ["IBM"])


def test_several_calls_in_one_text() -> None:
    other = CALL.replace("IBM", "GE")
    for text in (
        f"<tool_call>\n{CALL}\n</tool_call>\n<tool_call>\n{other}\n</tool_call>",
        f"<tool_call>{CALL}\n{other}</tool_call>",
        f"```json\n{CALL}\n```\n```json\n{other}\n```",
        f"{CALL};{other}",
        'signals_get(symbols=["IBM"])\nsignals_get(symbols=["GE"])',
    ):
        found = calls_in(text, TOOLS)
        assert found is not None, text
        assert [json.loads(call.arguments)["symbols"] for call in found.calls] == [["IBM"], ["GE"]], text


@pytest.mark.parametrize(
    "text",
    [
        'I would call signals_get(symbols=["IBM"]) now.',
        f"<tool_call>{CALL}</tool_call> So it is fine.",
        f"This is how:\n```json\n{CALL}\n```",
        f"A mention of tool_calls: [{CALL}]",
        "signals_get",
        "signals_get is useful",
        'signals_get(symbols=["IBM"])\norder_submit(symbol="IBM")',
        'max(["IBM"])',
        f"<think>{CALL}</think>There is nothing.",
        '{"signals_get":"useful"}',
        '{"type":"function","function":{"name":"signals_get","parameters":{"type":"object","properties":{"symbols":{}}}}}',
    ],
)
def test_a_text_that_is_no_call(text: str) -> None:
    assert calls_in(text, TOOLS) is None


def test_a_text_that_begins_as_an_offered_tool_may_be_a_call_yet() -> None:
    assert may_be_call("functions.signals", TOOLS)
    assert not may_be_call("Signals are", TOOLS)


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
