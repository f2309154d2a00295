"""The page's files, and the policy under which a browser runs them: nothing from elsewhere, and no text as code."""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path

from fastapi import Request, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from chordesk.models import features
from chordesk.tasks.web.problems import answer, problem

STATIC = Path(__file__).parent / "static"
PREFIX = "/page/"
SHELL = "index.html"
PART_BYTES = 16 * 1024
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".LICENSE": "text/plain; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
}
_INLINE = re.compile(rb'<script type="importmap">(.*?)</script>', re.DOTALL)


def files(folder: Path = STATIC) -> dict[str, Path]:
    """Return every file of the page by its path below the prefix: a name that is not among them leads nowhere."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.suffix in TYPES)
    return {path.relative_to(folder).as_posix(): path for path in found}


@lru_cache(maxsize=1)
def page_tag() -> str:
    """Return a tag of all the page's files as this process began with them."""
    return hashlib.sha256(b"".join(path.read_bytes() for _, path in sorted(_FILES.items()))).hexdigest()[:16]


def policy(shell: bytes) -> str:
    """Return the content security policy of the shell: its one inline text is the import map, allowed by its hash."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(text).digest()).decode()}'" for text in _INLINE.findall(shell)
    )
    return "; ".join(
        (
            "default-src 'none'", f"script-src 'self' {hashes}", "style-src 'self'", "connect-src 'self'",
            "img-src 'self' blob:", "manifest-src 'self'", "base-uri 'none'", "form-action 'none'",
            "frame-ancestors 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'",
        )
    )  # fmt: skip


def answer_for(found: Mapping[str, Path], name: str, known: str | None, encodings: str = "") -> Response:
    """known: the tag of the browser's copy. encodings: what it accepts."""
    path = found.get(name)
    if path is None:
        return answer(problem(HTTPStatus.NOT_FOUND, "not_found", "the page has no such file"))
    data, small, tag = _bytes(path, path.stat().st_mtime_ns)
    # It asks each time, and gets the bytes only when they are others: after an update no old module is left.
    headers = {"Cache-Control": "no-cache", "ETag": tag, "Vary": "Accept-Encoding"}
    if name == SHELL:
        headers |= {"Content-Security-Policy": policy(data), "Cross-Origin-Opener-Policy": "same-origin"}
    if known == tag:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    if "gzip" in encodings:
        return _InParts(small, media_type=TYPES[path.suffix], headers=headers | {"Content-Encoding": "gzip"})
    return _InParts(data, media_type=TYPES[path.suffix], headers=headers)


@lru_cache(maxsize=100)
def _bytes(path: Path, changed: int) -> tuple[bytes, bytes, str]:
    """A file's bytes, the same compressed once for all who ask, and its tag. It is weak: both have it."""
    data = path.read_bytes()
    return data, gzip.compress(data, mtime=0), f'W/"{hashlib.sha256(data).hexdigest()[:32]}"'


class _InParts(Response):
    """A file that is sent as its reader takes it: anybody may ask for one, and would keep a whole copy by taking
    nothing."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for at in range(0, len(self.body), PART_BYTES):
            await send({"type": "http.response.body", "body": self.body[at : at + PART_BYTES], "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _of_features() -> dict[str, Path]:
    folders = list(features.folders("pages", "page"))
    return {f"of/{one.name}/{file}": path for one, folder in folders for file, path in files(folder).items()}


_FILES = files() | _of_features()


class Assets:
    """Middleware that sends the page's files, kept in memory; without a name its shell. It stands before the routes:
    anybody may ask for a file, and on the way through them 70 clients that do so took 60 % of the service's time."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or not scope["path"].startswith(PREFIX):
            await self._app(scope, receive, send)
            return
        asked, name = Request(scope).headers, scope["path"].removeprefix(PREFIX)
        found = answer_for(_FILES, name or SHELL, asked.get("if-none-match"), asked.get("accept-encoding", ""))
        await found(scope, receive, send)
