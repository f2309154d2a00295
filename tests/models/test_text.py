"""Text for people: times, spans, and what others wrote, the same by every renderer."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from io import StringIO

import pytest
from rich.console import Console, RenderableType

from chordesk.models.errors import UsageError
from chordesk.models.events import EventType, event
from chordesk.models.text import inert, json_shown, new_york, one_line, span, utc, utc_seconds
from chordesk.tasks.cli.output import facts, fail, paragraph, state, table
from chordesk.tasks.cli.show.status_display import event_line
from chordesk.tasks.reports.formats import marked, visible
from chordesk.tools.model_tools.company_data import plain_text
from chordesk.tools.pages.page_text import clean
from tests.parts import of_feature

# Clears the screen, sets the title, rings, hides, turns the line around, begins a line of its own, breaks JSON.
STEERING = (
    "\x1b[2J\x1b[31m", "\x1b]0;title\x07", "\x9b31m", "\r", "\x08\x7f", "\x00", "\u200b\u200d\u2060\ufeff",
    "\u202e\u2066\u2069", "\ud800", "\ue000", "\U000e0041", "\u2028\u2029\x85\x0b\x0c",
)  # fmt: skip
HOSTILE = [f"a{one}b [bold]c[/]" for one in STEERING]
UNSEEN = frozenset("".join(STEERING)) - set("[2J31m]0;title")


def printed(what: RenderableType) -> str:
    """What a terminal gets, without the escapes of the desk's own headings."""
    console = Console(file=StringIO(), width=120, force_terminal=True, no_color=True)
    console.print(what)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    return str(shown).replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", "")


def an_event(text: str) -> str:
    return event_line(event(EventType.ITEM_COMPLETED, "0" * 32, type="agentMessage", text=text), with_run=True).plain


RENDERERS: dict[str, Callable[[str], str]] = {
    "inert": inert,
    "line": one_line,
    "paragraph": paragraph,
    "cell": lambda text: printed(table(("What",), [(text,)])),
    "fact": lambda text: printed(facts([("name", text)])),
    "state": lambda text: printed(state(text)),
    "event": an_event,
    "document": visible,
    "markdown": marked,
    "board": lambda text: of_feature("chordesk.agents.board.board_text:outside")(text, 200),
    "tally": lambda text: of_feature("chordesk.agents.board.content:escaped")(text),
    "page": clean,
    "tool": plain_text,
    "notification": lambda text: of_feature("chordesk.tasks.notifications.wording:quoted")(text),
}


@pytest.mark.parametrize("name", RENDERERS)
def test_text_of_others_cannot_steer_hide_or_break_a_line(name: str) -> None:
    for text in HOSTILE:
        shown = RENDERERS[name](text)
        assert not UNSEEN & set(shown), ascii(text)
        assert len(shown.strip().splitlines()) == {"cell": 2}.get(name, 1) or name == "page", ascii(text)


@pytest.mark.parametrize("name", ["cell", "fact", "state"])
def test_markup_is_shown_literally(name: str) -> None:
    assert "[bold]a[/]" in RENDERERS[name]("[bold]a[/]")
    assert "<b>" in RENDERERS[name]("<b>")


def test_an_error_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert fail(UsageError("no \x1b[2Jsuch\rthing\nat all", remedy="see \x1b[31mthere"), 2) == 2
    assert capsys.readouterr().err == "error: no  [2Jsuch thing\nat all\nremedy: see  [31mthere\n"


def test_a_long_text_is_cut_to_its_length() -> None:
    assert one_line("x" * 400, 320) == "x" * 319 + "…"
    assert one_line("one two", 6, end="...") == "one..."
    assert (one_line(None), one_line("x" * 320, 320)) == ("", "x" * 320)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"), (4.24, "4.2 s"), (59, "59 s"), (59.6, "1 min"), (91, "1 min 31 s"), (2_520, "42 min"),
        (3599.6, "1 h"), (9_000, "2 h 30 min"), (86_400, "24 h"), (50 * 3600, "2 d 2 h"), (9 * 86_400, "9 d"),
    ],
)  # fmt: skip
def test_spans_in_their_two_largest_units(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_times_carry_their_zone() -> None:
    at = dt.datetime(2010, 8, 12, 20, 0, 5, tzinfo=dt.UTC)
    assert (utc(at), utc_seconds(at)) == ("2010-08-12 20:00 UTC", "2010-08-12 20:00:05 UTC")
    assert (new_york(at), new_york(at.replace(month=1))) == ("2010-08-12 16:00 EDT", "2010-01-12 15:00 EST")


def test_json_shows_no_letter_that_steers_a_terminal_and_stays_the_same_json() -> None:
    given = {"headline": "caf\xe9 \x9b31m\x7f\u202e\U000e0041 \ud55c"}
    shown = json_shown(json.dumps(given, ensure_ascii=False))
    assert shown.isprintable()
    assert "caf\xe9" in shown
    assert json.loads(shown) == given
