"""HTML documents load nothing, run nothing, and show texts of models as text."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from chordesk.models.settings import running_desk
from chordesk.models.states import RunKind, RunState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import BacktestSession
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.reports.documents import day_document, run_document, symbol_document
from chordesk.tasks.reports.formats import html, markdown, marked, rendered
from tests.browser.hostile import MARKUP, SHOWN, a_hostile_run
from tests.builders import a_run
from tests.parts import of_feature
from tests.tasks.documents.reading import Read, read
from tests.tasks.views.chain import Chain, a_trade


def shown(desk: Desk, run_id: str) -> Read:
    return read(html(run_document(desk, run_id)))


def test_texts_of_models_tools_and_people_stay_text(desk: Desk) -> None:
    hostile = a_hostile_run(desk.store)
    source = html(run_document(desk, hostile.run))
    found = read(source)
    assert MARKUP not in source
    assert found.text.count(SHOWN) > 10, "each text is there, and literal"
    assert "\u202e" not in source
    assert all(link.startswith(("http://127.0.0.1:8000/", "#")) for link in found.links)


def test_a_run_has_its_parts_and_the_way_from_hit_to_order(desk: Desk, chained: Chain) -> None:
    found = shown(desk, chained.run_id)
    for part in ("Funnel", "Candidates", "Decision", "Symbols", "Totals", "What was missing", "In flight."):
        assert part in found.text
    assert "symbol-ACME" in found.ids
    for step in ("hit", "candidate", "report", "verdict", "decision", "preview", "order"):
        assert f" {step} " in found.text
    assert "thread-ACME-risk" in found.text
    assert "denied: cooldown: too soon" in found.text
    assert f"http://127.0.0.1:8000/#/orders/{chained.order_id}" in found.links
    assert "No prices of ACME" in found.text, "the market does not have it, and this is shown as missing"


def test_without_a_page_there_is_no_link_to_one(desk: Desk, chained: Chain) -> None:
    running_desk.api_path(desk.settings.home).unlink()
    found = read(html(run_document(desk, chained.run_id)))
    assert all(link.startswith("#") for link in found.links)
    assert "page did not run" in found.text


def test_a_trade_run_shows_the_research_of_its_source(desk: Desk, chained: Chain) -> None:
    with desk.store.session() as session:
        trade = a_trade(session, chained.run_id, chained.verdict_id)
    found = shown(desk, trade.id)
    assert f"Verdicts of {chained.run_id}" in found.text
    assert "symbol-ACME" in found.ids
    assert "open buy" in found.text


@pytest.mark.parametrize("kind", list(RunKind))
def test_every_kind_of_run_has_a_document_even_when_nothing_came_of_it(desk: Desk, kind: RunKind) -> None:
    with desk.store.session() as session:
        run = a_run(session, kind=kind, state=RunState.FAILED, finished_at=utcnow(), notes=["nothing came of it"])
        run.params = {"backtest": run.id, "parallel": False, "days": [], "symbols": ["IBM"]}
        session.add(run)
    found = shown(desk, run.id)
    assert "nothing came of it" in found.text
    assert "In flight." not in found.text


def test_a_day_and_a_symbol_are_documents_of_the_same_kind(desk: Desk, chained: Chain) -> None:
    a_hostile_run(desk.store)
    day = read(html(day_document(desk, dt.date(2010, 8, 12))))
    for part in ("Account", "Halts", "What waits for a person now", "Runs", "Verdicts", "Orders", "Totals"):
        assert part in day.text
    assert SHOWN in day.text
    assert chained.run_id[:16] in day.text
    symbol = read(html(symbol_document(desk, "acme")))
    assert "All runs of the account paper" in symbol.text
    assert symbol.text.count("BUY") >= 2, "of both runs"


@pytest.mark.parametrize("whole", [True, False])
def test_a_backtest_shows_its_curve_and_what_had_no_price(desk: Desk, whole: bool) -> None:
    days = [dt.date(2010, 8, day) for day in (9, 10, 11)]
    curve = [{"day": str(day), "equity": 100.0, "held": 101.0, "equal_weight": 99.0} for day in days]
    steps = np.random.default_rng(1).normal(0.001, 0.01, 60)
    figures = of_feature("chordesk.tools.measure.backtest_performance")
    course = figures.Course(steps, steps, steps, steps, steps, steps, 252.0)
    drawn = figures.RandomEntry(4, 120.0, 3.0, -90.0, 95.0, 0.98)
    against = asdict(figures.performance(course, drawn, [], [steps[::-1]]))
    returns = {"desk": 0.01, "held": None}
    result: dict[str, Any] = {"sessions": 3, "curve": curve, "returns": returns, "conclusion": "no better"}
    result["performance"] = against
    with desk.store.session() as session:
        run = a_run(session, kind=RunKind.BACKTEST, state=RunState.DONE, finished_at=utcnow(), account="backtest-x")
        run.params = {"backtest": run.id, "parallel": False, "days": [str(day) for day in days], "symbols": ["IBM"]}
        run.summary = {"backtest": result if whole else {"sessions": 0}}
        session.add(run)
        for day, equity in zip(days, (100_000.0, None, 101_000.0), strict=True):
            session.add(
                BacktestSession(
                    backtest_id=run.id, run_id=run.id, day=day, state="done", cash=1.0, equity=equity, traded=0.0,
                    unpriced=[] if equity else ["IBM"],
                )
            )  # fmt: skip
    found = shown(desk, run.id)
    assert "2010-08-10: none for IBM" in found.text
    assert "100,000.00" in found.text
    assert ("no better" in found.text) == whole
    assert ("desk 1.00%" in found.text) == whole
    assert "svg" in found.tags
    assert ("buy and hold" in found.text) == whole
    for part in ("the universe at the same exposure", "Sharpe ratio", "98.00% of random entries", "too few"):
        assert (part in found.text) == whole
    text = markdown(run_document(desk, run.id))
    assert "| 2010-08-10 | done | - |" in text
    assert ("the universe at the same exposure" in text) == whole


READER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def tokens(text: str) -> Iterator[Token]:
    for one in READER.parse(text):
        yield one
        yield from one.children or ()


@pytest.mark.parametrize(
    "text",
    [
        MARKUP, "# not a heading", "- no item", "1. no item", "---", "===", "**no** _emphasis_ `code` ~~gone~~",
        "[a](http://evil.example)", "![a](http://evil.example/x.png)", "<http://evil.example>", "a | b", "&lt;b&gt;",
        "http://evil.example www.evil.example a@evil.example", "> no quote", "\\", "line\n\n# two", "[a]: http://x.example",
        "snake_case_name 31.14 -2.5% +7",
    ],
)  # fmt: skip
def test_a_text_is_one_literal_paragraph(text: str) -> None:
    found = READER.parse(marked(text))
    assert [one.type for one in found] == ["paragraph_open", "inline", "paragraph_close"]
    (inline,) = (one for one in found if one.type == "inline")
    assert {one.type for one in inline.children or ()} <= {"text", "text_special"}
    made = "".join(one.content for one in inline.children or ())
    assert made == " ".join(text.replace("\u202e", "\u25af").split())


def test_a_hostile_run_makes_no_html_picture_or_foreign_link(desk: Desk) -> None:
    hostile = a_hostile_run(desk.store)
    documents = (run_document(desk, hostile.run), day_document(desk, dt.date(2010, 8, 12)))
    for found in documents:
        text = markdown(found)
        seen = list(tokens(text))
        assert {one.type for one in seen} & {"html_inline", "image"} == set()
        blocks = [one.content for one in seen if one.type == "html_block"]
        assert blocks == ["<!-- chordesk.report 1 -->\n"]
        links = [one.attrs["href"] for one in seen if one.type == "link_open"]
        assert links
        assert all(str(link).startswith("http://127.0.0.1:8000/") for link in links)
        assert "\u202e" not in text
        assert rendered(found, "json").replace("\n", "").isprintable()
