"""`desk questions pairs`, `pair`, `unpair` and `positions`, as people run them."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from chordesk.models.database.store import Store
from chordesk.models.tables.board import EventPosition
from tests.constants import constants
from tests.databases import make_database
from tests.fakes.venues import FarVenues, book_of, in_days, kalshi_row, polymarket_row
from tests.tasks.cli.running import desk
from tests.tools.board.venues.test_pairs import question
from tests.tools.ledger_rows import add_run

TITLE = "Will it rain in \x1b[31mMay?"
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with one question of Kalshi and one of Polymarket."""
    home = tmp_path / "home"
    make_database(f"sqlite:///{home / 'desk.db'}")
    store = Store(f"sqlite:///{home / 'desk.db'}")
    with store.session() as session:
        for number, (source, market) in enumerate((("kalshi", "KX-1"), ("polymarket", "7"))):
            row = question(source, TITLE, in_days(30), external_id=market)
            row.id = f"{number}question"
            session.add(row)
    store.close()
    return home


@pytest.fixture
def far() -> Iterator[FarVenues]:
    server = FarVenues()
    server.kalshi["KX-1"] = kalshi_row("KX-1", TITLE, "0.3800", "0.4000")
    server.polymarket["7"] = polymarket_row("7", TITLE, 0.50, 0.52)
    server.books["71"] = book_of([("0.50", "60")], [("0.52", "100")])
    server.start()
    yield server
    server.end()


def test_pairs_are_suggested_confirmed_and_rejected(home: Path) -> None:
    assert "No pairs" in desk(home, "questions", "pairs").stdout
    shown = desk(home, "questions", "pairs", "--suggest")
    assert shown.returncode == 0, shown.stderr
    assert "suggested (titles 100 % alike)" in shown.stdout
    assert "\x1b" not in shown.stdout
    done = desk(home, "questions", "pair", "1question", "0question", "--inverse", "--by", "Ada", "--why", "same rules")
    assert "confirmed by Ada on " in done.stdout
    assert "one the inverse of the other: same rules" in done.stdout
    (row,) = json.loads(desk(home, "questions", "pairs", "--json").stdout)
    assert (row["pair"]["state"], row["pair"]["inverse"], row["pair"]["decided_by"]) == ("confirmed", True, "Ada")
    assert (row["first"]["source"], row["second"]["source"]) == ("kalshi", "polymarket")
    assert desk(home, "questions", "unpair", "0question", "1question", "--by", "Ada").returncode == 0
    assert "No pairs" in desk(home, "questions", "pairs", "--suggest").stdout
    assert "rejected by Ada" in desk(home, "questions", "pairs", "--rejected").stdout


def test_a_decision_needs_a_name_and_two_questions(home: Path) -> None:
    for arguments, text in (
        (("pair", "0question", "1question"), "--by"),
        (("pair", "0question", "1question", "--by", " "), "a pair is decided by a person"),
        (("pair", "0question", "0question", "--by", "Ada"), "both questions are of kalshi"),
        (("pair", "0question", "9question", "--by", "Ada"), "there is no question"),
        (("unpair", "0question", "1question", "--by", "Ada"), "are no pair"),
    ):
        done = desk(home, "questions", *arguments)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False)
        assert text in done.stderr


def test_prices_show_an_arbitrage_of_a_confirmed_pair_alone(home: Path, far: FarVenues) -> None:
    venues = {"DESK_VENUES": "kalshi,polymarket", **constants(VENUES=far.url)}
    desk(home, "questions", "pairs", "--suggest")
    shown = desk(home, "questions", "pairs", "--prices", **venues)
    assert "divergence, gap -0.120: no person confirmed the pair" in shown.stdout, shown.stderr
    desk(home, "questions", "pair", "0question", "1question", "--by", "Ada")
    shown = desk(home, "questions", "pairs", "--prices", **venues)
    assert "arbitrage, gap -0.120: net edge 0.0" in shown.stdout, shown.stderr
    found = json.loads(desk(home, "questions", "pairs", "--prices", "--json", **venues).stdout)
    edge = found["compared"][0]["comparison"]["edge"]
    assert edge["shares"] == 60
    assert edge["net"] == pytest.approx(60 - edge["paid"] - edge["fees"] - edge["carry"])
    missing = desk(home, "questions", "pairs", "--prices", **{**venues, "DESK_VENUES": "kalshi"})
    assert "configure DESK_VENUES with polymarket" in missing.stdout


def test_positions_show_the_bankroll_and_each_payout(home: Path) -> None:
    assert "No event position." in desk(home, "questions", "positions").stdout
    store = Store(f"sqlite:///{home / 'desk.db'}")
    with store.session() as session:
        for number, payout in ((0, 30.0), (1, None)):
            session.add(
                EventPosition(
                    account="paper", run_id=add_run(session).id, question_id=f"{number}question", side="yes",
                    probability=0.7, shares=30, price=0.4, fee=0.5, cost=12.5, opened_at=NOW, payout=payout,
                )
            )  # fmt: skip
    store.close()
    shown = desk(home, "questions", "positions").stdout
    assert (
        "play money of 1,017.50, 1,000.00 at the start and +17.50 realised; 12.50 staked, 1% of at most 50%." in shown
    )
    assert "\x1b" not in shown
    found = json.loads(desk(home, "questions", "positions", "--json").stdout)
    assert (found["bankroll"], found["staked"], len(found["positions"])) == (1017.5, 12.5, 2)
    (held,) = json.loads(desk(home, "questions", "positions", "--open", "--json").stdout)["positions"]
    assert (held["question"]["source"], held["position"]["payout"]) == ("polymarket", None)
