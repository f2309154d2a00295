"""Markdown documents: what a reader of CommonMark makes of them, with HTML and bare addresses let through."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.reports.documents import day_document, run_document, symbol_document
from chordesk.tasks.reports.figures import marked
from chordesk.tasks.reports.formats import markdown
from tests.browser.hostile import MARKUP, SYMBOL, a_hostile_run
from tests.tasks.views.chain import Chain

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


def test_names_and_figures_stay_as_they_are() -> None:
    assert marked("orders_preview 31.14 -2.5% BRK.B") == "orders_preview 31.14 -2.5% BRK.B"
    assert "http\\://" in marked("http://evil.example")


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


def test_a_run_has_headings_tables_and_numbered_steps(desk: Desk, chained: Chain) -> None:
    seen = list(READER.parse(markdown(run_document(desk, chained.run_id))))
    heads = [seen[at + 1].content for at, one in enumerate(seen) if one.type == "heading_open" and one.tag == "h2"]
    assert heads == ["Funnel", "Candidates", "Decision", "Symbols", "Totals", "What was missing"]
    assert sum(one.type == "table_open" for one in seen) >= 4
    assert any(one.type == "ordered_list_open" for one in seen)


def test_a_symbol_is_read_too(desk: Desk, chained: Chain) -> None:
    text = markdown(symbol_document(desk, "ACME"))
    assert text.startswith("<!-- chordesk.report 1 -->\n# ACME\n")
    assert "No prices of ACME" in text
    assert SYMBOL not in text
