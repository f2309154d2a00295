"""`desk questions`, as people run it: list, show, add, import, resolve."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chordesk.models.database.store import Store
from chordesk.tools.market.replay.market import replay_data
from tests.constants import constants
from tests.databases import make_database
from tests.fakes.venues import FarVenues, kalshi_row, manifold_row
from tests.tasks.cli.running import desk
from tests.tools.board.venues.conftest import far
from tests.tools.questions.rows import ASKED, desk_questions, on

__all__ = ["far"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    make_database(f"sqlite:///{tmp_path / 'home' / 'desk.db'}")
    return tmp_path / "home"


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    store = Store(f"sqlite:///{home / 'desk.db'}")
    yield store
    store.close()


def printed(home: Path, *arguments: str, code: int = 0, **environ: str) -> Any:
    done = desk(home, "questions", *arguments, "--json", **environ)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def refused(home: Path, *arguments: str, **environ: str) -> str:
    done = desk(home, "questions", *arguments, **environ)
    assert (done.returncode, done.stdout) == (2, ""), done.stdout
    assert "remedy:" in done.stderr
    return " ".join(done.stderr.split())


def test_a_person_asks_and_resolves_a_question_once(home: Path) -> None:
    asked = printed(home, "add", "Will it rain?", "--closes", "2010-08-20", "--about", "KO", "--by", "Ann")
    assert (asked["author"], asked["subjects"], asked["baseline"]) == ("Ann", ["KO"], 0.5)
    assert [row["id"] for row in printed(home, "list", "--about", "ko")] == [asked["id"]]
    shown = desk(home, "questions", "show", asked["id"][:20]).stdout
    assert "from 2010-08-12 15:55 to 2010-08-20 16:00 EDT" in shown
    assert "--why" in refused(home, "resolve", asked["id"], "--outcome", "yes")
    ended = printed(home, "resolve", asked["id"], "--outcome", "yes", "--why", "it rained", "--by", "Bob")
    assert (ended["question"]["state"], ended["question"]["outcome"]) == ("resolved", 1.0)
    assert ended["question"]["evidence"]["why"] == "it rained"
    again = refused(home, "resolve", asked["id"], "--outcome", "no", "--why", "it did not")
    assert "was resolved to 1 by Bob" in again
    assert printed(home, "show", asked["id"]) == ended
    assert "outcome 1, by Bob" in desk(home, "questions", "show", asked["id"]).stdout


def test_relative_questions_resolve_from_later_bars_of_the_replay(home: Path, store: Store) -> None:
    with store.session() as session:
        asked = desk_questions(session, on(replay_data(home), ASKED), ["AAPL", "IBM"], "sp500", 10)
    early = desk(home, "questions", "resolve", asked[0].id, DESK_REPLAY_DATE="2010-03-12")
    assert early.returncode == 1
    assert "open" in early.stdout
    due = printed(home, "resolve", "--as-of", "2010-03-15", DESK_REPLAY_DATE="2010-03-12")
    assert sorted(row["outcome"] for row in due["resolved"]) == [0.0, 1.0]
    shown = desk(home, "questions", "show", asked[0].id).stdout
    assert "outcome 1, by desk questions resolve" in shown
    assert "last: session 2010-03-15, close 223.84" in shown
    assert "median: 0.0291286" in shown
    assert "2010-03-01, 10 sessions on" in shown
    assert "resolved 1" in desk(home, "questions", "list").stdout
    wrong = refused(home, "resolve", asked[0].id, DESK_MARKET="yahoo")
    assert "resolved by bars of the replay market, and this is yahoo" in wrong


def test_questions_of_a_venue_are_imported_and_resolved(home: Path, far: FarVenues) -> None:
    urls = constants(VENUES=far.url)
    far.manifold["m"] = manifold_row("m", "Will it rain?", 0.3)
    far.kalshi["K-1"] = kalshi_row("K-1", "Will it snow?", "0.0100", "0.9900")
    first = desk(home, "questions", "import", "manifold", "--term", "rain", "--limit", "3", **urls)
    assert first.returncode == 0, first.stderr
    assert "0.300" in first.stdout
    assert "DESK_VENUES does not name manifold" in first.stderr
    assert "replays 2010-08-12" in first.stderr
    unpriced = desk(home, "questions", "import", "kalshi", "--id", "K-1", **urls).stdout
    assert "not forecast" in unpriced
    assert "1 without a price are not forecast until they have one" in unpriced
    (asked,) = printed(home, "list", "--source", "manifold")
    assert desk(home, "questions", "resolve", asked["id"], **urls).returncode == 1
    far.manifold["m"] = manifold_row("m", "Will it rain?", isResolved=True, resolution="NO")
    ended = printed(home, "resolve", asked["id"], **urls)
    assert (ended["question"]["outcome"], ended["question"]["evidence"]["source"]) == (0.0, "manifold")
    assert "is resolved by kalshi" in refused(
        home, "resolve", printed(home, "list", "--source", "kalshi")[0]["id"], "--outcome", "yes", "--why", "I want it"
    )
