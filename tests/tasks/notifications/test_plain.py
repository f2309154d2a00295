"""Text of others in messages forges neither markup nor mentions nor links, and has no secret in it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.tasks.notifications.wording import LONGEST, quoted, symbol

MEANT = re.compile(r"[<>&*_`~#@|\[\]{}\\/!\"\n\r\t]")
LINK = re.compile(r"(?i)://|\.[^\W\d_]{2}|mailto:")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("the day's loss is 3.5 % of 10,000.00", "the day's loss is 3.5 % of 10,000.00"),
        ("<!channel> <@U123> @everyone", "channel U123 everyone"),
        ("[click](http://evil.com/x)", "click (http: evil. com x)"),
        ("**bold** _it_ `code` ~~no~~", "bold it code no"),
        ("see evil.com or evil\u3002com or evil\uff0e\uff43om", "see evil. com or evil com or evil. com"),
        (":tada: 12:30", ": tada: 12:30"),
        ("line\nAPPROVED\x1b[2J\u202e", "line APPROVED 2J"),
        ("account PA3X12345678 and 123456789", "account (number left out) and (number left out)"),
        ("key sk-abcdefgh12345678 refused", "key refused"),
        ("größer als 5 円", "größer als 5 円"),
        (None, ""),
    ],
)
def test_others_text_is_plain(text: str | None, shown: str) -> None:
    assert quoted(text) == shown


@given(st.text(max_size=400))
def test_no_text_keeps_a_sign_with_a_meaning(text: str) -> None:
    for shown in (quoted(text), symbol(text)):
        assert LINK.search(shown) is None
        assert len(shown) <= LONGEST
    assert MEANT.search(quoted(text)) is None


@pytest.mark.parametrize(
    ("given_", "shown"),
    [
        ("AAPL", "AAPL"),
        ("BRK.B", "BRK.B"),
        ("^GSPC", "^GSPC"),
        ("AAPL100821C00250000", "AAPL100821C00250000"),
        ("EVIL.COM", "EVIL. COM"),
        ("<b>IBM</b>", "b IBM b"),
        ("http://evil.com", "http: evil. com"),
    ],
)
def test_a_symbol_stays_if_it_is_one(given_: str, shown: str) -> None:
    assert symbol(given_) == shown
