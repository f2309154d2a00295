"""The one reader of models' tool calls: pieces of a stream put together, names matched to the offered tools, arguments
read and put into the form of the tool's schema.

Servers have dialects of one protocol. A call is read where it has exactly one meaning, and what was done to read it is
kept with it (`MadeCall.read`). A name that is no offered tool's stays as it came: who calls such a tool is told so, and
it goes on record.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from chordesk.agents.calls.call_arguments import NONE, arguments_in, dumped, is_json, value_in
from chordesk.agents.calls.call_names import Names, plain_letters

NAMED_CHARS = 80  # of a name as it came, in a note
_LITERAL_CHARS = 20_000  # of arguments that are tried as a Python literal
_MOST_NUMBER = 1e300
_NUMBER_CHARS = 400  # of a number: more digits are beyond every schema, and cost the more to read
_DEEP = 3  # JSON texts within JSON texts
_WORD = re.compile(r"[\w.^=$-]{1,21}")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?")
# Groups of thousands: a single comma may be that of a fraction.
_GROUPED = re.compile(r"[+-]?\d{1,3}(?:(?:,\d{3}){2,}|(?:_\d{3})+)")
# Under which of these names an object has the arguments, where the tool has none of the name.
_WRAPPERS = ("arguments", "parameters", "args", "input", "params", "kwargs", "properties")
# Arguments that are tickers, by their names; what one of them says may be several.
_TICKERS = frozenset({"symbol", "symbols", "ticker", "tickers"})
_TICKER = re.compile(r"[\w.^=$-]{1,21}(?:/[A-Za-z])?")
_TICKERS_APART = re.compile(r"[,;|\n]+|\s+(?:and|&)\s+")
_AMONG_BLANKS = re.compile(r"[A-Z][A-Z0-9.^=-]{1,11}")  # a single letter may be the class of a share: BRK B
# "AAPL US": Bloomberg's exchange behind a ticker, which is no second one.
_EXCHANGES = frozenset({
    "US", "UN", "UW", "UQ", "UA", "UP", "LN", "GR", "GY", "GT", "FP", "JP", "JT", "HK", "CN", "CT", "CH", "CG", "CS",
    "AU", "AT", "SW", "SE", "IM", "NA", "SM", "SS", "DC", "FH", "NO", "ID", "KS", "KQ", "TT", "TB", "BZ", "MM", "SP",
    "SJ", "IN", "IS", "IB", "IT", "PW", "RM", "AV", "BB", "PL",
})  # fmt: skip


@dataclass(slots=True)
class MadeCall:
    """A tool call of the model. arguments: text, which may be no JSON. read: what was done to read it."""

    id: str
    name: str = ""
    arguments: str = ""
    read: tuple[str, ...] = ()


class CallPiece(NamedTuple):
    """A piece of a call, as a stream has it. place: its index, None of a server
    that sends none."""

    place: int | None
    id: str
    name: str
    arguments: str


class CallPieces:
    """The pieces of the calls of one answer, in their order."""

    def __init__(self) -> None:
        self._pieces: list[CallPiece] = []

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def add(self, index: Any, id_: Any, name: Any, arguments: Any) -> str:
        """Return the piece's text."""
        text = "" if arguments is None else arguments if isinstance(arguments, str) else dumped(arguments)
        place = int(index) if isinstance(index, str) and index.isdecimal() else index if type(index) is int else None
        self._pieces.append(CallPiece(place, str(id_ or ""), str(name or ""), text))
        return text or str(name or "")

    def calls(self, tools: OfferedTools | None = None) -> list[MadeCall]:
        """Return the calls. Pieces belong together by index and id; where that gives no calls that can be read, as
        servers misuse either, by one of them alone, or by the names."""
        first: list[MadeCall] | None = None
        for groups in self._groupings():
            joined = [_joined(group, tools) for group in _with_whole_names(groups, tools)]
            if first is None or all(readable for _, readable in joined):
                first = [call for call, _ in joined]
            if all(readable for _, readable in joined):
                break
        return [tools.read(call) if tools is not None else call for call in first or ()]

    def _groupings(self) -> Iterator[list[list[CallPiece]]]:
        if not self._pieces:
            return
        yield _by_marks(self._pieces)
        yield _by_key(self._pieces, [piece.id or None for piece in self._pieces])
        yield _by_key(self._pieces, [piece.place for piece in self._pieces])
        yield _by_key(self._pieces, [place if piece.name else None for place, piece in enumerate(self._pieces)])
        yield [self._pieces]


def _with_whole_names(groups: list[list[CallPiece]], tools: OfferedTools | None) -> list[list[CallPiece]]:
    """Without index and id a name in pieces looks like several calls: they are one, where none of them is a tool's."""
    if tools is None:
        return groups
    made: list[list[CallPiece]] = []
    for group in groups:
        last = made[-1] if made else None
        marked = last is None or _id(group) not in ("", _id(last)) or _index(group) is not None
        if last is not None and not marked and not _text(last) and not _means_any((last, group), tools):
            made[-1] = [*last, *group]
        else:
            made.append(group)
    return made


def _means_any(groups: Iterable[list[CallPiece]], tools: OfferedTools) -> bool:
    return any(tools.named(_name(group)) is not None for group in groups)


def _by_marks(pieces: Sequence[CallPiece]) -> list[list[CallPiece]]:
    groups: list[list[CallPiece]] = []
    by_id: dict[str, list[CallPiece]] = {}
    by_index: dict[int, list[CallPiece]] = {}
    for piece in pieces:
        found = _continued(piece, groups, by_id, by_index)
        if found is None:
            groups.append(found := [])
        found.append(piece)
        if piece.id:
            by_id[piece.id] = found
        if piece.place is not None:
            by_index[piece.place] = found
    return groups


def _continued(
    piece: CallPiece,
    groups: Sequence[list[CallPiece]],
    by_id: Mapping[str, list[CallPiece]],
    by_index: Mapping[int, list[CallPiece]],
) -> list[CallPiece] | None:
    """Return the call that a piece continues, None where it begins one."""
    at_index = by_index.get(piece.place) if piece.place is not None else None
    same_id = by_id.get(piece.id) if piece.id else None
    if same_id is not None and (piece.place is None or at_index is same_id or _index(same_id) is None):
        told = _name(same_id)
        grows = piece.name.startswith(told) and not is_json(_text(same_id))
        return same_id if piece.name in ("", told) or not told or grows else None
    if piece.place is not None:
        if at_index is None or not piece.name or not _name(at_index):
            return at_index
        other = bool(piece.id) and _id(at_index) not in ("", piece.id)
        # One index for several calls; of a server that makes a new id for each piece the call is not whole yet.
        again = (other or bool(piece.arguments)) and is_json(_text(at_index))
        return None if again or (other and piece.name != _name(at_index)) else at_index
    last = groups[-1] if groups else None
    if last is None or (piece.id and _id(last)):
        return None
    if not piece.name or not _name(last):
        return last
    return last if piece.name == _name(last) and not is_json(_text(last)) else None


def _by_key(pieces: Sequence[CallPiece], keys: Sequence[Any]) -> list[list[CallPiece]]:
    """A piece without a key continues the last call."""
    groups: dict[Any, list[CallPiece]] = {}
    last: Any = NONE
    for piece, key in zip(pieces, keys, strict=True):
        last = key if key is not None else last
        groups.setdefault(last, []).append(piece)
    return list(groups.values())


def _id(group: Sequence[CallPiece]) -> str:
    return next((piece.id for piece in group if piece.id), "")


def _index(group: Sequence[CallPiece]) -> int | None:
    return next((piece.place for piece in group if piece.place is not None), None)


def _name(group: Sequence[CallPiece]) -> str:
    return next((piece.name for piece in group if piece.name), "")


def _text(group: Sequence[CallPiece]) -> str:
    return "".join(piece.arguments for piece in group)


def _joined(group: Sequence[CallPiece], tools: OfferedTools | None) -> tuple[MadeCall, bool]:
    """Return the call of some pieces, and whether it can be read."""
    arguments, texts = _text(group), [piece.arguments for piece in group if piece.arguments]
    grows = all(later.startswith(former) for former, later in pairwise(texts))
    if len(texts) > 1 and grows and arguments_in(arguments)[0] is NONE:  # each piece has all that there is so far
        arguments = texts[-1]
    told = [piece.name for piece in group if piece.name]
    name = _one_name(told, tools)
    call = MadeCall(_id(group), name or _as_it_came(told), arguments)
    named = bool(name) and (tools is None or tools.named(name) is not None)
    return call, named and isinstance(arguments_in(arguments)[0], dict | list)


def _as_it_came(told: Sequence[str]) -> str:
    """Return a name that means no tool, whole: its first piece may be the name of another one."""
    names = list(dict.fromkeys(told))
    return names[-1] if names and all(map(names[-1].startswith, names)) else "".join(names)


def _one_name(told: Sequence[str], tools: OfferedTools | None) -> str:
    """Return the name of a call that told it several times, in pieces or as it grew; empty where that is none."""
    names = list(dict.fromkeys(told))
    if len(names) < 2:
        return names[0] if names else ""
    if tools is None:
        return ""
    grown = names[-1] if all(map(names[-1].startswith, names)) else ""
    whole = next((one for one in ("".join(told), grown) if one and tools.named(one) is not None), "")
    meant = {tools.named(one) for one in names}
    return whole or (names[0] if len(meant) == 1 and None not in meant else "")


class OfferedTools:
    """The tools that a model may call. schemas: of their arguments, by name."""

    def __init__(self, schemas: Mapping[str, Mapping[str, Any]]) -> None:
        self.schemas = schemas
        self._names = Names(schemas)

    @classmethod
    def of(cls, functions: Iterable[Mapping[str, Any]]) -> OfferedTools:
        """functions: tools of chat completions."""
        given = [tool["function"] for tool in functions]
        return cls({str(one["name"]): one.get("parameters") or {} for one in given})

    def __bool__(self) -> bool:
        return bool(self.schemas)

    def named(self, told: str) -> str | None:
        """Return the offered tool that a name means, None where it means none or another word stands beside it."""
        return self._names.read(told).tool

    def read(self, call: MadeCall) -> MadeCall:
        """Return a call with the name and arguments that it means; one that means no offered tool as it is."""
        name, within = self._names.read(call.name)
        if name is None:
            return call
        done, text = [*call.read], call.arguments
        if within is not None:
            given = arguments_in(text)[0]
            if given not in ({}, within):
                return call
            text = dumped(within)
        if name != call.name:
            done.append(f"{name} read from the name {call.name[:NAMED_CHARS]!r}")
        try:
            arguments, how = self._arguments(name, text)
        except RecursionError:  # deeper than any tool's
            arguments, how = text, []
        return MadeCall(call.id, name, arguments, (*done, *(f"{name}: {one}" for one in how)))

    def _of_another(self, name: str, given: Mapping[str, Any]) -> bool:
        """Whether arguments are wrapped as those of a tool of another name: then the call has two meanings."""
        told = given.get("name")
        return "name" not in _properties(self.schemas[name]) and isinstance(told, str) and self.named(told) != name

    def _under_its_name(self, name: str, given: dict[str, Any]) -> tuple[dict[str, Any], str]:
        key, value = next(iter(given.items()), ("", None))
        own = len(given) == 1 and key not in _properties(self.schemas[name]) and key not in _WRAPPERS
        if own and isinstance(value, dict) and self.named(key) == name:
            return value, "arguments within the tool's name"
        return given, ""

    def _arguments(self, name: str, text: str) -> tuple[str, list[str]]:
        """Return the arguments that a text means, and how it was read; the text as it is where it is plain or has no
        one meaning."""
        schema = self.schemas[name]
        given, how = arguments_in(text)
        if isinstance(given, list):
            given, how = _in_the_one_list(schema, given)
        if not isinstance(given, dict):
            return text, []
        if self._of_another(name, given):
            return text, []
        given, inner = self._under_its_name(name, given)
        given, inside = _unwrapped(schema, given)
        value, changes = coerced(schema, given)
        done = [one for one in (how, inner, inside, *changes) if one]
        return (dumped(value), done) if done else (text, [])


def _in_the_one_list(schema: Mapping[str, Any], given: list[Any]) -> tuple[Any, str]:
    """A bare list is the arguments of a tool that takes a single list, and has to have it."""
    lists = [name for name, one in _properties(schema).items() if "array" in _kinds(one)]
    alone = len(lists) == 1 and list(schema.get("required") or lists) == lists
    if alone and given and fits(_properties(schema)[lists[0]], given, schema):
        return {lists[0]: given}, f"a bare list read as {lists[0]}"
    return NONE, ""


def _unwrapped(schema: Mapping[str, Any], given: dict[str, Any]) -> tuple[dict[str, Any], str]:
    known = _properties(schema)
    others = [key for key in given if key not in ("name", "type", "id", *_WRAPPERS)]
    inner = [key for key in _WRAPPERS if key in given and key not in known]
    if len(inner) != 1 or others or any(key in known for key in given):
        return given, ""
    value = given[inner[0]]
    value = arguments_in(value)[0] if isinstance(value, str) else value
    return (value, f"arguments within {inner[0]!r}") if isinstance(value, dict) else (given, "")


# Values put into the form of a schema, where that has one meaning.


def coerced(schema: Mapping[str, Any], value: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the arguments in the form of their schema, and what was changed. What has no one meaning stays."""
    work = _Coercion(schema)
    found = work.value(schema, value, "")
    return (found, work.changes) if work.changes and isinstance(found, dict) else (value, [])


class _Coercion:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self.changes: list[str] = []

    def value(self, schema: Any, value: Any, where: str) -> Any:
        """Return the value as the schema has it."""
        node = _resolved(schema, self._root)
        if branches := node.get("anyOf") or node.get("oneOf"):
            return self._of_branches(branches, value, where)
        if "enum" in node or "const" in node:
            return self._choice(node["enum"] if "enum" in node else [node["const"]], value, where)
        kinds = _kinds(node)
        if isinstance(value, dict) and "object" in kinds:
            return self._object(node, value, where)
        if isinstance(value, list) and "array" in kinds:
            items = node.get("items")
            return self._items(items, value, where) if isinstance(items, Mapping) else value
        if not kinds or any(is_a(kind, value) for kind in kinds):
            return value
        return self._as_kind(node, kinds, value, where)

    def _items(self, items: Mapping[str, Any], value: list[Any], where: str) -> list[Any]:
        told = value
        if _kinds(_resolved(items, self._root)) == ["string"]:
            told = [one for each in value for one in (each if isinstance(each, list) else [each])]
            if _is_tickers(where):
                told = [one for each in told for one in (_tickers_in(each) if isinstance(each, str) else [each])]
            if told != value:
                self._changed(where, f"{_shown(value)} read as {_shown(told)}")
        return [self.value(items, one, where) for one in told]

    def _as_kind(self, node: Mapping[str, Any], kinds: Sequence[str], value: Any, where: str) -> Any:
        found = [one for kind in kinds if (one := _as(kind, value, node, where)) is not NONE]
        if len(found) != 1:
            return value
        before = len(self.changes)
        made = self.value(node, found[0], where) if isinstance(found[0], dict | list) else found[0]
        if not fits(node, made, self._root):
            del self.changes[before:]
            return value
        self._changed(where, f"{_shown(value)} read as {_shown(made)}")
        return made

    def _of_branches(self, branches: Sequence[Any], value: Any, where: str) -> Any:
        before = list(self.changes)
        fitting = [one for one in branches if fits(_resolved(one, self._root), value, self._root)]
        made: list[tuple[Any, list[str]]] = []
        for branch in fitting[:1] or branches:
            self.changes = list(before)
            found = self.value(branch, value, where)
            if fits(_resolved(branch, self._root), found, self._root) and all(found != one for one, _ in made):
                made.append((found, self.changes))
        found, self.changes = made[0] if len(made) == 1 else (value, before)
        return found

    def _choice(self, choices: Sequence[Any], value: Any, where: str) -> Any:
        if any(value == one and type(value) is type(one) for one in choices):
            return value
        alike = [one for one in choices if str(one).casefold() == str(value).strip().casefold()]
        if len(alike) != 1 or isinstance(value, dict | list):
            return value
        self._changed(where, f"{_shown(value)} read as {_shown(alike[0])}")
        return alike[0]

    def _object(self, node: Mapping[str, Any], value: dict[str, Any], where: str) -> dict[str, Any]:
        known, required = _properties(node), node.get("required") or ()
        made: dict[str, Any] = {}
        for key, one in value.items():
            name = self._property(key, value, known, where)
            inside = f"{where}.{name}" if where else name
            found = self.value(known[name], one, inside) if name in known else one
            if found is None and name in known and name not in required and not fits(known[name], None, self._root):
                self._changed(inside, "null left out")
                continue
            made[name] = found
        return made

    def _property(self, key: str, value: Mapping[str, Any], known: Mapping[str, Any], where: str) -> str:
        if key in known or not known:
            return key
        told = _alike(key)
        alike = [name for name in known if name not in value and _alike(name) == told]
        if len(alike) != 1 or not told or sum(_alike(other) == told for other in value) > 1:
            return key
        self._changed(where, f"{key[:NAMED_CHARS]!r} read as {alike[0]!r}")
        return alike[0]

    def _changed(self, where: str, what: str) -> None:
        self.changes.append(f"{where}: {what}" if where else what)


def _alike(key: str) -> str:
    word = plain_letters(key)
    return "symbol" if word in _TICKERS else word.rstrip("s")


def _as(kind: str, value: Any, node: Mapping[str, Any], where: str) -> Any:
    """Return a value as one of this kind, NONE where it is none."""
    text = value.strip() if isinstance(value, str) else None
    if kind == "array":
        return _list(text, value, node.get("items"), where) if value is not None else NONE
    if kind == "object":
        found = value_in(text) if text is not None else NONE
        return found if isinstance(found, dict) else NONE
    if kind == "null":
        return None if text is not None and text.lower() in ("null", "none", "") else NONE
    if isinstance(value, list) and len(value) == 1 and not isinstance(value[0], dict | list):
        return value[0] if is_a(kind, value[0]) else _as(kind, value[0], node, where)
    if kind == "string":
        return str(value) if _is_figure(value) else NONE
    if kind == "boolean":
        return text.lower() == "true" if text is not None and text.lower() in ("true", "false") else NONE
    return _figure(kind, text, value)


def _is_figure(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _MOST_NUMBER


def _figure(kind: str, text: str | None, value: Any) -> Any:
    number: Any = value if isinstance(value, float) else None
    if text is not None and len(text) <= _NUMBER_CHARS and _NUMBER.fullmatch(text):
        number = int(text) if text.lstrip("+-").isdecimal() else float(text)
    elif text is not None and len(text) <= _NUMBER_CHARS and _GROUPED.fullmatch(text):
        number = int(text.replace(",", "").replace("_", ""))
    if number is None or number != number or abs(number) > _MOST_NUMBER:
        return NONE
    if kind == "integer":
        return int(number) if number == int(number) else NONE
    return number


def _is_tickers(where: str) -> bool:
    return plain_letters(where.rpartition(".")[2]) in _TICKERS


def _tickers_in(text: str) -> list[str]:
    """Return the tickers that a text is, and the text alone where it may be something else."""
    bare = text.strip().strip("[](){}")
    found: list[str] = []
    for part in _TICKERS_APART.split(bare):
        word = part.strip(" \t\r\"'`")
        among = word.split()
        if len(among) > 1 and all(_AMONG_BLANKS.fullmatch(one) and one not in _EXCHANGES for one in among):
            found += among
        elif word and _TICKER.fullmatch(word) is None:
            return [text]
        elif word:
            found.append(word)
    return found or [text]


def _list(text: str | None, value: Any, items: Any, where: str) -> Any:
    if text is None:
        return [value]
    if not text or text.lower() in ("null", "none"):
        return NONE
    if _is_tickers(where) and not text.startswith("["):
        return _tickers_in(text)
    if text.startswith("["):
        found = value_in(text)
        if found is NONE and len(text) <= _LITERAL_CHARS:
            try:
                found = ast.literal_eval(text)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                found = [part.strip() for part in text.strip("[]").split(",")] if text.endswith("]") else NONE
                found = found if found is not NONE and all(map(_WORD.fullmatch, found)) else NONE
        return found if isinstance(found, list) else NONE
    if isinstance(items, Mapping) and "object" in _kinds(items):
        found = value_in(text)
        return [found] if isinstance(found, dict) else NONE
    parts = [part.strip() for part in text.rstrip(", ").split(",")]
    return parts if "," in text and all(map(_WORD.fullmatch, parts)) else [value]


def _shown(value: Any) -> str:
    text = dumped(value)
    return text if len(text) <= NAMED_CHARS else f"{text[:NAMED_CHARS]}..."


def _resolved(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    node = schema if isinstance(schema, Mapping) else {}
    for _ in range(_DEEP):
        if "$ref" not in node:
            break
        node = {**root.get("definitions", {}), **root.get("$defs", {})}.get(str(node["$ref"]).rpartition("/")[2]) or {}
    parts = node.get("allOf")
    return {**parts[0], **node} if isinstance(parts, list) and len(parts) == 1 and "type" not in node else node


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found = schema.get("properties")
    return found if isinstance(found, Mapping) else {}


def _kinds(node: Any) -> Sequence[str]:
    kind = node.get("type") if isinstance(node, Mapping) else None
    return [str(one) for one in kind] if isinstance(kind, list) else [str(kind)] if kind is not None else []


def fits(schema: Mapping[str, Any], value: Any, root: Mapping[str, Any] | None = None) -> bool:
    """Types, names and literals alone: formats and bounds are the role's own check."""
    root = root if root is not None else schema
    if "$ref" in schema:
        found = root.get("$defs", {}).get(str(schema["$ref"]).rpartition("/")[2])
        return found is None or fits(found, value, root)
    if branches := schema.get("anyOf") or schema.get("oneOf"):
        return any(fits(branch, value, root) for branch in branches)
    if "const" in schema or "enum" in schema:
        return bool(value == schema["const"] if "const" in schema else value in schema["enum"])
    kinds = schema.get("type")
    if kinds is not None and not any(is_a(kind, value) for kind in (kinds if isinstance(kinds, list) else [kinds])):
        return False
    if isinstance(value, dict):
        properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
        return all(name in value for name in schema.get("required") or ()) and all(
            fits(properties[name], one, root) if name in properties else others is not False
            for name, one in value.items()
        )
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        return all(fits(schema["items"], one, root) for one in value)
    return True


_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "number": (int, float), "integer": (int,),
    "boolean": (bool,), "null": (type(None),),
}  # fmt: skip


def is_a(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES.get(kind, (object,)))
