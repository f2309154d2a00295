"""Which offered tool a name means, once the marks, prefixes and counters are cut that servers leave about it.

Nothing is guessed by likeness: after the cuts, the name has to be that of exactly one tool, letter by letter, but for
case and signs. Any other word beside it leaves the name without a meaning.
"""

from __future__ import annotations

import ast
import json
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from chordesk.models.answers import acts

# Tokens of chat templates that servers leave in names and arguments, whole or begun, and bytes that are no text.
MARKS = re.compile(
    r"<[|\uff5c][^<>|\uff5c]*(?:[|\uff5c]>)?|\[/?[A-Z_]{3,}\]|</?[A-Za-z_][\w-]*(?::[a-z_]+)?>|<0x[0-9A-F]{2}>"
)
PYTHON_CHARS = 20_000  # of a text that is tried as Python
_MOST_NAME = 500  # characters
_MOST_CUTS = 6
_MOST_FORMS = 200

_CHANNEL = r"(?:assistant|commentary|analysis|final|json|code)"  # what remains where a server drops the tokens alone
_KEYS = r"(?:functions?|tools?|calls?|tool_calls?|function_calls?|tool_use|name|type|to|recipient|recipient_name)"
_NOISE = re.compile(rf"{_CHANNEL}+|{_KEYS}|python|constrain|channel|message", re.IGNORECASE)
_COUNT = r"\d{1,3}"
_ID = r"(?:call|fc|toolu|tooluse|chatcmpl-tool)[_-](?=[A-Za-z-]*\d)[A-Za-z0-9-]{1,64}"
_BESIDE = re.compile(rf"{_COUNT}|{_ID}", re.IGNORECASE)
_CALL_ID = re.compile(r"\[CALL_ID\]\s*[\w-]{0,64}")  # Mistral
_BETWEEN = re.compile(r"(?:[\s,;\"'`()\[\]{}=<>*]|\\[nrt]|->)+")
_ENDS = ".:/#|@-!?$\\\u2581\u0120"  # signs that are cut from both ends of a word
_SIGN = r"(?:__|::|[_.:/#@|-])"
_OWN = r"(?:mcp|chordesk|desk|default_api|api)"
_AFTER = re.compile(rf"{_SIGN}(?:{_ID}|(?:call{_SIGN}?)?({_COUNT})|tool|function|call)\Z", re.IGNORECASE)
_BEFORE = re.compile(rf"(?:{_OWN}|{_KEYS}|{_ID}|{_COUNT}){_SIGN}", re.IGNORECASE)
_GLUE = r"(?:assistant|commentary|analysis|json)+"
_GLUED_AFTER = re.compile(rf"(?<![_.-]){_GLUE}\Z", re.IGNORECASE)
_GLUED_BEFORE = re.compile(rf"{_GLUE}(?:to)?(?![_.-])", re.IGNORECASE)
_NAMESPACE = re.compile(r"::|[.:/|]|__")
_WITH_ARGUMENTS = re.compile(r"\s*([^\s({]{1,120})\s*(\{.*\}|\(.*\))\s*", re.DOTALL)
_PLAIN = re.compile(r"[^a-z0-9]+")
_GIVEN = ("arguments", "parameters", "args", "input")


class NameRead(NamedTuple):
    """tool: the offered tool, None where the name means none. arguments: those that stand in the name itself."""

    tool: str | None
    arguments: dict[str, Any] | None = None


class Names:
    """The names of the offered tools."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        plain: dict[str, list[str]] = {}
        for name in self._names:
            plain.setdefault(plain_letters(name), []).append(name)
        self._plain = {key: found[0] for key, found in plain.items() if len(found) == 1 and key}
        # Names that differ by their number alone: of these a number is no counter.
        self._numbered = {key.rstrip("0123456789") for key in plain if key[-1:].isdigit()}

    def read(self, told: str) -> NameRead:
        if told in self._names:
            return NameRead(told)
        if len(told) > PYTHON_CHARS:
            return NameRead(None)
        name, arguments = _apart(told)
        return NameRead(self._meant(name), arguments)

    def _meant(self, told: str) -> str | None:
        if len(told) > _MOST_NAME:
            return None
        text = _CALL_ID.sub(" ", _visible(told))
        text = MARKS.sub(lambda mark: f" {inner} " if self._exact(inner := mark[0].strip("</>")) else " ", text)
        words = [word for one in _BETWEEN.split(text) if (word := one.strip(_ENDS))]
        found: dict[str, str | None] = {}
        for word in words:
            meant = self._one(word)
            if meant is not None or not (_NOISE.fullmatch(word) or (_BESIDE.fullmatch(word) and not acts(word))):
                found[word] = meant
        tools = set(found.values())
        if len(tools) == 1 and None not in tools:
            return tools.pop()
        return self._plain.get(plain_letters("".join(found)))  # a name with blanks in it

    def _exact(self, word: str) -> str | None:
        return word if word in self._names else self._plain.get(plain_letters(word))

    def _one(self, word: str) -> str | None:
        """Return the tool that a word means with as few cuts as possible; None where as many cuts lead to two."""
        forms = {word}
        for _ in range(_MOST_CUTS):
            found = {meant for form in forms if (meant := self._exact(form)) is not None}
            if found:
                return found.pop() if len(found) == 1 else None
            forms = {cut for form in forms for cut in self._cuts(form) if cut}
            if not forms or len(forms) > _MOST_FORMS:
                return None
        return None

    def _cuts(self, word: str) -> Iterator[str]:
        if (after := _AFTER.search(word)) is not None and not acts(after[0]):
            base = word[: after.start()]
            if after[1] is None or plain_letters(base) not in self._numbered:
                yield base
        if (before := _BEFORE.match(word)) is not None and not acts(before[0]):
            yield word[before.end() :]
        if (glued := _GLUED_AFTER.search(word)) is not None:
            yield word[: glued.start()].strip(_ENDS)
        if (glued := _GLUED_BEFORE.match(word)) is not None:
            yield word[glued.end() :].strip(_ENDS)
        for sign in _NAMESPACE.finditer(word):
            space, rest = word[: sign.start()], word[sign.end() :]
            if not acts(space) and self._exact(space) is None:
                yield rest
        half, odd = divmod(len(word), 2)
        if not odd and word[:half] == word[half:]:
            yield word[:half]


def plain_letters(name: str) -> str:
    return _PLAIN.sub("", name.lower())


def _visible(text: str) -> str:
    """Return a text without the signs that nobody sees, and letters of full width as common ones."""
    text = unicodedata.normalize("NFKC", text)
    return "".join(one for one in text if unicodedata.category(one) != "Cf")


def _apart(told: str) -> tuple[str, dict[str, Any] | None]:
    """Return a name and the arguments that stand in it: NAME{...}, NAME(key=value) or a call as JSON."""
    text = told.strip()
    if text.startswith("{"):
        value = _object(text)
        given = [key for key in _GIVEN if key in value] if value is not None else []
        if value is None or not isinstance(name := value.get("name"), str) or set(value) - {"name", "type", *given}:
            return told, None
        inner = value[given[0]] if len(given) == 1 else {} if not given else None
        return (name, inner) if isinstance(inner, dict) else (told, None)
    match = _WITH_ARGUMENTS.fullmatch(text)
    if match is None or not match[2][1:-1].strip():
        return told, None
    if match[2].startswith("{"):
        inner = _object(match[2])
        return (match[1].rstrip(":"), inner) if inner is not None else (told, None)
    try:
        ((_, inner),) = python_calls(f"name{match[2]}")
    except ValueError:
        return told, None
    return (match[1], inner) if POSITIONAL not in inner else (told, None)


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def python_calls(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the calls that a text is as Python writes them: alone, in a list, one a line, assigned or printed. An
    argument without a name is under POSITIONAL. Raises ValueError."""
    if len(text) > PYTHON_CHARS:
        raise ValueError("too long")
    try:
        body = ast.parse(text.strip()).body
        given = {ast.unparse(one.targets[0]) for one in body if isinstance(one, ast.Assign)}
        return [call for one in body for call in _calls_of(_expression(one), given)]
    except (SyntaxError, MemoryError, RecursionError, TypeError) as error:
        raise ValueError(str(error)) from None


POSITIONAL = ""
_CONSTANTS = {"true": True, "false": False, "null": None}


def _expression(statement: ast.stmt) -> ast.expr:
    if isinstance(statement, ast.Expr) or (isinstance(statement, ast.Assign) and len(statement.targets) == 1):
        return statement.value
    raise ValueError("no call")


def _calls_of(node: ast.expr, given: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """given: variables that calls before were assigned to."""
    if isinstance(node, ast.List | ast.Tuple) and node.elts:
        for one in node.elts:
            yield from _calls_of(one, given)
        return
    if not isinstance(node, ast.Call):
        raise ValueError("no call")
    name = ast.unparse(node.func)
    if name == "print" and len(node.args) == 1 and not node.keywords:
        if not (isinstance(shown := node.args[0], ast.Name) and shown.id in given):
            yield from _calls_of(shown, given)
        return
    if len(node.args) > 1 or (node.args and node.keywords) or any(one.arg is None for one in node.keywords):
        raise ValueError("arguments without a name")
    told = [(POSITIONAL, one) for one in node.args] or [(str(one.arg), one.value) for one in node.keywords]
    yield name.removesuffix(".call"), {key: ast.literal_eval(_Constants().visit(one)) for key, one in told}


class _Constants(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(_CONSTANTS[node.id]) if node.id in _CONSTANTS else node
