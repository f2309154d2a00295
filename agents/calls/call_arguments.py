"""The arguments that the text of a call says, where it says exactly one object (or one list)."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

import orjson

from chordesk.agents.calls.call_names import MARKS, POSITIONAL, python_calls

NONE = object()
_LITERAL_CHARS = 20_000  # of arguments that are tried in another notation than JSON's
_DEEP = 3  # JSON texts within JSON texts
_MOST_VALUES = 16  # objects one after another
_MOST_CALLS = 64  # objects of calls, one after another
# Without its end a string is all that follows: no pattern takes more steps than a text has characters.
_STRING = r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)'
_STRING_OR_MARK = re.compile(rf"({_STRING})|{MARKS.pattern}", re.DOTALL)
_LANGUAGE = re.compile(r"[a-zA-Z_]*")
# What stands before and after the objects: the kind of the arguments, and ends that were written once too often.
_LEADING = re.compile(r"(?:\ufeff|\s|json\b|code\b|arguments\s*[:=])+")
_TRAILING = re.compile(r"[\s\]})\"';.,\x00\ufeff]*")
_ANY_STRING = rf"(?P<string>{_STRING}|'(?:[^'\\]|\\.)*+(?:'|\\?\Z))"
_STRING_OR_COMMENT = re.compile(rf"{_ANY_STRING}|//[^\n]*|/\*.*?\*/|\#[^\n]*", re.DOTALL)
_SLIPS = re.compile(
    rf"{_ANY_STRING}|(?P<comma>,(?=\s*+[}}\]]))|(?P<key>(?<![\w$.])[A-Za-z_]\w*+(?=\s*+:))"
    r"|(?P<word>(?<![\w$.])(?:None|True|False|undefined)\b)",
    re.DOTALL,
)
_WORDS = {"None": "null", "undefined": "null", "True": "true", "False": "false"}
_PYTHON_WORDS = {"null": "None", "true": "True", "false": "False"}
_STRING_OR_WORD = re.compile(rf"{_ANY_STRING}|(?<![\w$.])(?P<word>null|true|false)\b", re.DOTALL)
_KEYWORDS = re.compile(r"(?:(?:[A-Za-z_][\w.]*+)?\s*+\(\s*+)?[A-Za-z_]\w*+\s*+=(?!=)")
_QUOTES = str.maketrans({"\u201c": '"', "\u201d": '"', "\u201e": '"', "\u2018": "'", "\u2019": "'"})


def arguments_in(text: str) -> tuple[Any, str]:
    """Return the object or list that a call's arguments say, and how it was read, empty for plain JSON; NONE where they
    say no one object."""
    bare = text.strip()
    if not bare:
        return {}, ""
    if bare in ("null", "None"):
        return {}, "no arguments"
    value, how = value_in(bare), ""
    for _ in range(_DEEP):
        if not isinstance(value, str):
            break
        value, how = value_in(value.strip()), "JSON within a JSON string"
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        return value[0], "an object within a list"
    if isinstance(value, dict | list):
        return value, how
    return _mended(bare) if value is NONE and not how else (NONE, "")


def values_in(text: str) -> list[Any] | None:
    """Return the objects and lists that stand one after another in a text, also in another notation; None where it is
    anything else."""
    found: list[Any] = []
    decoder, at = json.JSONDecoder(strict=False), 0
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            found = []
            break
        found.append(value)
        if len(found) > _MOST_CALLS:
            return None
        at += len(text[at:]) - len(text[at:].lstrip("; ,\t\r\n"))
    if not found and text[:1] + text[-1:] in ("{}", "[]") and len(text) <= _LITERAL_CHARS:
        value = _in_another_notation(text)[0]
        found = [value] if value is not NONE else []
    if not found and text.startswith("{"):
        several = _several(text) or []
        found = several[:1] if len(several) == 1 else []
    return found if found and all(isinstance(one, dict | list) for one in found) else None


def problem_in(text: str) -> str:
    """Return why arguments that are no one object are none, for the model that wrote them and for the record."""
    several = _several(_outside(text))
    different = [] if several is None else _different(several)
    if len(different) > 1:
        return f"its arguments are {len(different)} different JSON objects, one after another"
    return "its arguments are no JSON object"


def _mended(text: str) -> tuple[Any, str]:
    bare = _outside(text)
    several = _several(bare)
    if several is not None:
        different = _different(several)
        if len(different) == 1:
            return different[0], "the arguments alone of what was written beside them" if len(several) > 1 else "marks"
        return ({}, "empty objects") if not different else (NONE, "")
    if len(bare) > _LITERAL_CHARS:
        return NONE, ""
    bare = _STRING_OR_COMMENT.sub(lambda found: found["string"] or "", bare).strip()
    if bare.startswith("{") and bare.endswith("}"):
        return _in_another_notation(bare)
    if _KEYWORDS.match(bare):
        return _keywords(bare)
    return NONE, ""


def _outside(text: str) -> str:
    """Return a text without the fence and the marks about it; within strings they are what the model wrote."""
    for fence in ("```", "`"):
        if text.startswith(fence) and text.endswith(fence) and len(text) > 2 * len(fence):
            language = _LANGUAGE.match(text, len(fence)) if fence == "```" else None
            text = text[language.end() if language is not None else len(fence) : -len(fence)].strip()
            break
    if is_json(text):
        return text
    text = _STRING_OR_MARK.sub(lambda found: found[1] or "", text)
    leading = _LEADING.match(text)
    return text[leading.end() if leading is not None else 0 :].strip()


def _different(several: list[Any]) -> list[Any]:
    return [one for place, one in enumerate(several) if one and one not in several[:place]]


def _in_another_notation(text: str) -> tuple[Any, str]:
    """JSON with slips, as JavaScript or Python write it, or with the signs before its quotes."""
    if '"' not in text and "'" not in text:
        text = text.translate(_QUOTES)
    value = value_in(_SLIPS.sub(_mended_slip, text), strict=False)
    if isinstance(value, dict | list):
        return value, "JSON with slips of the pen"
    inner = value_in(f'"{text}"') if '\\"' in text and '"' not in text.replace('\\"', "") else NONE
    value = value_in(inner) if isinstance(inner, str) else NONE
    if isinstance(value, dict):
        return value, "JSON with the signs before its quotes"
    python = _STRING_OR_WORD.sub(lambda found: found["string"] or _PYTHON_WORDS[found["word"]], text)
    try:
        value = ast.literal_eval(python)
        dumped(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return NONE, ""
    return (value, "a Python literal") if isinstance(value, dict | list) else (NONE, "")


def _mended_slip(found: re.Match[str]) -> str:
    if found["string"] is not None:
        return found[0]
    if found["key"] is not None:
        return f'"{found[0]}"'
    return _WORDS.get(found["word"] or "", "")


def _keywords(text: str) -> tuple[Any, str]:
    """As a call in Python has them, with its name or without; a name stays beside them, as it may be another tool's."""
    named = text.endswith(")") and "(" in text.partition("=")[0] and not text.startswith("(")
    try:
        calls = python_calls(text if named else f"call{text}" if text.startswith("(") else f"call({text})")
    except ValueError:
        return NONE, ""
    if len(calls) != 1:
        return NONE, ""
    name, given = calls[0]
    if POSITIONAL in given:
        return NONE, ""
    return ({"name": name, "arguments": given} if named else given), "arguments as Python writes them"


def _several(text: str) -> list[Any] | None:
    """Return the objects that stand one after another in a text, None where something else does too."""
    found: list[Any] = []
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return found if found and _TRAILING.fullmatch(text, at) else None
        value = value_in(value) if isinstance(value, str) else value
        if not isinstance(value, dict) or len(found) == _MOST_VALUES:
            return None
        found.append(value)
    return found


def value_in(text: str, *, strict: bool = True) -> Any:
    try:
        return json.loads(text, strict=strict)
    except (ValueError, RecursionError):
        return NONE


def is_json(text: str) -> bool:
    return value_in(text) is not NONE


def dumped(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except (TypeError, orjson.JSONEncodeError):
        return json.dumps(value)
