"""Schemas that the hosted strict mode takes: a checker of its rules, and the translation of any JSON schema into them.

Rules, as documented for structured outputs: the root is an object; no oneOf, allOf, not, if or dependent keywords;
every property is required and no other is allowed; no schema without a type; const has a type; at most 5,000
properties, 10 levels, 1,000 enum values and 120,000 characters of names and values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

Schema = dict[str, Any]
Decoder = Callable[[Any], Any]

MAX_PROPERTIES, MAX_DEPTH, MAX_ENUM, MAX_CHARS = 5_000, 10, 1_000, 120_000
FORBIDDEN = (
    "oneOf", "allOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies",
    "patternProperties", "propertyNames", "unevaluatedProperties", "prefixItems", "contains",
)  # fmt: skip
REFERENCE = "#/$defs/"


class SchemaProblem(NamedTuple):
    """A part of a schema that strict mode refuses. path: such as properties/when/anyOf/1."""

    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path or 'the root'}: {self.text}"


def problems(schema: Any) -> list[SchemaProblem]:
    """Return what strict mode would refuse of a schema, in the order of its parts; nothing for one that it takes."""
    if not isinstance(schema, dict) or schema.get("type") != "object" or "anyOf" in schema:
        return [SchemaProblem("", "must be an object with properties")]
    found = list(_problems(schema, "", 1))
    nodes = list(_nodes(schema))
    properties = sum(len(node.get("properties") or ()) for node in nodes)
    values = [value for node in nodes for value in node.get("enum") or ()]
    names = [name for node in nodes for name in (*(node.get("properties") or ()), *(node.get("$defs") or ()))]
    chars = sum(len(str(text)) for text in (*names, *values))
    sizes = (
        (properties, MAX_PROPERTIES, "properties"),
        (len(values), MAX_ENUM, "enum values"),
        (chars, MAX_CHARS, "characters of names and enum values"),
    )
    found += [SchemaProblem("", f"{size} {what}, at most {most}") for size, most, what in sizes if size > most]
    return found


def _problems(node: Any, path: str, depth: int) -> Iterator[SchemaProblem]:
    if not isinstance(node, dict):
        yield SchemaProblem(path, f"is {node!r} in place of a schema")
        return
    if depth > MAX_DEPTH:
        yield SchemaProblem(path, f"is nested more than {MAX_DEPTH} levels deep")
        return
    yield from (SchemaProblem(path, f"has {key}") for key in FORBIDDEN if key in node)
    if "const" in node and "type" not in node:
        yield SchemaProblem(path, "has const without a type")
    yield from (SchemaProblem(path, f"has the type {one!r}") for one in _types(node) if one not in _NAMES.values())
    if not {"type", "anyOf", "$ref", "enum", "const"} & node.keys():
        yield SchemaProblem(path, "has no type")
    if "object" in _types(node):
        yield from _object_problems(node, path)
    if "array" in _types(node) and "items" not in node:
        yield SchemaProblem(path, "is an array without items")
    for name, child in _children(node):
        yield from _problems(child, f"{path}/{name}".lstrip("/"), depth + (not name.startswith("anyOf")))


def _object_problems(node: Schema, path: str) -> Iterator[SchemaProblem]:
    if node.get("additionalProperties") is not False:
        yield SchemaProblem(path, "must have additionalProperties: false")
    missing = [name for name in node.get("properties") or () if name not in (node.get("required") or ())]
    if missing:
        yield SchemaProblem(path, f"must require {', '.join(missing)}")


def _types(node: Mapping[str, Any]) -> Sequence[str]:
    kind = node.get("type")
    return kind if isinstance(kind, list) else [kind] if kind is not None else []


def _children(node: Schema) -> Iterator[tuple[str, Any]]:
    for key in ("properties", "$defs"):
        yield from ((f"{key}/{name}", child) for name, child in (node.get(key) or {}).items())
    if "items" in node:
        yield "items", node["items"]
    yield from ((f"anyOf/{place}", child) for place, child in enumerate(node.get("anyOf") or ()))


def _nodes(node: Any) -> Iterator[Schema]:
    if isinstance(node, dict):
        yield node
        for _, child in _children(node):
            yield from _nodes(child)


# What strict mode keeps of a schema beside its structure.
_KEPT = (
    "description", "enum", "pattern", "format", "multipleOf", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "minItems", "maxItems",
)  # fmt: skip
_TEXT = "as JSON text"


class StrictSchema(NamedTuple):
    """A schema in strict mode's rules. decode: returns a value as the original schema has it: optional nulls absent,
    JSON text parsed. Raises ValueError for invalid JSON text."""

    schema: Schema
    decode: Decoder


def strict(schema: Mapping[str, Any], prefix: str = "") -> StrictSchema:
    """What strict rules cannot express travels as JSON text. prefix: of the names of its definitions."""
    return _Translation(schema, prefix).whole()


class _Translation:
    """The translation of one schema with its definitions."""

    def __init__(self, schema: Mapping[str, Any], prefix: str) -> None:
        self._root, self._prefix = schema, prefix
        self._defs = {**schema.get("definitions", {}), **schema.get("$defs", {})}
        self._made: dict[str, Schema] = {}
        self._decoders: dict[str, Decoder] = {}

    def whole(self) -> StrictSchema:
        """Raises ValueError for a definition that is nothing but itself: no value fits it, and no end is to it."""
        for name in (whole := {**self._defs, "#": self._root}):
            reached, left = set[str](), list(_referred(whole[name]))
            while left:
                if (one := left.pop()) == name:
                    raise ValueError(f"{name!r} refers to itself with no property or item between")
                if one in whole and one not in reached:
                    reached.add(one)
                    left += _referred(whole[one])
        found, decode = self._node(self._root)
        return StrictSchema({**found, "$defs": self._made} if self._made else found, decode)

    def _node(self, node: Any) -> tuple[Schema, Decoder]:
        if not isinstance(node, Mapping):
            return _as_text({})
        if "$ref" in node:
            return self._reference(node)
        if (single := _only(node)) is not None:
            return self._node(single)
        if branches := node.get("anyOf") or node.get("oneOf"):
            return self._branches(node, branches)
        if "const" in node:
            return {**_described(node), **_typed([node["const"]]), "enum": [node["const"]]}, _same
        kinds = _types(node)
        if any(key in node for key in FORBIDDEN) or not (kinds or "enum" in node):
            return _as_text(node)
        if "object" in kinds:
            return self._object(node, nullable="null" in kinds)
        if "array" in kinds:
            return self._array(node, nullable="null" in kinds)
        kept = {key: node[key] for key in _KEPT if key in node}
        return {**_typed(node.get("enum") or ()), **({"type": node["type"]} if kinds else {}), **kept}, _same

    def _reference(self, node: Mapping[str, Any]) -> tuple[Schema, Decoder]:
        name = str(node["$ref"]).rpartition("/")[2]
        if name not in self._defs:
            return _as_text(node)
        new = f"{self._prefix}{name}"
        if new not in self._decoders:
            self._decoders[new] = _same  # while it is being made: it may refer to itself
            found, decode = self._node(self._defs[name])
            self._made[new], self._decoders[new] = found, decode
        return {"$ref": f"{REFERENCE}{new}"}, lambda value: self._decoders[new](value)

    def _branches(self, node: Mapping[str, Any], branches: Sequence[Any]) -> tuple[Schema, Decoder]:
        made = [self._node(branch) for branch in branches]
        decoders = [(self._resolved(found), decode) for found, decode in made]

        def decode(value: Any) -> Any:
            return next((one(value) for branch, one in decoders if _fits(branch, value)), value)

        return {**_described(node), "anyOf": [found for found, _ in made]}, decode

    def _resolved(self, node: Schema) -> Callable[[], Schema]:
        reference = node.get("$ref")
        if reference is None:
            return lambda: node
        return lambda: self._made[reference.removeprefix(REFERENCE)]

    def _array(self, node: Mapping[str, Any], *, nullable: bool) -> tuple[Schema, Decoder]:
        if not isinstance(node.get("items"), Mapping):
            return _as_text(node)
        items, decode = self._node(node["items"])
        kept = {key: node[key] for key in _KEPT if key in node}
        found = {"type": ["array", "null"] if nullable else "array", **kept, "items": items}
        return found, lambda value: [decode(one) for one in value] if isinstance(value, list) else value

    def _object(self, node: Mapping[str, Any], *, nullable: bool) -> tuple[Schema, Decoder]:
        properties = node.get("properties")
        if not properties and "properties" not in node and node.get("additionalProperties") is not False:
            return _as_text(node)
        if isinstance(node.get("additionalProperties"), Mapping):
            return _as_text(node)
        required = set(node.get("required") or ())
        made = {name: self._node(child) for name, child in (properties or {}).items()}
        optional = {name for name in made if name not in required and not _takes_null(made[name][0])}
        found = {
            "type": ["object", "null"] if nullable else "object",
            **_described(node),
            "properties": {name: _nullable(child) if name in optional else child for name, (child, _) in made.items()},
            "required": list(made),
            "additionalProperties": False,
        }
        absent = {name for name in made if name not in required}

        def decode(value: Any) -> Any:
            if not isinstance(value, dict):
                return value
            given = {name: one for name, one in value.items() if not (one is None and name in absent)}
            return {
                name: made[name][1](one) if name in made and one is not None else one for name, one in given.items()
            }

        return found, decode


def _referred(node: Any) -> Iterator[str]:
    """Yield the definitions that a value of this schema is to fit itself, not its properties or items."""
    if not isinstance(node, Mapping):
        return
    if "$ref" in node:
        yield str(node["$ref"]).rpartition("/")[2]
    for key in ("anyOf", "oneOf", "allOf"):
        for branch in node.get(key) or ():
            yield from _referred(branch)


def _same(value: Any) -> Any:
    return value


def _only(node: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the one schema of an allOf, with what stands beside it; None for any other node."""
    parts = node.get("allOf")
    if not isinstance(parts, list) or len(parts) != 1 or not isinstance(parts[0], Mapping):
        return None
    return {**parts[0], **{key: value for key, value in node.items() if key != "allOf"}}


def _as_text(node: Mapping[str, Any]) -> tuple[Schema, Decoder]:
    """Return a string in place of what strict mode cannot express, with the original in its description."""
    shown = orjson.dumps({key: value for key, value in node.items() if key != "description"}).decode()
    parts = (str(node.get("description") or "").rstrip("."), f"{_TEXT} of the schema {shown[:2000]}")
    return {"type": "string", "description": "; ".join(filter(None, parts))}, _parsed


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"{value[:80]!r} is to be JSON text: {error}") from None


def _described(node: Mapping[str, Any]) -> Schema:
    return {"description": node["description"]} if isinstance(node.get("description"), str) else {}


_NAMES = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
    list: "array",
    dict: "object",
}


def _typed(values: Sequence[Any]) -> Schema:
    names = list(dict.fromkeys(_NAMES[type(value)] for value in values))
    return {"type": names[0] if len(names) == 1 else names} if names else {}


def _takes_null(node: Schema) -> bool:
    return "null" in _types(node) or any(_takes_null(branch) for branch in node.get("anyOf") or ())


def _nullable(node: Schema) -> Schema:
    if "anyOf" in node:
        return {**node, "anyOf": [*node["anyOf"], {"type": "null"}]}
    if "$ref" in node:
        return {"anyOf": [node, {"type": "null"}]}
    enum = {"enum": [*node["enum"], None]} if "enum" in node else {}
    return {**node, "type": [*_types(node), "null"], **enum}


def _fits(branch: Callable[[], Schema], value: Any) -> bool:
    node = branch()
    if "anyOf" in node:
        return any(_fits(lambda one=one: one, value) for one in node["anyOf"])  # type: ignore[misc]
    if "enum" in node and value not in node["enum"]:
        return False
    name = _NAMES.get(type(value), "")
    if name not in _types(node) and not (name == "integer" and "number" in _types(node)):
        return False
    if not isinstance(value, dict):
        return True
    properties = node.get("properties") or {}
    return set(value) == set(properties) and all(
        "enum" not in child or value[key] in child["enum"] for key, child in properties.items()
    )
