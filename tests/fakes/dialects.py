"""One call of `quotes_get` for ACME, or the answer FINAL, as servers and models say it in their dialects."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.fakes.local_server import Raw, Reply, Says

TOOL, GIVEN = "quotes_get", '{"symbols":["ACME"]}'
CALL = f'{{"name":"{TOOL}","arguments":{GIVEN}}}'
ANSWER = '{"ok":true}'
JSON = "application/json"


def chunk(delta: Mapping[str, Any], finish: str | None = None, model: str = "small") -> str:
    return json.dumps({"model": model, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def piece(name: str | None = None, arguments: Any = None, id_: str | None = None, index: Any = None) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    own = {key: value for key, value in (("id", id_), ("index", index)) if value is not None}
    return {"tool_calls": [{**own, "type": "function", "function": function}]}


def stream(*chunks: str, end: str = "\n", done: bool = True, kind: str = "text/event-stream") -> Raw:
    lines = [f"data: {one}{end}{end}" for one in (*chunks, *(["[DONE]"] if done else []))]
    return Raw("".join(lines).encode(), kind)


def made(*deltas: Mapping[str, Any]) -> Raw:
    return stream(*map(chunk, deltas), chunk({}, "tool_calls"))


def named(name: str) -> Raw:
    return made(piece(name, "", "a", 0), piece(None, GIVEN, None, 0))


def given(arguments: Any) -> Raw:
    return made(piece(TOOL, arguments, "a", 0))


def written(text: str) -> Says:
    return Says(text, finish="stop")


# The same call in any protocol: by its name, by its arguments, and as a whole text.
NAMES = (
    f"[TOOL_CALLS]{TOOL}[CALL_ID]abc",
    f"assistantcommentary to=functions.{TOOL}",
    f"{TOOL}_0",
    f"functions.{TOOL}:call_1",
    f"mcp-chordesk-{TOOL}",
    f"{TOOL.upper()}\n",
    f"`{TOOL}()`",
    f'{{"name": "{TOOL}"',
)
GIVENS = (
    f"{{}}{GIVEN}",
    f"{GIVEN}{GIVEN}",
    f"```json\n{GIVEN}\n```",
    "{'tickers': ['ACME'],}",
    f"{TOOL}(symbols='ACME')",
    f'{{"{TOOL}": {GIVEN}}}',
)
TEXTS = (
    f"{TOOL}(symbols=['ACME'])",
    f"```tool_code\nprint({TOOL}(symbols=['ACME']))\n```",
    f"<invoke name='{TOOL}'><parameter name='symbols'>ACME</parameter></invoke>",
    f"[TOOL_CALLS]{TOOL}[CALL_ID]abc[ARGS]{GIVEN}",
    f"assistantcommentary to=functions.{TOOL} json{GIVEN}",
    f'<think>Which tool?</think>{{"tool":"{TOOL}","args":{GIVEN}}}',
    f"functions.{TOOL}\n{GIVEN}",
)

ASKING: Mapping[str, Reply] = {
    **{f"the name {name!r}": named(name) for name in NAMES},
    **{f"the arguments {text!r}": given(text) for text in GIVENS},
    **{f"the text {text!r}": written(text) for text in TEXTS},
    "a token in the name": named(f"{TOOL}<|channel|>commentary"),
    "a type in the name": named(f"{TOOL}<|constrain|>json"),
    "functions": named(f"functions.{TOOL}"),
    "default_api": named(f"default_api.{TOOL}"),
    "a server before the name": named(f"mcp__desk__{TOOL}"),
    "a number after the name": named(f"functions.{TOOL}:0"),
    "by id": made(
        piece(TOOL, '{"sym', "a"), piece(TOOL, 'bols":', "a"), piece(TOOL, '["ACME"]}', "a")
    ),
    "the name in pieces": made(piece("quotes", "", "a", 0), piece("_get", "", None, 0), piece(None, GIVEN, None, 0)),
    "arguments before the name": made(piece(None, GIVEN, "a", 0), piece(TOOL, "", "a", 0)),
    "an empty object first": made(piece(TOOL, "{}", "a", 0), piece(None, GIVEN, None, 0)),
    "the arguments again": made(piece(TOOL, GIVEN, "a", 0), piece(TOOL, GIVEN, "a", 0)),
    "the arguments as they grow": made(*(piece(TOOL, GIVEN[:size], "a", 0) for size in (6, 14, 20, 20))),
    "a new id for each piece": made(piece(TOOL, GIVEN[:9], "a", 0), piece(None, GIVEN[9:], "b", 0)),
    "an object": given(json.loads(GIVEN)),
    "a text in a text": given(json.dumps(GIVEN)),
    "a list as text": given('{"symbols":"[\\"ACME\\"]"}'),
    "one symbol as text": given('{"symbols":"ACME"}'),
    "parameters": made({"tool_calls": [{"index": 0, "function": {"name": TOOL, "parameters": json.loads(GIVEN)}}]}),
    "<tool_call>": written(f"<tool_call>\n{CALL}\n</tool_call>"),
    "prose before": written(f"I look at it.\n<tool_call>{CALL}</tool_call>"),
    "<function=>": written(f"<function={TOOL}>{GIVEN}</function>"),
    "<parameter=>": written(
        f"<tool_call>\n<function={TOOL}>\n<parameter=symbols>\n[\"ACME\"]\n</parameter>\n</function>\n</tool_call>"
    ),
    "[TOOL_CALLS]": written(f"[TOOL_CALLS][{CALL}]"),
    "python_tag": written(f'<|python_tag|>{{"name":"{TOOL}","parameters":{GIVEN}}}'),
    "a fence": written(f"```json\n{CALL}\n```"),
    "bare JSON": written(CALL.replace("arguments", "parameters")),
    "Python": written(f'[{TOOL}(symbols=["ACME"])]'),
    "channels": written(
        f"<|channel|>analysis<|message|>Look.<|end|><|start|>assistant<|channel|>commentary to=functions.{TOOL} "
        f"<|constrain|>json<|message|>{GIVEN}<|call|>"
    ),
    "in the reasoning": Says("", reasoning=f"I look.\n<tool_call>{CALL}</tool_call>"),
    "several data lines": Raw(
        "".join(
            "".join(f"data: {line}\n" for line in json.dumps(json.loads(one), indent=1).splitlines()) + "\n"
            for one in (chunk(piece(TOOL, GIVEN, "a", 0)), chunk({}, "tool_calls"))
        ).encode()
    ),
    "CR alone": stream(chunk(piece(TOOL, GIVEN, "a", 0)), chunk({}, "tool_calls"), end="\r"),
    "CR and LF": stream(chunk(piece(TOOL, GIVEN, "a", 0)), chunk({}, "tool_calls"), end="\r\n"),
    "no end": stream(chunk(piece(TOOL, GIVEN, "a", 0)), done=False),
    "a stream that is called JSON": stream(chunk(piece(TOOL, GIVEN, "a", 0)), chunk({}, "tool_calls"), kind=JSON),
}  # fmt: skip
# Two calls at once, of ACME and of IBM.
TWO = (GIVEN, GIVEN.replace("ACME", "IBM"))
NUMBERED = (("a", TWO[0]), ("b", TWO[1]))
BOTH: Mapping[str, Reply] = {
    "by id in turns": made(*(piece(TOOL, args[at : at + 11], id_) for at in (0, 11) for id_, args in NUMBERED)),
    "all of index 0": made(*(piece(TOOL, args, id_, 0) for id_, args in NUMBERED)),
    "without any mark": made(*(piece(TOOL, args) for args in TWO)),
    "in the text": written("\n".join(f"<tool_call>{CALL.replace(GIVEN, args)}</tool_call>" for args in TWO)),
}  # fmt: skip
ANSWERING: Mapping[str, Reply] = {
    "among the reasoning": Says("", reasoning=f"It is fine. {ANSWER}"),
    "JSON that is called a stream": Raw(
        json.dumps({"choices": [{"message": {"content": ANSWER}, "finish_reason": "stop"}]}, indent=1).encode()
    ),
    "no end": stream(chunk({"content": ANSWER}), done=False),
}
# What is no call, or one of a tool that the turn does not have: (reply, the tools on record).
ROGUE: Mapping[str, tuple[Reply, list[str]]] = {
    "another tool": (named("functions.order_submit"), ["functions.order_submit"]),
    "another tool in the text": (
        written('<tool_call>{"name":"order_submit","arguments":{}}</tool_call>'), ["order_submit"]
    ),
    "two names": (named(f"order_submit {TOOL}"), [f"order_submit {TOOL}"]),
    "behind an acting name": (named(f"orders.{TOOL}"), [f"orders.{TOOL}"]),
    "no object": (given("all of them"), [TOOL]),
    "two objects": (given(GIVEN + TWO[1]), [TOOL]),
    "a name in pieces": (
        made(piece("order", ""), piece("_submit", ""), piece(None, "{}")), ["order_submit"]
    ),
    "a counter behind another tool": (named("order_submit_0"), ["order_submit_0"]),
}  # fmt: skip
