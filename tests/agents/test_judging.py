"""The judgement of a turn whose answer was cut off at its length: what its runtime says of it counts."""

from __future__ import annotations

import json

import pytest

from chordesk.agents.answers import GO_ON, fault, judge, next_text
from chordesk.agents.runtime import TurnResult
from chordesk.models.answers import Completed, Failed, Usage, ValidatorOutput

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


def test_a_server_that_may_have_a_limit_of_its_own_is_named() -> None:
    judged = judge(ended(ANSWER[:50], cut=False), ValidatorOutput)
    assert isinstance(judged.outcome, Failed)
    assert judged.outcome.message.endswith("or the limit of the server itself")


def test_a_rest_that_does_not_fit_the_schema_is_still_a_cut_off_answer() -> None:
    judged = judge(ended('"maybe","confidence":"low","summary":"x","keyRisks":[]}'), ValidatorOutput, '{"verdict":')
    assert isinstance(judged.outcome, Failed)
    assert judged.outcome.kind == "length"
