"""The count of tokens by which `make bench` says what a verdict costs."""

from __future__ import annotations

from typing import Any

from tests.ordeal.tokens import LEAST, LENGTHS, STEP, Tokens, counted, lengthened, model_call, tokens_of, total

TOOL = {"type": "function", "name": "signals_get", "parameters": {"type": "object"}}
INSTRUCTIONS = "Role: quick\n" + "One rule of the desk is that figures have a source. " * 120


def responses(symbol: str, *more: dict[str, Any]) -> dict[str, Any]:
    asked = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": f"Examine {symbol}"}]}
    return {"tools": [TOOL], "instructions": INSTRUCTIONS, "input": [asked, *more]}


def answered(text: str) -> list[dict[str, Any]]:
    call = {"type": "function_call", "call_id": "c", "name": "signals_get", "arguments": "{}"}
    return [call, {"type": "function_call_output", "call_id": "c", "output": text}]


def test_a_call_has_seen_what_an_earlier_one_began_with() -> None:
    first, second = model_call("quick", responses("AA"), "x"), model_call("quick", responses("BB"), "x y")
    found = counted([first])["quick"]
    assert (found.calls, found.seen, found.kept, found.answers, found.written) == (1, 0, 0, 0, 1)
    both = counted([first, second])["quick"]
    assert both.read == 2 * found.read
    assert both.seen == found.read - 1, "all but the symbol"
    assert both.kept == both.seen // STEP * STEP >= LEAST


def test_a_calls_answer_is_read_and_the_rest_was_seen() -> None:
    first, answer = model_call("quick", responses("AA"), ""), "{}" * 40
    next_one = model_call("quick", responses("AA", *answered(answer)), "")
    found = counted([first, next_one])["quick"]
    assert found.seen == counted([first])["quick"].read
    assert found.answers == len(tokens_of(answer))


def test_a_short_prefix_is_seen_and_not_kept() -> None:
    body = {**responses("AA"), "instructions": "Role: quick"}
    found = counted([model_call("quick", body, ""), model_call("quick", body, "")])["quick"]
    assert (found.seen, found.kept) == (found.read / 2, 0)


def test_chat_completions_are_counted_as_the_same_request() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "signals_get", "arguments": "{}"}}
    chat = {
        "tools": [TOOL],
        "messages": [
            {"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": "Examine AA"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "[1]"},
        ],
    }  # fmt: skip
    assert model_call("quick", chat, "").parts == model_call("quick", responses("AA", *answered("[1]")), "").parts


def test_rows_add_up() -> None:
    one = Tokens(1, 10, 5, 0, 2, 3)
    assert total([one, one]) == Tokens(2, 20, 10, 0, 4, 6)
    assert (one.read, one.share(one.seen)) == (10, 0.5)


def test_texts_that_others_read_are_as_long_as_a_models_and_have_no_new_figure() -> None:
    given = {"summary": "RSI-14 is 60.1.", "verdict": "CONFIRMED", "candidates": [{"thesis": "it rises"}]}
    found = lengthened(given)
    assert LENGTHS["summary"] - 50 < len(found["summary"]) <= LENGTHS["summary"]
    assert [char for char in found["summary"] if char.isdigit()] == list("14601")
    assert (found["verdict"], len(found["candidates"][0]["thesis"]) > 300) == ("CONFIRMED", True)
