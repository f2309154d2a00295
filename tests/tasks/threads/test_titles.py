"""An answer of a turn as one line."""

from __future__ import annotations

import pytest

from chordesk.tasks.reading.thread_history import title_of


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ('{"actions":[{"action":"open"},{"action":"watch"},{"action":"open"}]}', "opens 2, watches 1"),
        ('{"actions":[]}', "does nothing"),
        ('{"candidates":[{"symbol":"KO"},{"symbol":"GE"}]}', "puts forward KO, GE"),
        ('{"verdict":"CONFIRMED","confidence":"high","summary":"It rises."}', "CONFIRMED high: It rises."),
        ('{"actions":"none"}', '{"actions":"none"}'),
        ("\n  It declined.\nAnd why", "It declined."),
        (None, None),
    ],
)
def test_an_answer_has_a_title_in_words(answer: str | None, title: str | None) -> None:
    assert title_of(answer) == title
