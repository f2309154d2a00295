"""Questions in words, as people write them, and what they ask for."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest

from chordesk.models.errors import UsageError
from chordesk.tasks.asking.moments import bounds
from chordesk.tasks.asking.questions import EXAMPLES, INTENTS, cleaned, read

KNOWN = {"ED", "CF", "MOT", "AN", "SO", "BRK.B", "AZN.L", "BTC-USD", "IT"}


@pytest.mark.parametrize(
    ("text", "intent", "symbols"),
    [
        ("Why was ED bought?", "why", ("ED",)),
        ("why did the desk not buy CF", "why", ("CF",)),
        ("why is there no order for azn.l", "why", ("AZN.L",)),
        ("how come we sold $mot yesterday?", "why", ("MOT",)),
        ("what led to the order in BRK.B", "why", ("BRK.B",)),
        ("what changed since yesterday?", "changes", ()),
        ("What happened since 2026-11-27", "changes", ()),
        ("what did I miss in the last three hours", "changes", ()),
        ("what are my holdings", "holdings", ()),
        ("do we hold ED?", "holdings", ("ED",)),
        ("how many BTC-USD do I own", "holdings", ("BTC-USD",)),
        ("my weakest three holdings", "weakest", ()),
        ("which are the 5 strongest positions?", "strongest", ()),
        ("orders today", "orders", ()),
        ("which orders were denied?", "orders", ()),
        ("what waits for me", "waiting", ()),
        ("is there anything to approve?", "waiting", ()),
        ("what did we buy today", "fills", ()),
        ("trades in ED", "fills", ("ED",)),
        ("what's the plan for ED", "plan", ("ED",)),
        ("where is the stop of CF", "plan", ("CF",)),
        ("thesis on CF", "thesis", ("CF",)),
        ("case against ED?", "thesis", ("ED",)),
        ("what do you think of ED", "verdict", ("ED",)),
        ("rating of SO", "verdict", ("SO",)),
        ("how much cash do we have left", "holdings", ()),
        ("equity of account paper", "equity", ()),
        ("how much cash is there", "holdings", ()),  # the account, with its cash
        ("equity", "equity", ()),
        ("what did today cost", "cost", ()),
        ("how many tokens did run 01a226c83a05 spend", "cost", ()),
        ("list runs", "runs", ()),
        ("what did run 01a226c83a05 do", "run", ()),
        ("01a226c83a05", "run", ()),
        ("compare 01a226c83a05 with 01a226c83a99", "compare", ()),
        ("how good is the lens technical", "scores", ()),
        ("brier scores of voices", "scores", ()),
        ("when does the next screen start", "schedule", ()),
        ("schedule", "schedule", ()),
        ("DESK_PROTECT", "setting", ()),
        ("what is the setting budget_day_tokens", "setting", ()),
        ("which alerts fired", "alerts", ()),
        ("status", "status", ()),
        ("is the desk halted?", "status", ()),
        ("help", "help", ()),
        ("ED", "symbol", ("ED",)),
    ],
)
def test_a_question_is_read_as_it_is_meant(text: str, intent: str, symbols: tuple[str, ...]) -> None:
    found = read(cleaned(text), KNOWN)
    assert found is not None
    assert (found.intent, found.symbols) == (intent, symbols)


def test_words_in_capitals_are_no_symbols_unless_the_desk_knows_them() -> None:
    unsaid = read("WHY IS IT SO", KNOWN - {"SO", "IT"})
    assert unsaid is not None
    assert unsaid.intent == ""
    loud = read("WHY WAS ED BOUGHT", KNOWN)
    assert loud is not None
    assert loud.symbols == ("ED",)
    unknown = read("why was ZZZZ bought", KNOWN)
    assert unknown is not None
    assert unknown.symbols == ("ZZZZ",)


@pytest.mark.parametrize(
    ("text", "since", "count"),
    [
        ("what changed since 6h", "6h", None),
        ("what changed in the last two weeks", "2w", None),
        ("what changed since 2026-11-27T09:30", "2026-11-27T09:30", None),
        ("orders of this week", "week", None),
        ("orders of the last week", "lastweek", None),
        ("trades of the past week", "1w", None),
        ("what changed since yesterday", "close", None),
        ("trades since Nov 27", "nov 27", None),
        ("fills since 2 days ago", "2d", None),
        ("fills two days ago", "@2d", None),
        ("orders since 9:30", "9:30", None),
        ("trades today", "today", None),
        ("cost yesterday", "yesterday", None),
        ("the 5 weakest holdings", None, 5),
        ("weakest three", None, 3),
        ("last 20 runs", None, 20),
    ],
)
def test_moments_and_numbers_are_read(text: str, since: str | None, count: int | None) -> None:
    found = read(text, KNOWN)
    assert found is not None
    assert (found.since, found.count) == (since, count)


def test_every_example_of_the_help_is_understood() -> None:
    found = {read(one, KNOWN).intent for one in EXAMPLES}  # type: ignore[union-attr]
    assert found == set(INTENTS) - {"strongest", "help"}


@pytest.mark.parametrize(("text", "why"), [("", "empty"), (" \x00\u202e\n", "empty"), ("a" * 20_001, "20,001")])
def test_an_empty_and_an_endless_question_are_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        cleaned(text)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("holdings without ED", "without"), ("do we hold anything but ED", "but"), ("what did we buy not ED", "not ed"),
        ("orders for anything besides ED", "besides"), ("positions not losing", "not"), ("non-ED positions", "non"),
        ("how much cash did we spend on buys", "cash"), ("do we hold acme", "acme"), ("why did MOT fall", "fall"),
        ("which holdings are rated BUY", "holdings"), ("fills of the last run", "run"), ("cost per run", "per run"),
        ("and MOT?", "and"), ("show holdings sorted by gain", "sorted"), ("equity at the open", "at the open"),
        ("orders denied because of the cooldown", "because"), ("orders yesterday before noon", "yesterday"),
        ("positions with a loss", "positions"), ("orders by the trader", "trader"), ("positions excl. ED", "excl"),
    ],
)  # fmt: skip
def test_a_word_that_changes_what_is_asked_is_named(text: str, word: str) -> None:
    found = read(cleaned(text), KNOWN)
    assert found is not None
    assert found.intent == ""
    assert repr(word) in found.unread


def test_positions_without_a_stop_and_an_id_of_letters_alone_are_read() -> None:
    plans, order = read("positions without a stop", KNOWN), read("order ffffffff", KNOWN)
    assert plans is not None
    assert plans.intent == "plan"
    assert order is not None
    assert order.ids == ("ffffffff",)


@pytest.mark.parametrize(
    ("token", "begun", "found"),
    [
        ("12:00", None, "28T12:00"),  # the last one that passed
        ("12:00", "29T00:00", "29T12:00"),  # of today, though it is to come
        ("12:00", "28T11:00", "28T12:00"),
        ("2:00", "28T22:00", "29T02:00"),
    ],
)
def test_a_clock_that_ends_a_span_is_the_first_one_in_it(token: str, begun: str | None, found: str) -> None:
    def at(text: str) -> dt.datetime:
        return dt.datetime.fromisoformat(f"2026-11-{text}").replace(tzinfo=dt.UTC)

    now = at("29T10:30")
    read_as = bounds(token, now, ZoneInfo("UTC"), lambda: now, at(begun) if begun else None)
    assert read_as is not None
    assert read_as[0] == at(found)


@pytest.mark.parametrize("text", ["what is the meaning of life", "tell me a joke", "buy 100 ED now", "🦄", "';--"])
def test_what_is_no_question_of_the_desk_is_not_guessed_at(text: str) -> None:
    found = read(cleaned(text), KNOWN)
    assert found is None or not found.intent
