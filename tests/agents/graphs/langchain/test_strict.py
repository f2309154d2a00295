"""Schemas in strict mode's rules: what the checker refuses, and that nothing is lost by the translation."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.agents.graphs.langchain.ephemeral_turns import AnswerShape, ToolSchemaError, reply_format
from chordesk.agents.graphs.langchain.strict_schemas import MAX_DEPTH, problems, strict
from tests.fakes.obedient import fill


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object", "properties": properties, "required": list(properties), "additionalProperties": False
    }  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ({"type": "string"}, "the root: must be an object"),
        ({"anyOf": [closed()], "type": "object"}, "the root: must be an object"),
        (closed(a={"oneOf": [{"type": "string"}]}), "properties/a: has oneOf"),
        (closed(a={}), "properties/a: has no type"),
        (closed(a={"type": "date"}), "properties/a: has the type 'date'"),
        (closed(a=True), "properties/a: is True in place of a schema"),
        (closed(a={"const": 1}), "properties/a: has const without a type"),
        (closed(a={"type": "array"}), "properties/a: is an array without items"),
        (closed(a={"type": "object", "properties": {}}), "properties/a: must have additionalProperties: false"),
        ({**closed(a={"type": "string"}), "required": []}, "the root: must require a"),
        (closed(a={"type": "array", "items": closed(b={})}), "properties/a/items/properties/b: has no type"),
        (closed(a={"type": "string", "enum": [str(n) for n in range(1001)]}), "1001 enum values, at most 1000"),
        (closed(**{f"p{n}": {"type": "string"} for n in range(5001)}), "5001 properties, at most 5000"),
        (closed(**{"x" * 120_001: {"type": "string"}}), "120001 characters"),
        ({**closed(), "$defs": {"D": {"not": {}}}}, "$defs/D: has not"),
    ],
)
def test_a_part_that_strict_mode_refuses_is_named(schema: dict[str, Any], found: str) -> None:
    assert found in "; ".join(map(str, problems(schema)))


def test_nesting_has_a_limit() -> None:
    def nested(levels: int) -> dict[str, Any]:
        return closed(a=nested(levels - 1)) if levels > 1 else closed()

    assert problems(nested(MAX_DEPTH)) == []
    assert "more than 10 levels" in str(problems(nested(MAX_DEPTH + 1))[0])


def test_optional_arguments_become_nullable_and_their_nulls_are_dropped() -> None:
    schema = {
        "type": "object",
        "properties": {
            "symbol": {"type": "string", "minLength": 1},
            "days": {"type": "integer", "default": 5},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "kind": {"enum": ["a", "b"], "type": "string"},
        },
        "required": ["symbol", "note"],
    }
    found = strict(schema)
    assert problems(found.schema) == []
    assert found.schema["properties"]["days"]["type"] == ["integer", "null"]
    assert found.schema["properties"]["kind"] == {"type": ["string", "null"], "enum": ["a", "b", None]}
    given = {"symbol": "IBM", "days": None, "note": None, "kind": None}
    assert found.decode(given) == {"symbol": "IBM", "note": None}


def test_a_definition_may_refer_to_itself() -> None:
    tree = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}}}
    schema = {"type": "object", "properties": {"root": {"$ref": "#/$defs/Tree"}}, "$defs": {"Tree": tree}}
    found = strict(schema, prefix="grow__")
    assert problems(found.schema) == []
    assert set(found.schema["$defs"]) == {"grow__Tree"}
    assert found.decode({"root": {"kids": [{"kids": None}]}}) == {"root": {"kids": [{}]}}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        closed(a={"$ref": "#/$defs/A"}) | {"$defs": {"A": {"$ref": "#/$defs/A"}}},
        closed(a={"$ref": "#/$defs/A"}) | {"$defs": {"A": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/B"}]},
                                                     "B": {"allOf": [{"$ref": "#/$defs/A"}]}}},
    ],
)  # fmt: skip
def test_a_definition_that_is_nothing_but_itself_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ToolSchemaError, match="refers to itself with no property or item between"):
        reply_format(answer=AnswerShape(schema, lambda value: value))


@pytest.mark.parametrize(
    "part",
    [
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "number"}},
        {"type": "array"},
        {},
        {"not": {"type": "string"}},
        {"type": "array", "prefixItems": [{"type": "string"}]},
    ],
)
def test_parts_beyond_strict_mode_travel_as_json_text(part: dict[str, Any]) -> None:
    found = strict({"type": "object", "properties": {"x": part}, "required": ["x"]})
    assert problems(found.schema) == []
    assert found.schema["properties"]["x"]["type"] == "string"
    assert found.decode({"x": '{"a": [1, 2]}'}) == {"x": {"a": [1, 2]}}
    with pytest.raises(ValueError, match="'nonsense' is to be JSON text"):
        found.decode({"x": "nonsense"})


def test_the_branch_that_a_value_is_of_decodes_it() -> None:
    cat = {
        "type": "object",
        "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}},
        "required": ["kind"],
    }
    dog = {"type": "object", "properties": {"kind": {"const": "dog"}, "tags": {"type": "object"}}, "required": ["kind"]}
    schema = {"type": "object", "properties": {"pet": {"oneOf": [cat, dog]}}, "required": ["pet"]}
    found = strict(schema)
    assert problems(found.schema) == []
    assert found.decode({"pet": {"kind": "cat", "lives": None}}) == {"pet": {"kind": "cat"}}
    assert found.decode({"pet": {"kind": "dog", "tags": '{"a":1}'}}) == {"pet": {"kind": "dog", "tags": {"a": 1}}}


_LEAF = st.sampled_from(
    [
        {"type": "string"},
        {"type": "integer"},
        {"type": "boolean"},
        {"type": ["number", "null"]},
        {"enum": ["a", "b"]},
        {"const": 7},
        {"type": "object"},
        {"type": "string", "minLength": 2, "default": "xx", "title": "T"},
    ]
)


def _schemas(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.lists(st.sampled_from("abcde"), max_size=4, unique=True)

    @st.composite
    def objects(draw: Any) -> dict[str, Any]:
        keys = draw(names)
        required = draw(st.lists(st.sampled_from(keys), unique=True)) if keys else []
        return {"type": "object", "properties": {key: draw(children) for key in keys}, "required": required}

    return st.one_of(
        objects(),
        children.map(lambda items: {"type": "array", "items": items}),
        children.map(lambda one: {"anyOf": [one, {"type": "null"}]}),
        children.map(lambda one: {"allOf": [one]}),
    )


@given(st.recursive(_LEAF, _schemas, max_leaves=8))
def test_any_schema_is_taken_and_its_answers_fit_the_original(schema: dict[str, Any]) -> None:
    whole = {"type": "object", "properties": {"x": schema}, "required": ["x"]}
    found = strict(whole)
    # Nesting is the caller's own.
    assert [one for one in problems(found.schema) if "levels" not in one.text] == []
    sent = json.loads(json.dumps(found.schema))
    value = fill(sent, "'xx' 5", sent, final=True)
    jsonschema.validate(value, sent)
    text_parts = _texts(value, sent)
    jsonschema.validate(found.decode(text_parts), whole)


def _texts(value: Any, node: dict[str, Any]) -> Any:
    """Return a value with JSON of an object in place of strings that stand for what strict mode cannot say."""
    if "anyOf" in node:
        return _texts(value, node["anyOf"][0])
    if isinstance(value, dict):
        return {name: _texts(one, node["properties"][name]) for name, one in value.items()}
    if isinstance(value, list):
        return [_texts(one, node["items"]) for one in value]
    return "{}" if "JSON text" in node.get("description", "") else value
