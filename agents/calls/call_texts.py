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

from chordesk.agents.calls.call_arguments import arguments_in, values_in
from chordesk.agents.calls.call_names import POSITIONAL, python_calls
from chordesk.agents.calls.call_reader import MadeCall, OfferedTools
from chordesk.agents.providers.completions import without_reasoning

MOST_CHARS = 100_000  # of a text: beyond them it is no call
MOST_CALLS = 64  # in one text, and arguments of one call
_MOST_MARKS = 8  # cut from either end
# No pattern may take more than a text's length in steps: the text is a model's.
_ENDS = (
    "<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<|call|>", "<|return|>", "<|end_of_text|>", "<|endoftext|>",
    "<|user|>", "<|observation|>", "</s>", "<end_of_turn>", "<eos>", "<|eos|>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>", "<|python_end|>", "<|tools_suffix|>", "<|eot|>",
)  # fmt: skip
_BEFORE = ("<|start_header_id|>assistant<|end_header_id|>", "<|im_start|>assistant", "<s>", "<|begin_of_text|>")
# The same tags under the names of several templates.
_SPACES = re.compile(
    r"(</?)(?:[a-z]{1,12}:|\uff5cDSML\uff5c|longcat_|steptml:)"
    r"(?=invoke\b|parameter\b|function_calls\b|tool_calls?\b|function\b)"
)
_BRACKETS = re.compile(r"\[(/?)(?:TOOL|FUNCTION)_CALLS?\]", re.IGNORECASE)
_ASCII_MARKS = re.compile(r"<\|tool_(calls?)_(begin|end)\|>|<\|tool_sep\|>")
_QUOTED = re.compile(r"<(?:escape|\|\"\|)>(.*?)<(?:escape|\|\"\|)>", re.DOTALL)
_TAG = r"(?:tool_calls?|toolcalls?|function_calls?|functioncalls?|tool_use|tool_code|use_mcp_tool)"
_BLOCK = re.compile(
    rf"<({_TAG})(?:\s+name=[\"']?([^\"'>]+)[\"']?)?\s*>(.*?)(</\1>|(?=<\1[\s>])|\Z)\s*", re.DOTALL | re.IGNORECASE
)
_FUNCTION = re.compile(
    r"<function(?:=|\s+name=[\"']?|=[\"'])\s*([^>\s\"'{]+)[\"']?\s*>?(.*?)(?:</function>|(?=<function)|\Z)\s*",
    re.DOTALL | re.IGNORECASE,
)
_INVOKE = re.compile(r"<invoke\s+name=[\"']([^\"']+)[\"']\s*>(.*?)(?:</invoke>|(?=<invoke)|\Z)\s*", re.DOTALL)
_INVOKES = re.compile(r"</?function_calls>\s*")
_PARAMETER = re.compile(
    r"\s*<param(?:eter)?(?:=\s*[\"']?|\s+name=[\"']?)([^>\s\"']+)[\"']?[^>]*>(.*?)"
    r"(?:</param(?:eter)?>|(?=<param)|\Z)\s*",
    re.DOTALL,
)
_ELEMENT = re.compile(r"\s*<([A-Za-z_][\w.-]*)>(.*?)</\1>\s*", re.DOTALL)
_ARGUMENT = re.compile(r"\s*<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)(?:</arg_value>|\Z)\s*", re.DOTALL)
_HARMONY = re.compile(
    r"(?:<\|start\|>)?\s*+(?:assistant)?\s*+(?:<\|channel\|>)?\s*+(?:commentary|analysis)?\s*+to=([\w.:/-]++)"
    r"\s*+(?:<\|channel\|>\s*+\w++)?\s*+(?:<\|constrain\|>)?\s*+(?:json|code)?\s*+(?:<\|message\|>|(?=\{))"
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
_FENCE = re.compile(r"```([\w-]*)[ \t]*\n?(.*?)(?:```|\Z)\s*", re.DOTALL)
_NAMED = re.compile(r"([\w.:/<|>\[\]-]{1,120}?)\s*+:?\s*+(?:json\s*+)?(?=[{`])")
_COLON = re.compile(
    r"(?:<\|tool_call>|<start_function_call>)\s*+call:([\w.:/-]++)\s*+(\{.*?\})\s*+"
    r"(?:<tool_call\|>|<end_function_call>|\Z)\s*+",
    re.DOTALL,
)
_LABELS = re.compile(r"""((?:"(?:[^"\\]|\\.)*+(?:"|\Z)|'(?:[^'\\]|\\.)*+(?:'|\Z)))|(?<=[(,\s])([A-Za-z_]\w*+)\s*+:""")
_SECTIONS = re.compile(
    r"<\|tool_calls_section_(?:begin|end)\|>|<\uff5ctool\u2581(?:calls\u2581(?:begin|end)|outputs\u2581begin)\uff5c>"
)
# Before a JSON list or object of calls, with their ends.
_OPENERS = (
    "[TOOL_CALLS]", "<|python_tag|>", "<|tool_call|>", "<|tool_calls|>", "<|action_start|><|plugin|>", "<|plugin|>",
    "<|START_ACTION|>", "functools", "<|tool_call_start|>", "[TOOL_REQUEST]", "<|python_start|>", "<|tools_prefix|>",
    "TOOL_CALLS]", "tool_calls:",
)  # fmt: skip
_CLOSERS = re.compile(r"(?:<\|/?(?:tool_calls?|tool_call_end|action_end|END_ACTION)\|>|\[END_TOOL_REQUEST\])\s*\Z")
_LANGUAGE = re.compile(r"(?:json|tool_code|tool_call|python|[a-z_]*\n)", re.IGNORECASE)
_PYTHON = re.compile(r"(?:print\()?[\[\w]")
_BEGINNINGS = (
    "<tool_call", "<toolcall", "<function", "<tool_use", "<tool_code", "<invoke", "<minimax:", "<|", "<\uff5c",
    "[tool_", "functools", "```", "[{", '{"name"', '{"function', '{"tool', '{"arguments"', '{"parameters"', '{"action"',
    '{"type":"function"', '{"recipient_name"', "action:", "thought:", "`", "{'name'", "{name:", '{"type":"tool_use"',
    "assistantcommentary", "commentaryto=", "to=functions", "<start_function_call>", "<steptml:", "<longcat_",
)  # fmt: skip
_NAMES = ("name", "tool", "tool_name", "function", "function_name", "action", "recipient_name")
_GIVEN = (
    "arguments", "parameters", "args", "input", "params", "kwargs", "tool_input", "action_input", "tool_arguments",
    "tool_parameters", "tool_args",
)  # fmt: skip
_BESIDE = frozenset({"id", "type", "tool_call_id", "call_id", "index", "thought", "reasoning", "server_name"})
_LISTS = ("tool_calls", "calls", "function_calls", "tool_uses", "tools")
_WITHIN = ("function", "function_call", "tool_call", "reply", "functionCall")
_PARTS = frozenset({"text", "thinking", "reasoning"})  # of a message, beside its calls

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
    body = _plain(text)
    for label, marks, form in _FORMS:
        start = _begins(marks, body) if marks else 0
        if start < 0 or (start and ("{" in body[:start] or not _stands_out(body[start:]))):
            continue
        pairs = form(body[start:], tools)
        if pairs and (marks or all(tools.named(name) is not None for name, _ in pairs)):
            made = [_made(name, given, label) for name, given in pairs]
            return TextCalls(body[:start].strip(), [tools.read(call) for call in made])
    return None


def _plain(text: str) -> str:
    """Return a text without reasoning and the marks of its beginning and end, its tags under one name each."""
    body = without_reasoning(text.strip("\ufeff \t\r\n")).strip()
    for _ in range(_MOST_MARKS):
        for one in _BEFORE:
            body = body.removeprefix(one).lstrip()
        for one in _ENDS:
            body = body.removesuffix(one).rstrip()
    body = _BRACKETS.sub(lambda found: f"[{found[1]}TOOL_CALLS]", _SPACES.sub(r"\1", body))
    if "<|tool_sep|>" in body:
        body = _ASCII_MARKS.sub(lambda found: f"<\uff5c{found[0][2:-2].replace('_', chr(0x2581))}\uff5c>", body)
    if body.endswith("</tool_call>") and "<tool_call" not in body:
        body = body.removesuffix("</tool_call>").rstrip()
    return body[1:-1].strip() if body[:1] == body[-1:] == "`" and "`" not in body[1:-1] else body


def _stands_out(text: str) -> bool:
    """Whether a form may have prose before it: words that begin some forms are those of prose, too."""
    return text.startswith(("<", "[")) or text.lower().startswith(_CHANNELS)


def may_be_call(text: str, tools: OfferedTools | None = None) -> bool:
    """Return whether a text that comes in pieces begins as a call does, or may do so yet."""
    begun = "".join(text[:200].split()).lower()
    names = [name.lower() for name in tools.schemas] if tools is not None else []
    behind = begun.removeprefix("functions.")
    return (
        not begun
        or any(begun.startswith(one[: len(begun)]) for one in _BEGINNINGS)
        or any(behind.startswith(one[: len(behind)]) for one in names)
    )


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
        if match is None or match.end() == at or len(found) == MOST_CALLS:
            return None
        found.append((match[1], match[2]))
        at = match.end()
    return found or None


def _blocks(text: str, tools: OfferedTools) -> list[Pair] | None:
    found: list[Pair] = []
    at = 0
    while at < len(text):
        match = _BLOCK.match(text, at)
        if match is None or len(found) > MOST_CALLS:
            return None
        at, inner = match.end(), match[3].strip()
        if not inner and at == len(text) and found and not match[4]:
            break  # a tag that was opened where the last one should have been closed
        pairs = [(match[2], inner or {})] if match[2] else _inner(inner, tools)
        if pairs is None and match[4] and inner.startswith("{"):
            pairs = _json_calls(f"{inner}}}", tools)  # the tag says that nothing was cut off
        if pairs is None:
            return None
        found += pairs
    return found or None


def _inner(text: str, tools: OfferedTools) -> list[Pair] | None:
    """What stands between the tags of a call."""
    text = text.strip()
    forms: tuple[Form, ...] = (
        _json_calls, _functions, _invokes, _glm, _python, _fenced, _elements, _named_then, _lines,
    )  # fmt: skip
    return next((pairs for form in forms if (pairs := form(text, tools))), None)


def _functions(text: str, tools: OfferedTools) -> list[Pair] | None:
    found = _all(_FUNCTION, text)
    return None if found is None else [(name, _given(inner, tools, name)) for name, inner in found]


def _invokes(text: str, tools: OfferedTools) -> list[Pair] | None:
    text = _INVOKES.sub("", text) if text.startswith("<function_calls>") else text
    found = _all(_INVOKE, text)
    return None if found is None else [(name, _given(inner, tools, name)) for name, inner in found]


def _elements(text: str, tools: OfferedTools) -> list[Pair] | None:
    """A call in elements: those of name and arguments, or one of the tool's own name."""
    rows = _all(_ELEMENT, text)
    if rows is None:
        return None
    told = {key.lower(): inner.strip() for key, inner in rows}
    name = next((told[key] for key in _NAMES if key in told), None)
    given = next((told[key] for key in _GIVEN if key in told), "")
    if name is not None:
        return [(name, _within(given, tools, name))] if set(told) <= {*_NAMES, *_GIVEN, *_BESIDE} else None
    if len(rows) == 1 and rows[0][0].lower() == "invoke":
        return _elements(rows[0][1], tools)
    if all(tools.named(key) is not None for key, _ in rows):
        return [(key, _within(inner.strip(), tools, key)) for key, inner in rows]
    return None


def _within(inner: str, tools: OfferedTools, name: str) -> Any:
    rows = _all(_ELEMENT, inner) if inner.startswith("<") else None
    return inner or {} if rows is None else {key: _value(text, tools, name, key) for key, text in rows}


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
    return _json_calls(rest, tools) or _python(rest, tools)


def _fenced(text: str, tools: OfferedTools) -> list[Pair] | None:
    blocks = _all(_FENCE, text) if text.startswith("```") else None
    found: list[Pair] = []
    for _, inner in blocks or ():
        pairs = _json_calls(inner.strip(), tools) or _python(inner.strip(), tools)
        if pairs is None:
            return None
        found += pairs
    return found or None


def _named_then(text: str, tools: OfferedTools) -> list[Pair] | None:
    """The name of an offered tool, and behind it an object."""
    match = _NAMED.match(text)
    if match is None or tools.named(match[1]) is None:
        return None
    given = _unfenced(text[match.end() :])
    return [(match[1], given)] if isinstance(arguments_in(given)[0], dict) else None


def _colons(text: str, _tools: OfferedTools) -> list[Pair] | None:
    return list(found) if (found := _all(_COLON, _QUOTED.sub(lambda one: json.dumps(one[1]), text))) else None


def _react(text: str, tools: OfferedTools) -> list[Pair] | None:
    if text.startswith("Thought:"):
        text = text[max(text.find("\nAction:"), 0) :].lstrip()
    match = _REACT.match(text)
    if match is None:
        rest = text.removeprefix("Action:").strip()
        return (_fenced(rest, tools) or _json_calls(rest, tools) or _python(rest, tools)) if rest != text else None
    return [(match[1], _unfenced(match[2].strip().removesuffix("Observation:")))]


def _json_calls(text: str, tools: OfferedTools) -> list[Pair] | None:
    """Objects and lists one after another; Llama puts semicolons between them."""
    if text[:1] not in ("{", "["):
        return None
    found: list[Pair] = []
    for value in values_in(text) or ():
        try:
            pairs = _of_value(value, tools)
        except RecursionError:
            return None
        if pairs is None:
            return None
        found += pairs
    return found or None


def _of_value(value: Any, tools: OfferedTools) -> list[Pair] | None:
    if isinstance(value, list):
        parts = [one for one in value if not (isinstance(one, Mapping) and one.get("type") in _PARTS)]
        each = [_of_value(one, tools) for one in parts]
        return [pair for pairs in each for pair in pairs or ()] if parts and all(each) else None
    if not isinstance(value, Mapping):
        return None
    if value.get("role") == "assistant" and not value.get("content"):
        value = {key: one for key, one in value.items() if key not in ("role", "content")}
    for key in (*_LISTS, *_WITHIN):
        inner = value.get(key)
        if isinstance(inner, list if key in _LISTS else Mapping) and not set(value) - {key} - _BESIDE:
            return _of_value(inner, tools)
    if not any(key in value for key in _NAMES) and any(key.lower() in _NAMES for key in value):
        value = {key.lower(): one for key, one in value.items()}
    names = [key for key in _NAMES if isinstance(value.get(key), str)]
    given = [key for key in _GIVEN if key in value]
    if len(names) == 1 and len(given) == 1 and not set(value) - {*names, *given} - _BESIDE:
        return None if _is_schema(value[given[0]]) else [(value[names[0]], value[given[0]])]
    if len(names) == 1 and not given:
        return _flat(value, names[0], tools)
    only = next(iter(value.items()), None) if len(value) == 1 else None
    return [only] if only is not None and isinstance(only[1], dict) and tools.named(only[0]) is not None else None


def _is_schema(given: Any) -> bool:
    """Whether these are a tool's parameters as the model was told them, and no arguments."""
    return isinstance(given, Mapping) and given.get("type") == "object" and isinstance(given.get("properties"), Mapping)


def _flat(value: Mapping[str, Any], key: str, tools: OfferedTools) -> list[Pair] | None:
    """Arguments beside the name of an offered tool, each of them one that the tool has."""
    name = tools.named(value[key])
    schema = tools.schemas[name] if name is not None else {}
    known = schema.get("properties") or {}
    given = {other: one for other, one in value.items() if other != key and (other in known or other not in _BESIDE)}
    fits = name is not None and given and key not in known and set(given) <= set(known)
    return [(value[key], given)] if fits else None


def _python(text: str, tools: OfferedTools) -> list[Pair] | None:
    """Llama 4 and Gemma: calls as Python writes them."""
    if not _PYTHON.match(text) or "(" not in text:
        return None
    for told in (text, _LABELS.sub(lambda found: found[1] or f"{found[2]}=", text)):
        try:
            calls = python_calls(told)
        except ValueError:
            continue
        found = [(name, _by_position(name, given, tools)) for name, given in calls]
        return None if any(given is None for _, given in found) else list(found)
    return None


def _by_position(name: str, given: dict[str, Any], tools: OfferedTools) -> dict[str, Any] | None:
    """An argument without a name is the object of all of them, or that of a tool with one that it has to have."""
    if POSITIONAL not in given:
        return given
    offered = tools.named(name)
    if offered is None or isinstance(given[POSITIONAL], dict):
        return given[POSITIONAL] if isinstance(given[POSITIONAL], dict) else None
    schema = tools.schemas[offered]
    needed = list(schema.get("required") or schema.get("properties") or ())
    return {needed[0]: given[POSITIONAL]} if len(needed) == 1 else None


_TAGS = (
    "<tool_call",
    "<toolcall",
    "<function_call",
    "<functioncall",
    "<tool_use>",
    "<tool_code>",
    "<use_mcp_tool>",
)
_CHANNELS = (
    "<|start|>assistant", "<|channel|>commentary", "<|channel|>analysis to=", "commentary to=",
    "assistantcommentary to=", "assistantanalysis to=", "to=functions.",
)  # fmt: skip
_DEEPSEEKS = ("<\uff5ctool\u2581calls\u2581begin\uff5c>", "<\uff5ctool\u2581call\u2581begin\uff5c>")
# label, how its own signs begin (a form without any has none), and its reader
_FORMS: tuple[tuple[str, tuple[str, ...], Form], ...] = (
    ("<tool_call>", _TAGS, _blocks),
    ("<function=...>", ("<function=", "<function name="), _functions),
    ("<invoke>", ("<function_calls>", "<invoke "), _invokes),
    ("call:NAME", ("<|tool_call>call:", "<start_function_call>"), _colons),
    ("channels", _CHANNELS, _pairs(_HARMONY)),
    ("DeepSeek's marks", _DEEPSEEKS, _pairs(_DEEPSEEK)),
    ("Kimi's marks", ("<|tool_calls_section_begin|>", "<|tool_call_begin|>"), _pairs(_KIMI)),
    ("[TOOL_CALLS]NAME", ("[TOOL_CALLS]",), _pairs(_MISTRAL)),
    ("marks before JSON", _OPENERS, _opened),
    ("a fence", (), _fenced),
    ("bare JSON", (), _json_calls),
    ("Python", (), _python),
    ("a name and JSON", (), _named_then),
    ("elements", (), _elements),
    ("Action and Action Input", (), _react),
)
