"""Answers in what models write: reasoning, fences, copies, and pieces of one that was cut off."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from chordesk.agents.runtime import TurnResult
from chordesk.agents.turn_answers import GO_ON, answer_in, continued, fault, judge, next_text
from chordesk.models.analysis import ValidatorOutput
from chordesk.models.answers import Completed, Failed, Usage

VALUE = {
    "verdict": "CONFIRMED", "summary": 'It {is} "steady" at 180.5, [12 %].', "rate": -1.5, "keyRisks": ["a", None, True]
}  # fmt: skip
JSON = json.dumps(VALUE)
OTHER = JSON.replace("CONFIRMED", "REJECT")


def fits(text: str) -> bool:
    return bool(json.loads(text).keys() == VALUE.keys())


@pytest.mark.parametrize(
    ("text", "done"),
    [
        (JSON, ()),
        (f"\n  {JSON}\n", ()),
        (f"```json\n{JSON}\n```", ("fence taken off",)),
        (f"Sure, here is the JSON: {JSON} Tell me {{more}}!", ("text around it left out",)),
        (f"[{JSON}]", ("text around it left out",)),
        (f"{JSON}\n{JSON}", ("its copy left out",)),
        (f'{{"thought": "hm"}} {JSON}', ("what does not fit left out",)),
        (JSON.replace("null, true]", "null, true,]"), ("a trailing comma left out",)),
        (f"<think>First {OTHER}, then</think>{JSON}", ("reasoning left out",)),
        (f"<think>a<think>{OTHER}</think>b</think>\n\n{JSON}", ("reasoning left out",)),
        (f"So {OTHER} it is.\n</think>\n{JSON}", ("reasoning left out",)),
        (f"[THINK]{OTHER}[/THINK]```\n{JSON}\n```", ("reasoning left out", "fence taken off")),
        (f"<|START_THINKING|>{OTHER}<|END_THINKING|>{JSON}", ("reasoning left out",)),
        (f"◁think▷{OTHER}◁/think▷{JSON}", ("reasoning left out",)),
        (
            f"<|channel|>analysis<|message|>Say {OTHER}<|end|><|start|>assistant"
            f"<|channel|>final <|constrain|>json<|message|>{JSON}<|return|>",
            ("reasoning left out",),
        ),
        (f"analysisWe need {OTHER}.assistantfinal{JSON}", ("reasoning left out",)),
    ],
)
def test_the_answer_is_read_out_of_what_stands_around_it(text: str, done: tuple[str, ...]) -> None:
    found = answer_in(text, fits)
    assert (found.problem, found.cut, found.done) == (None, False, done)
    assert json.loads(found.text) == VALUE


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("I think so.", "no JSON object"),
        ("", "no JSON object"),
        ("{", "no JSON object"),
        ("[1, 2]", "no JSON object"),
        ("{ I think }", "no JSON object"),
        ('{"verdict": CONFIRMED}', "no JSON object"),
        (f"<think>It is {JSON}", "reasoning alone"),
        (f"<|channel|>analysis<|message|>It is {JSON}", "reasoning alone"),
        (f"{JSON} {OTHER}", "2 different answers"),
        ('{"a": 1} {"a": 2} {"a": 3}', "3 different answers"),
        (f"{JSON} {OTHER[:60]}", "a second answer begins"),
    ],
)
def test_what_is_no_answer_or_more_than_one_is_said_to_be_so(text: str, problem: str) -> None:
    found = answer_in(text, fits)
    assert found.problem is not None
    assert problem in found.problem
    assert not found.cut


def test_line_ends_within_a_text_have_one_meaning() -> None:
    found = answer_in('{"summary": "first\nsecond"}')
    assert (json.loads(found.text), found.done) == ({"summary": "first\nsecond"}, ("line ends in its texts escaped",))


def test_a_tag_within_a_text_of_the_answer_is_part_of_it() -> None:
    text = json.dumps({**VALUE, "summary": "the <think> tag of </think>"})
    assert answer_in(f"Here: {text}", fits).text == text


def test_without_a_schema_two_different_objects_are_no_answer() -> None:
    assert "2 different" in str(answer_in(f'{{"thought": "hm"}} {JSON}').problem)


@pytest.mark.parametrize("at", range(2, len(JSON)))
def test_a_beginning_is_cut_off_and_its_rest_completes_it(at: int) -> None:
    begun, rest = JSON[:at], JSON[at:]
    found = answer_in(f"```json\n{begun}")
    assert (found.cut, found.text) == (True, begun)
    pieces = (rest, f"```json\n{rest}\n```", f"<think>go {{on</think>{rest}", JSON[max(at - 20, 0) :])
    for piece in pieces:
        whole = continued(begun, piece, fits)
        if begun.endswith(("-", "1", "1.", "1.5")) and '"rate": ' in begun:
            assert "within a number" in str(whole.problem)
        else:
            assert json.loads(whole.text) == VALUE, piece


def test_a_model_that_begins_again_is_taken_at_its_second_word() -> None:
    found = continued(OTHER[:40], f"Sorry: {JSON}", fits)
    assert (json.loads(found.text), found.done[-1]) == (VALUE, "written again after it was cut off")


@pytest.mark.parametrize("rest", ["", "I cannot go on.", JSON[50:70], "<think>and then", '{"other": 1}'])
def test_a_rest_that_completes_nothing_leaves_the_answer_cut_off(rest: str) -> None:
    found = continued(JSON[:40], rest, fits)
    assert (found.cut, found.text) == (True, JSON[:40])
    assert found.problem is not None


VALUES = some.recursive(
    some.none() | some.booleans() | some.integers(-999, 999) | some.text(max_size=12),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(some.dictionaries(some.text(min_size=1, max_size=5), VALUES, min_size=1, max_size=4), some.data())
def test_any_object_is_read_as_json_reads_it_and_any_beginning_is_one(
    value: dict[str, object], data: some.DataObject
) -> None:
    text = json.dumps(value, ensure_ascii=data.draw(some.booleans()))
    assert json.loads(answer_in(f"Well: {text}. Good?").text) == value
    at = data.draw(some.integers(2, len(text) - 1))
    found = answer_in(text[:at])
    assert (found.cut, found.text) == (True, text[:at])


@pytest.mark.parametrize(
    "text",
    ["{" * 100_000, '{"a":' * 50_000, '{"a":1 x' * 20_000, "<think>" * 20_000, '"' * 50_001 + '{"a', "```" * 30_000,
     "<|channel|>final" * 10_000, '{"":' * 50_000 + "1" + "}" * 50_000],
)  # fmt: skip
def test_a_text_without_end_is_read_in_linear_time(text: str) -> None:
    """A quadratic one would take minutes, beyond the test's own limit."""
    assert answer_in(text).problem is not None
    assert continued('{"a": "b', text, lambda _text: False).problem is not None


ANSWER = json.dumps({"verdict": "CAUTION", "confidence": "low", "summary": "It fell 4.2 %.", "keyRisks": []})


def ended(text: str, *, cut: bool = True) -> TurnResult:
    usage = Usage(output_tokens=8_000)
    return TurnResult("thread", "turn", "completed", text, usage, None, None, cut=cut)


def test_a_whole_answer_counts_although_more_was_cut_off() -> None:
    judged = judge(ended(f"{ANSWER}\nAnd so on, and so on, and"), ValidatorOutput)
    assert isinstance(judged.outcome, Completed)
    assert judged.done == ("text around it left out",)


def test_a_beginning_is_gone_on_with() -> None:
    judged = judge(ended(ANSWER[:50]), ValidatorOutput)
    assert isinstance(judged.outcome, Failed)
    assert judged.outcome.kind == "length"
    assert judged.outcome.message.startswith("the answer was cut off after 50 characters, 8,000 tokens; raise DESK_OUT")
    assert (judged.begun, next_text(judged.outcome, judged.begun)) == (ANSWER[:50], GO_ON)
    whole = judge(ended(ANSWER[50:], cut=False), ValidatorOutput, judged.begun)
    assert isinstance(whole.outcome, Completed)


@pytest.mark.parametrize("text", ["Once upon a time", "<think>It may be that", ""])
def test_what_was_cut_off_before_an_answer_began_is_asked_for_no_more(text: str) -> None:
    judged = judge(ended(text), ValidatorOutput)
    assert isinstance(judged.outcome, Failed)
    assert (judged.outcome.kind, judged.begun) == ("length", None)
    assert next_text(judged.outcome, judged.begun) is None


def test_prose_that_was_not_cut_off_is_repaired() -> None:
    judged = judge(ended("Once upon a time", cut=False), ValidatorOutput)
    assert isinstance(judged.outcome, Failed)
    assert judged.outcome.kind == "invalid_output"
    assert str(next_text(judged.outcome, None)).endswith("; the answer began: 'Once upon a time'")
    assert fault(judged.outcome) == "the answer: there is no JSON object in it"


def test_a_rest_that_does_not_fit_the_schema_is_still_a_cut_off_answer() -> None:
    judged = judge(ended('"maybe","confidence":"low","summary":"x","keyRisks":[]}'), ValidatorOutput, '{"verdict":')
    assert isinstance(judged.outcome, Failed)
    assert judged.outcome.kind == "length"
