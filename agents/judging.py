"""The judgement of one turn: its outcome by the role's schema, and what the model is asked after an answer that is not
taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from chordesk.agents.answer_text import AnswerText, Fits, answer_in, continued
from chordesk.agents.pulse import RAISE
from chordesk.agents.runtime import TurnResult
from chordesk.models.research import Completed, Failed, Interrupted, Outcome, Refused

_EXCERPT_CHARS = 300
# Stands between the fault of an answer and its first characters.
_EXCERPT_MARK = "; the answer began: "
GO_ON = (
    "Your answer was cut off. Go on exactly where it ended, with the rest of the JSON alone. If you can only write a "
    "whole answer, write it again, and shorter."
)


class Judged(NamedTuple):
    """What one turn came to. done: what was done to read its answer. begun: the beginning of an answer that was cut
    off, which the model may go on with."""

    outcome: Outcome
    done: Sequence[str] = ()
    begun: str | None = None


def judge(result: TurnResult, output: type[BaseModel], begun: str | None = None) -> Judged:
    """Return what one turn came to: an answer counts only when it fits the role's schema.

    begun: what the turn before had of its answer when it was cut off, and this one was to complete.
    """
    if result.status == "interrupted":
        return Judged(Interrupted())
    if result.failure is not None:
        return Judged(Failed(**storable(result.failure.model_dump())))
    if result.refusal is not None:
        return Judged(Refused(text=storable(result.refusal)))
    try:
        return Judged(_taken(output, result.text))
    except ValidationError as error:
        first = error
    found = answer_in(result.text, fits(output)) if begun is None else continued(begun, result.text, fits(output))
    try:
        if found.problem is None:
            return Judged(_taken(output, found.text), found.done)
    except ValidationError as error:
        first = error
    if begun is not None or result.cut or found.cut:
        return Judged(cut_off(result, begun, found.problem), found.done, found.text if found.cut else None)
    return Judged(_unfit(result, first, found), found.done)


def _taken(output: type[BaseModel], text: str) -> Completed:
    return Completed(value=storable(output.model_validate_json(text).model_dump(mode="json")))


def fits(output: type[BaseModel]) -> Fits:
    """Return the test of a text against a schema."""

    def fit(text: str) -> bool:
        try:
            output.model_validate_json(text)
        except ValidationError:
            return False
        return True

    return fit


def _unfit(result: TurnResult, error: ValidationError, found: AnswerText) -> Failed:
    first = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "the answer"
    problem = f"the answer: {found.problem}" if found.problem else f"{where}: {first['msg']}"
    message = f"{problem}{_EXCERPT_MARK}{storable(result.text)[:_EXCERPT_CHARS]!r}"
    return Failed(kind="invalid_output", retryable=False, message=message)


def cut_off(result: TurnResult, begun: str | None, problem: str | None) -> Failed:
    """Return the failure of an answer that ends too early. Where the runtime does not say that its length was the
    reason, the server may have a limit of its own.

    begun: what the answer before had of it, None where it is the first one; problem: why the two are no whole answer.
    """
    written = result.usage.output_tokens
    after = f"{len(result.text):,} characters" + (f", {written:,} tokens" if written else "")
    again = "" if begun is None else f"; asked to go on from {len(begun):,} characters: {problem or 'no fit'}"
    raises = RAISE["output"] if result.cut else f"{RAISE['output']}, or the limit of the server itself"
    message = f"the answer was cut off after {after}{again}; {raises}"
    return Failed(kind="length", retryable=False, message=message)


def next_text(outcome: Outcome, begun: str | None) -> str | None:
    """Return what the model is asked after its answer, None when nothing is.

    An assignment has two turns at the most: an answer that does not fit gets one repair, one that was cut off one turn
    to go on, and neither is followed by the other.
    """
    if not isinstance(outcome, Failed):
        return None
    if outcome.kind == "length":
        return GO_ON if begun is not None else None
    return repair_text(outcome.message) if outcome.kind == "invalid_output" else None


def repair_text(problem: str) -> str:
    return (
        "Your last answer does not fit the required schema. Answer again with JSON that fits it and nothing else; "
        f"change only what is wrong. The problem: {problem}"
    )


def fault(outcome: Failed) -> str:
    """Return the reason of a failure, without the text of the answer."""
    return outcome.message.partition(_EXCERPT_MARK)[0] if outcome.kind == "invalid_output" else outcome.message


def storable(value: Any) -> Any:
    """Return a value without NUL characters, which a model may write and Postgres cannot hold in text."""
    if isinstance(value, str):
        return value.replace("\x00", "")
    if isinstance(value, list):
        return [storable(item) for item in value]
    if isinstance(value, dict):
        return {key: storable(item) for key, item in value.items()}
    return value
