"""Calls that a model wrote into its text, in the forms that open models are trained to write.

Servers whose parser does not know a model's form pass its calls on as text. A text that is such a call as a whole is
that call; of a form with signs of its own there may be prose before it, and nothing after it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from chordesk.agents.call_names import python_calls
from chordesk.agents.calls import MadeCall, OfferedTools

MOST_CHARS = 100_000  # of a text: beyond them it is no call
# No pattern may take more than a text's length in steps: the text is a model's.
_ENDS = (
    "<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<|call|>", "<|return|>", "<|end_of_text|>", "<|endoftext|>",
    "<|user|>", "<|observation|>", "</s>", "<end_of_turn>", "<eos>", "<|eos|>",
)  # fmt: skip
_TAG = r"(?:tool_calls?|toolcalls?|function_calls?|functioncalls?|tool_use|tool_code|minimax:tool_call)"
_BLOCK = re.compile(rf"<({_TAG})>(.*?)(?:</\1>|\Z)\s*", re.DOTALL | re.IGNORECASE)
_FUNCTION = re.compile(
    r"<function(?:=|\s+name=\"?|=\")\s*([^>\s\"{]+)\"?\s*>?(.*?)(?:</function>|\Z)\s*", re.DOTALL | re.IGNORECASE
)
_INVOKE = re.compile(r"<invoke\s+name=\"([^\"]+)\"\s*>(.*?)(?:</invoke>|\Z)\s*", re.DOTALL)
_PARAMETER = re.compile(
    r"\s*<param(?:eter)?(?:=\s*\"?|\s+name=\"?)([^>\s\"]+)\"?[^>]*>(.*?)"
    r"(?:</param(?:eter)?>|(?=<param)|\Z)\s*",
    re.DOTALL,
)
_ARGUMENT = re.compile(r"\s*<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)(?:</arg_value>|\Z)\s*", re.DOTALL)
_HARMONY = re.compile(
    r"(?:<\|start\|>)?\s*+(?:assistant)?\s*+(?:<\|channel\|>)?\s*+(?:commentary|analysis)?\s*+to=([\w.:/-]++)"
    r"\s*+(?:<\|channel\|>\s*+\w++)?\s*+(?:<\|constrain\|>)?\s*+(?:json|code)?\s*+<\|message\|>"
    r"(.*?)(?:<\|call\|>|<\|end\|>|\Z)\s*+",
    re.DOTALL,
)
_BEGIN, _SEP, _END = (rf"<\uff5ctool\u2581{what}\uff5c>" for what in ("call\u2581begin", "sep", "call\u2581end"))
_DEEPSEEK = re.compile(rf"{_BEGIN}(?:function{_SEP})?(.*?)(?:{_SEP}|\n)(.*?)(?:{_END}|\Z)\s*", re.DOTALL)
_KIMI = re.compile(
    r"<\|tool_call_begin\|>(.*?)<\|tool_call_argument_begin\|>(.*?)(?:<\|tool_call_end\|>|\Z)\s*+", re.DOTALL
)
_MISTRAL = re.compile(
    r"\[TOOL_CALLS\]\s*+([\w.:/-]++)\s*+(?:\[CALL_ID\][^\[{]*+)?(?:\[ARGS\])?\s*+(\{.*?\})\s*+"
    r"(?=\[TOOL_CALLS\]|\Z)",
    re.DOTALL,
)
_REACT = re.compile(r"Action:[ \t]*+(\S++)\s*+Action Input:(.*)", re.DOTALL)
_SECTIONS = re.compile(
    r"<\|tool_calls_section_(?:begin|end)\|>|<\uff5ctool\u2581(?:calls\u2581(?:begin|end)|outputs\u2581begin)\uff5c>"
)
# Before a JSON list or object of calls, with their ends.
_OPENERS = (
    "[TOOL_CALLS]", "<|python_tag|>", "<|tool_call|>", "<|tool_calls|>", "<|action_start|><|plugin|>", "<|plugin|>",
    "<|START_ACTION|>", "functools", "<|tool_call_start|>", "[TOOL_REQUEST]",
)  # fmt: skip
_CLOSERS = re.compile(r"(?:<\|/?(?:tool_calls?|tool_call_end|action_end|END_ACTION)\|>|\[END_TOOL_REQUEST\])\s*\Z")
_LANGUAGE = re.compile(r"(?:json|tool_code|tool_call|python|[a-z_]*\n)", re.IGNORECASE)
_PYTHON = re.compile(r"(?:print\()?[\[\w]")
_BEGINNINGS = (
    "<tool_call", "<toolcall", "<function", "<tool_use", "<tool_code", "<invoke", "<minimax:", "<|", "<\uff5c",
    "[tool_", "functools", "```", "[{", '{"name"', '{"function', '{"tool', '{"arguments"', '{"parameters"', '{"action"',
    '{"type":"function"', '{"recipient_name"', "action:", "thought:",
)  # fmt: skip
_NAMES = ("name", "tool", "tool_name", "function", "function_name", "action", "recipient_name")
_GIVEN = (
    "arguments", "parameters", "args", "input", "params", "kwargs", "tool_input", "action_input", "tool_arguments",
    "tool_parameters", "tool_args",
)  # fmt: skip
_BESIDE = frozenset({"id", "type", "tool_call_id", "call_id", "index", "thought", "reasoning"})
_LISTS = ("tool_calls", "calls", "function_calls", "tool_uses", "tools")
_WITHIN = ("function", "function_call", "tool_call", "reply")

Pair = tuple[str, Any]  # a name, and arguments as text or as a value
Form = Callable[[str, OfferedTools], list[Pair] | None]


class TextCalls(NamedTuple):
    """prose: what stands before the calls."""

    prose: str
    calls: list[MadeCall]


def calls_in(text: str, tools: OfferedTools) -> TextCalls | None:
    """Return the calls that a whole text is, None for any other text. Signs of a call make it one of whatever tool it
    names; without signs it is one of an offered tool alone."""
    if not tools or not text or len(text) > MOST_CHARS:
        return None
    body = _without_ends(text)
    for label, marks, form in _FORMS:
        start = _begins(marks, body) if marks else 0
        if start < 0 or (start and "{" in body[:start]):
            continue
        pairs = form(body[start:], tools)
        if pairs and (marks or all(tools.named(name) is not None for name, _ in pairs)):
            made = [_made(name, given, label) for name, given in pairs]
            return TextCalls(body[:start].strip(), [tools.read(call) for call in made])
    return None


def _without_ends(text: str) -> str:
    body = text.strip("\ufeff \t\r\n")
    while (end := next((one for one in _ENDS if body.endswith(one)), None)) is not None:
        body = body.removesuffix(end).rstrip()
    return body


def may_be_call(text: str) -> bool:
    """Return whether a text that comes in pieces begins as a call does, or may do so yet."""
    begun = "".join(text[:200].split()).lower()
    return any(begun.startswith(one[: len(begun)]) if begun else True for one in _BEGINNINGS)


def _begins(marks: Sequence[str], text: str) -> int:
    places = [place for one in marks if (place := text.lower().find(one.lower())) >= 0]
    return min(places, default=-1)


def _made(name: str, given: Any, label: str) -> MadeCall:
    arguments = given if isinstance(given, str) else "{}" if given is None else _dumped(given)
    return MadeCall("", name.strip(), arguments, (f"a call in the text, as {label}",))


def _dumped(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except (TypeError, orjson.JSONEncodeError):
        return json.dumps(value, default=str)


def _all(pattern: re.Pattern[str], text: str) -> list[tuple[str, str]] | None:
    """Return what the matches of a pattern say, None where the text has anything beside them."""
    found: list[tuple[str, str]] = []
    at = len(text) - len(text.lstrip())
    while at < len(text):
        match = pattern.match(text, at)
        if match is None or match.end() == at:
            return None
        found.append((match[1], match[2]))
        at = match.end()
    return found or None


def _blocks(text: str, tools: OfferedTools) -> list[Pair] | None:
    blocks = _all(_BLOCK, text)
    if blocks is None:
        return None
    found: list[Pair] = []
    for _, inner in blocks:
        pairs = _inner(inner, tools)
        if pairs is None:
            return None
        found += pairs
    return found


def _inner(text: str, tools: OfferedTools) -> list[Pair] | None:
    """What stands between the tags of a call."""
    text = text.strip()
    forms: tuple[Form, ...] = (_json_calls, _functions, _invokes, _glm, _python, _fenced, _lines)
    return next((pairs for form in forms if (pairs := form(text, tools))), None)


def _functions(text: str, tools: OfferedTools) -> list[Pair] | None:
    found = _all(_FUNCTION, text)
    return None if found is None else [(name, _given(inner, tools, name)) for name, inner in found]


def _invokes(text: str, tools: OfferedTools) -> list[Pair] | None:
    text = re.sub(r"\A\s*<function_calls>|</(?:function_calls|minimax:tool_call)>\s*\Z", "", text)
    found = _all(_INVOKE, text)
    return None if found is None else [(name, _given(inner, tools, name)) for name, inner in found]


def _given(inner: str, tools: OfferedTools, name: str) -> Any:
    """Arguments as JSON, or each between tags of its own, as text that the schema says the kind of."""
    if not inner.strip():
        return {}
    rows = _all(_PARAMETER, inner)
    return inner.strip() if rows is None else {key: _value(text, tools, name, key) for key, text in rows}


def _value(text: str, tools: OfferedTools, name: str, key: str) -> Any:
    offered = tools.named(name)
    node = (tools.schemas[offered].get("properties") or {}).get(key) if offered is not None else None
    text = text.strip("\n") if node is not None and "string" in str(node.get("type")) else text.strip()
    if node is not None and "string" in str(node.get("type")):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _glm(text: str, tools: OfferedTools) -> list[Pair] | None:
    name, mark, rest = text.partition("<arg_key>")
    if not mark or not name.strip() or len(name.split()) != 1:
        return None
    rows = _all(_ARGUMENT, mark + rest)
    return None if rows is None else [(name, {key: _value(value, tools, name, key) for key, value in rows})]


def _lines(text: str, tools: OfferedTools) -> list[Pair] | None:
    """A JSON object a line, or the tool's name in one and its arguments in the next."""
    name, _, rest = text.partition("\n")
    if rest.strip().startswith("{") and tools.named(name.strip()) is not None:
        return [(name, rest.strip())]
    if not name.strip() or (not rest and tools.named(name.strip()) is None):
        return None
    if not rest:
        return [(name, {})]
    found: list[Pair] = []
    for line in text.splitlines():
        pairs = _json_calls(line, tools) if line.strip() else []
        if pairs is None:
            return None
        found += pairs
    return found


def _pairs(pattern: re.Pattern[str]) -> Form:
    def form(text: str, _tools: OfferedTools) -> list[Pair] | None:
        found = _all(pattern, _SECTIONS.sub("", text).strip())
        return None if found is None else [(name, _unfenced(given)) for name, given in found]

    return form


def _unfenced(text: str) -> str:
    """Return what a fence holds, its language left out; a text without one as it is."""
    text = text.strip()
    if not text.startswith("```"):
        return text
    inner = text[3:].removesuffix("```")
    language = _LANGUAGE.match(inner)
    return inner[language.end() if language is not None else 0 :].strip()


def _opened(text: str, tools: OfferedTools) -> list[Pair] | None:
    opener = next((one for one in _OPENERS if text.startswith(one)), None)
    if opener is None:
        return None
    rest = _CLOSERS.sub("", text[len(opener) :].strip()).strip()
    rest = rest.removesuffix("[/TOOL_CALLS]").strip()
    return _json_calls(rest, tools) or _python(rest, tools) or _semicolons(rest, tools)


def _semicolons(text: str, tools: OfferedTools) -> list[Pair] | None:
    """Llama: several objects with a semicolon between them."""
    found: list[Pair] = []
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return None
        if (pairs := _of_value(value, tools)) is None:
            return None
        found += pairs
        at += len(text[at:]) - len(text[at:].lstrip("; \t\r\n"))
    return found or None


def _fenced(text: str, tools: OfferedTools) -> list[Pair] | None:
    if not text.startswith("```"):
        return None
    inner = _unfenced(text)
    return _json_calls(inner, tools) or _python(inner, tools)


def _react(text: str, _tools: OfferedTools) -> list[Pair] | None:
    if text.startswith("Thought:"):
        text = text[max(text.find("\nAction:"), 0) :].lstrip()
    match = _REACT.match(text)
    if match is None:
        return None
    return [(match[1], _unfenced(match[2].strip().removesuffix("Observation:")))]


def _json_calls(text: str, tools: OfferedTools) -> list[Pair] | None:
    if text[:1] not in ("{", "["):
        return None
    try:
        return _of_value(json.loads(text, strict=False), tools)
    except (ValueError, RecursionError):
        return None


def _of_value(value: Any, tools: OfferedTools) -> list[Pair] | None:
    if isinstance(value, list):
        each = [_of_value(one, tools) for one in value]
        return [pair for pairs in each for pair in pairs or ()] if value and all(each) else None
    if not isinstance(value, Mapping):
        return None
    for key in (*_LISTS, *_WITHIN):
        inner = value.get(key)
        if isinstance(inner, list if key in _LISTS else Mapping) and not set(value) - {key} - _BESIDE:
            return _of_value(inner, tools)
    names = [key for key in _NAMES if isinstance(value.get(key), str)]
    given = [key for key in _GIVEN if key in value]
    if len(names) == 1 and len(given) == 1 and not set(value) - {*names, *given} - _BESIDE:
        return [(value[names[0]], value[given[0]])]
    only = next(iter(value.items()), None) if len(value) == 1 else None
    return [only] if only is not None and only[0] in tools.schemas and isinstance(only[1], dict) else None


def _python(text: str, _tools: OfferedTools) -> list[Pair] | None:
    """Llama 4 and Gemma: calls as Python writes them, alone, in a list, or printed."""
    if not _PYTHON.match(text) or "(" not in text:
        return None
    try:
        return list(python_calls(text))
    except ValueError:
        return None


_TAGS = (
    "<tool_call",
    "<toolcall",
    "<function_call",
    "<functioncall",
    "<tool_use>",
    "<tool_code>",
    "<minimax:tool_call>",
)
_CHANNELS = (
    "<|start|>assistant", "<|channel|>commentary", "<|channel|>analysis to=", "commentary to=",
    "assistantcommentary to=",
)  # fmt: skip
_DEEPSEEKS = ("<\uff5ctool\u2581calls\u2581begin\uff5c>", "<\uff5ctool\u2581call\u2581begin\uff5c>")
# label, how its own signs begin (a form without any has none), and its reader
_FORMS: tuple[tuple[str, tuple[str, ...], Form], ...] = (
    ("<tool_call>", _TAGS, _blocks),
    ("<function=...>", ("<function=", "<function name="), _functions),
    ("<invoke>", ("<function_calls>", "<invoke "), _invokes),
    ("channels", _CHANNELS, _pairs(_HARMONY)),
    ("DeepSeek's marks", _DEEPSEEKS, _pairs(_DEEPSEEK)),
    ("Kimi's marks", ("<|tool_calls_section_begin|>", "<|tool_call_begin|>"), _pairs(_KIMI)),
    ("[TOOL_CALLS]NAME", ("[TOOL_CALLS]",), _pairs(_MISTRAL)),
    ("marks before JSON", _OPENERS, _opened),
    ("a fence", (), _fenced),
    ("bare JSON", (), _json_calls),
    ("lines of JSON", (), _semicolons),
    ("Python", (), _python),
    ("Action and Action Input", (), _react),
)
