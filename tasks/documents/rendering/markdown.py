"""A document as markdown that a terminal can show too. Every text in it is literal, whatever its origin."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from chordesk.tasks.documents.building.pages import PageLinks
from chordesk.tasks.documents.rendering.figures import NONE
from chordesk.tasks.documents.rendering.html import FILTERS, TEMPLATES
from chordesk.tasks.documents.schema.documents import Document
from chordesk.tasks.documents.text import marked, visible

_GAPS = re.compile(r"\n{3,}")


def markdown(found: Document) -> str:
    """Return the document as markdown."""
    text = _environment().get_template(f"{found.kind}.md").render(found=found, pages=PageLinks(found.service))
    return _GAPS.sub("\n\n", text).strip() + "\n"


@cache
def _environment() -> Environment:
    # With autoescape on, what a template puts together itself is kept apart from the texts that are put into it.
    made = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, finalize=_literal,
    )  # fmt: skip
    made.filters.update(FILTERS, fenced=_fenced)
    return made


def _literal(value: Any) -> Any:
    return value if isinstance(value, Markup) or value == NONE else Markup(marked(str(value)))


def _fenced(text: str) -> Markup:
    """Return a block of code with the text, behind a fence that is longer than any in it."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return Markup(f"{fence}text\n{visible(text).rstrip()}\n{fence}")
