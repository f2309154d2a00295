"""A new lens: made of words and a rule, tried, and kept by a person at a terminal alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from chordesk.models.database.store import Store
from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.cli.root import build
from chordesk.tasks.drafting.drafts import TRIED, as_draft, drafted, keep, name_of, tried_lately
from chordesk.tasks.drafting.workflow import require_phrase
from chordesk.tools.lenses.files import read_lens
from chordesk.tools.orders.audit import log_path


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("Calm names that rise.", "calm-names-that-rise"),
        ("Utilities which pay a dividend and rise calmly", "utilities-which-pay-a-dividend"),
        ("52 weeks high", "weeks-high"),
        ("\u98a8", "lens"),
    ],
)
def test_a_name_is_made_of_the_first_words(words: str, name: str) -> None:
    assert name_of(words) == name
    assert read_lens(name, words).words


def test_a_draft_is_a_file_that_says_what_was_given() -> None:
    lens = read_lens("one", drafted('Says "rise".', {"by": "rule", "where": "gap > 0", "score": "", "high": ""}))
    assert (lens.by, lens.where, lens.score, lens.words) == ("rule", "gap > 0", "", 'Says "rise".')
    assert drafted("Words.", {"where": ""}) == "Words.\n"
    for words, where, says in (("  ", "gap > 0", "no words"), ("x" * 4_001, "", "4,001"), ("x", "gap", "is a number")):
        with pytest.raises(UsageError, match=says):
            read_lens("one", drafted(words, {"where": where}))


def test_a_draft_is_tried_up_to_today_and_kept_with_a_line_in_the_audit_log(store: Store, tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, database_url=store.url, universe="AAPL,IBM,GE,KO,XOM")
    text = drafted("Rises.", {"by": "rule", "where": "momentum20 > 0 and splitLike == 0"})
    used, lens = as_draft(settings, "rising", text)
    desk = Desk(used, "lens", records=False)
    found = tried_lately(desk, lens)
    assert found is not None
    assert (found.sessions, found.last) == (TRIED, settings.replay_date)
    assert found.outcomes[2].open > 0  # nothing after the market's day is looked at
    assert not (tmp_path / "lenses").exists()
    assert keep(desk, lens, text, "Ada").read_text() == text
    line = json.loads(log_path(settings).read_text().splitlines()[-1])
    assert {"rising", lens.version, "Ada"} <= set(map(str, line.get("facts", line).values()))


def test_a_name_of_the_desks_and_a_folder_elsewhere_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is a lens technical"):
        as_draft(Settings(home=tmp_path), "technical", "Words.")
    with pytest.raises(UsageError, match="DESK_OWN_LENSES names"):
        as_draft(Settings(home=tmp_path, own_lenses='{"one": "x"}'), "two", "Words.")


def test_words_of_which_rules_make_nothing_are_refused_before_a_run(tmp_path: Path) -> None:
    words = "Names that sing and dance in moonlight"
    with pytest.raises(UsageError, match="makes no rule of 'Names that sing"):
        require_phrase(Settings(home=tmp_path), words)
    require_phrase(Settings(home=tmp_path), "Names that rise")
    require_phrase(Settings(home=tmp_path, provider="codex"), words)


def test_without_a_terminal_nothing_is_drafted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESK_HOME", str(tmp_path))
    done = CliRunner().invoke(build(), ["lens", "new", "Rises.", "--where", "gap > 0"])
    assert isinstance(done.exception, UsageError)
    assert "not a terminal" in str(done.exception)
    assert "desk lens check" in done.exception.remedy
    assert not (tmp_path / "lenses").exists()
