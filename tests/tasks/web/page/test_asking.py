"""Questions on the page: typed on the front, answered from rows, gone on with in a dialogue, with what was not found
marked."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from chordesk.models.answers import Grounding, Unsupported
from tests.browser.kit import DeskPage
from tests.parts import of_feature

AskingEntry = of_feature("chordesk.models.asking.tables:AskingEntry")


def test_a_question_is_typed_on_the_front_and_answered_and_kept(page: Page, desk_page: DeskPage) -> None:
    desk_page.open(page, "/", None)
    page.get_by_label("Ask the desk").fill("orders today")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page).to_have_url(re.compile(r"#/ask\?q=orders"))
    expect(page.get_by_role("region", name="orders today")).to_contain_text("order")
    page.get_by_label("Question").fill("what is the meaning of life")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page).to_have_url(re.compile(r"#/ask\?in=[0-9a-f]{32}"))
    expect(page.get_by_role("region", name="what is the meaning of life")).to_contain_text("Ask such as")
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("equity since yesterday")
    page.get_by_role("option", name="Ask the desk: equity since yesterday").click()
    expect(page).to_have_url(re.compile(r"#/ask\?.*q=equity"))


def test_a_figure_that_no_tool_gave_is_marked(page: Page, desk_page: DeskPage) -> None:
    text = "\U0001f4c8 IBM has 12 reports\nand 34 orders"
    lacking = Unsupported(text="answer", figure="34", start=text.index("34"), end=text.index("34") + 2)
    grounding = Grounding(figures=2, supported=1, share=0.5, citations=[], unsupported=[lacking])
    with desk_page.service.store.session() as session:
        entry = AskingEntry(
            dialogue="d" * 32, person="ann", origin="page", account="paper", question="how many", state="answered",
            text=text, grounding=grounding.model_dump(mode="json"), missing=["the size: no tool has it"],
            sources=[{"kind": "run", "id": "0123456789abcdef", "way": "/runs/0123456789abcdef"}],
        )  # fmt: skip
        session.add(entry)
    desk_page.open(page, f"/ask?in={'d' * 32}", None)
    region = page.get_by_role("region", name="how many")
    expect(region.locator("mark")).to_have_text(["34"])
    expect(region).to_contain_text("1 of 2 figures found in what was looked up. From run 01234567.")
    expect(region).to_contain_text("Missing: the size: no tool has it.")
