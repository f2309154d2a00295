"""Headlines are made of data alone."""

from __future__ import annotations

import pytest

from chordesk.tools.board.context import compose
from tests.tools.harvest.boards import unsourced


def test_fields_are_filled_from_the_data() -> None:
    data = {"symbol": "IBM", "change": 0.0512, "sessions": 20, "seen": {"dates": 3}}
    made = compose("{symbol}: {change:+.1%} in {sessions} sessions, {seen[dates]} dates", data)
    assert made == "IBM: +5.1% in 20 sessions, 3 dates"
    assert unsourced(made, data) == []
    assert unsourced("IBM: +5.3% in 20 sessions", data) == ["+5.3%"]


def test_a_figure_of_the_template_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="a figure that is not in its data"):
        compose("{symbol} rose for 5 sessions", {"symbol": "IBM"})


def test_a_field_that_the_data_lack_is_an_error() -> None:
    with pytest.raises(KeyError):
        compose("{symbol} {change:.1%}", {"symbol": "IBM"})
