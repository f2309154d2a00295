"""`desk orders` and `desk audit` as people run them; what they show whole is in `tests/tasks/cli/test_shown.py`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlmodel import select

from chordesk.models.tables.orders import Preview
from chordesk.models.tables.runs import Candidate
from chordesk.tasks.reading.orders import list_orders
from chordesk.tools.orders.audit import log_path
from tests.tasks.cli.console import rendered
from tests.tasks.cli.running import desk
from tests.tasks.cli.test_shown import Books


@pytest.fixture
def books(tmp_path: Path) -> Iterator[Books]:
    made = Books(tmp_path)
    yield made
    made.store.close()


def test_an_order_without_research_has_a_story_too(books: Books) -> None:
    with books.store.session() as session:
        for candidate in session.exec(select(Candidate).where(Candidate.symbol == "ACME")):
            candidate.symbol = "OTHER"
            session.add(candidate)
    shown = rendered(books.shown_order()[1])
    assert "hit: none" in shown
    assert "the log has no line on this order" in shown


def test_a_list_is_of_what_was_asked_for(books: Books) -> None:
    with books.store.read() as session:
        every = list_orders(session, None, None, None, 10)
        assert {order.symbol for order, _ in every} == {"ACME", "IBM"}
        ((order, preview),) = list_orders(session, books.chain.run_id, "ACME", "previewed", 10)
        assert (order.id, isinstance(preview, Preview)) == (books.chain.order_id, True)
        assert list_orders(session, "another", None, None, 10) == []
        assert len(list_orders(session, None, None, None, 1)) == 1


def test_the_commands(books: Books) -> None:
    books.fullest(2)
    short = books.chain.order_id[:8]
    assert short in desk(books.settings.home, "orders", "list", "--symbol", "acme").stdout
    assert json.loads(desk(books.settings.home, "orders", "list", "--state", "rejected", "--json").stdout) == []
    assert "open buy 50 ACME: filled" in desk(books.settings.home, "orders", "show", short).stdout
    whole = json.loads(desk(books.settings.home, "orders", "show", short, "--json").stdout)
    assert len(whole["log"]) == 4
    history = desk(books.settings.home, "audit", "show", "--order", short).stdout
    assert "approval_decided" in history
    assert re.search(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +\d+ drafted", history, re.MULTILINE), "a history spans days"
    lines = desk(books.settings.home, "audit", "show", "--last", "3").stdout.splitlines()
    assert [line.split()[4] for line in lines] == ["approval_decided", "fill", "fill"]
    wrong = desk(books.settings.home, "orders", "show", "ffff-none")
    assert (wrong.returncode, "desk orders list" in wrong.stderr) == (2, True)


def test_verify_confirms_a_whole_log_and_names_the_faults_of_another(books: Books) -> None:
    empty = desk(books.settings.home, "audit", "verify")
    assert (empty.returncode, empty.stdout) == (0, "nothing is on record yet\n")
    books.fullest(2)
    whole = desk(books.settings.home, "audit", "verify")
    assert (whole.returncode, "5 lines anchored, whole" in whole.stdout) == (0, True)
    path = log_path(books.settings)
    path.write_bytes(path.read_bytes().replace(b'"by":"ann@desk"', b'"by":"bob@desk"'))
    altered = desk(books.settings.home, "audit", "verify")
    assert (altered.returncode, "NOT WHOLE" in altered.stdout) == (1, True)
    assert "line 3: its content is not what its hash was made of: altered" in altered.stdout
    shown = desk(books.settings.home, "audit", "show", "--order", books.chain.order_id)
    assert "the log is not whole" in shown.stderr
    assert json.loads(desk(books.settings.home, "audit", "verify", "--json").stdout)[0]["whole"] is False
    missing = desk(books.settings.home, "audit", "verify", "--with", str(books.settings.home / "none.jsonl"))
    assert (missing.returncode, "cannot be read" in missing.stderr) == (2, True)
