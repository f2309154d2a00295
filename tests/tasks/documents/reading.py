"""A strict reader of HTML documents: well-formed, and without anything that runs or is loaded."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset({"meta", "br", "hr"})
# Elements that run, load, embed, submit or change where addresses lead.
FORBIDDEN = re.compile(
    "script|link|img|picture|source|audio|video|track|iframe|frame|object|embed|applet|form|input|button|base|image|use"
    "|foreignobject|animate|set|feimage|portal|template|slot|math"
)
# Attributes with addresses; an anchor's is the only one that is not loaded.
ADDRESSES = re.compile(
    "src|srcset|data|poster|background|action|formaction|cite|longdesc|manifest|ping|xlink:href|profile|codebase"
)
LOADS = re.compile(r"(?i)url\s*\(|@import|expression\s*\(|javascript:|data:")


@dataclass
class Read(HTMLParser):
    """A document as read. links: targets of anchors; text: all of it, without the style."""

    links: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    metas: list[dict[str, str]] = field(default_factory=list)
    style: str = ""
    pieces: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[str] = []

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.pieces).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not FORBIDDEN.fullmatch(tag), f"<{tag}>"
        self.tags.append(tag)
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice"
        for name, value in attrs:
            assert not name.startswith("on"), f"<{tag} {name}>"
            assert not ADDRESSES.fullmatch(name), f"<{tag} {name}>"
            assert name != "style", "the policy lets no style of an element through"
            if name == "href":
                assert tag == "a", f"<{tag} href>"
                self.links.append(value or "")
            elif tag != "meta":
                assert not LOADS.search(value or ""), f"<{tag} {name}={value!r}>"
            if name == "id":
                self.ids.append(value or "")
        if tag == "meta":
            self.metas.append({name: value or "" for name, value in attrs})
            assert dict(attrs).get("http-equiv", "") in ("", "Content-Security-Policy")
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert "svg" in self._open, f"<{tag}/> outside a drawing"
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1:] == [tag], f"</{tag}> closes {self._open[-3:]}"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "style":
            self.style += data
        else:
            self.pieces.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data[:40]}")

    def whole(self) -> None:
        assert self._open == [], f"left open: {self._open}"


def read(html: str) -> Read:
    """Return the document, after checking that it is well-formed and loads and runs nothing."""
    assert html.startswith("<!doctype html>")
    found = Read()
    found.feed(html)
    found.close()
    found.whole()
    assert not LOADS.search(found.style)
    assert len(found.ids) == len(set(found.ids)), "an id twice"
    policy = next(one["content"] for one in found.metas if one.get("http-equiv"))
    digest = base64.b64encode(hashlib.sha256(found.style.encode()).digest()).decode()
    assert policy.startswith("default-src 'none';")
    assert f"style-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    return found
