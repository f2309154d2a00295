"""The formats of documents, and a document in one of them."""

from __future__ import annotations

import re
from typing import Literal

from chordesk.tasks.documents.rendering.html import html
from chordesk.tasks.documents.rendering.markdown import markdown
from chordesk.tasks.documents.schema.documents import Document
from chordesk.tasks.documents.schema.parts import FORMAT

Format = Literal["md", "html", "json"]
MEDIA_TYPES: dict[Format, str] = {
    "md": "text/markdown; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "json": "application/json",
}
_NAME = re.escape(FORMAT.encode())
_OWN = re.compile(
    rb'\s*(?:<!-- %b |\{\s*"format":\s*"%b"|<!doctype html>.{0,120}<meta name="generator" content="%b )'
    % (_NAME, _NAME, _NAME),
    re.DOTALL,
)
OWN_BYTES = 400  # in which a document of the desk shows itself as one


def rendered(found: Document, wanted: Format) -> str:
    """Return the document as text."""
    match wanted:
        case "html":
            return html(found)
        case "md":
            return markdown(found)
        case "json":
            return found.model_dump_json(indent=1) + "\n"


def is_own(beginning: bytes) -> bool:
    """Return whether a file that begins so is a document of the desk."""
    return _OWN.match(beginning) is not None
