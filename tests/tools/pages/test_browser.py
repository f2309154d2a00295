"""The picture of a page: a real Chromium where there is one, and programs that behave as a broken one."""

from __future__ import annotations

import io
import os
import shutil
import stat
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from PIL import Image

from chordesk.models.urls import page_hosts
from chordesk.tools.pages.browser import HEIGHT, NAMES, WIDTH, find_browser, resolver_rules
from chordesk.tools.pages.page_reader import PageError, target_of
from chordesk.tools.registry import ToolAnswer
from tests.fakes.pages import ARTICLE, FakePages, redirect, reply
from tests.patience import PATIENCE
from tests.tools.pages.conftest import Read

CHROMIUM = next((path for name in NAMES if (path := shutil.which(name))), None)
pytestmark = pytest.mark.process
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the PATH; install the package chromium")
RED, WHITE = (255, 0, 0), (255, 255, 255)
MakeProgram = Callable[[str], str]


@pytest.fixture
def program(tmp_path: Path) -> MakeProgram:
    """Return the path of a new shell script."""

    def program(text: str) -> str:
        path = tmp_path / "browser"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    return program


@pytest.fixture
def browser(program: MakeProgram) -> str:
    """Return Chromium; its own sandbox does not run as root."""
    return program(f'exec {CHROMIUM} {"--no-sandbox" if os.geteuid() == 0 else ""} "$@"')


def no_picture(answer: ToolAnswer) -> str:
    """Return the reason for which an answer has text and no picture."""
    assert answer.has_data
    assert answer.image is None
    (gap,) = answer.payload["missing"]
    assert gap["what"] == "picture"
    return str(gap["reason"])


def picture(answer: ToolAnswer) -> Image.Image:
    assert answer.payload["missing"] == []
    assert answer.image is not None
    assert answer.image.mime_type == "image/png"
    return Image.open(io.BytesIO(answer.image.data)).convert("RGB")


BOX = "<div style='position:absolute;left:{left}px;top:{top}px;width:100px;height:100px;background:red'></div>"


@needs_browser
def test_the_picture_is_of_the_page(pages: FakePages, read: Read, browser: str) -> None:
    pages.pages["/a"] = redirect("/b")
    pages.pages["/b"] = reply(ARTICLE.replace("<nav>", BOX.format(left=700, top=900) + "<nav>"))
    image = picture(read(f"{pages.url}/a", pages.place, page_browser=browser))
    assert image.size == (WIDTH, HEIGHT)
    assert image.getpixel((750, 950)) == RED
    assert image.getpixel((690, 950)) == image.getpixel((750, 890)) == WHITE


@needs_browser
def test_the_browser_reaches_the_allowed_hosts_alone_and_runs_no_script(read: Read, browser: str) -> None:
    with FakePages() as pages, FakePages() as other, FakePages() as inner:
        parts = [f"<img src='{inner.url}/img'>", f"<iframe src='{inner.url}/frame'></iframe>"]
        parts += [f"<img src='http://localhost:{inner.port}/name'>", f"<img src='{other.url}/allowed.svg'>"]
        parts += [f"<script>fetch('{pages.url}/script'); fetch('{other.url}/script')</script>"]
        parts += ["<img src='file:///etc/passwd'>", "<iframe src='/leads'></iframe>"]
        pages.pages |= {"/a": reply(ARTICLE.replace("<nav>", f"{''.join(parts)}<nav>"))}
        pages.pages["/leads"] = redirect(f"{inner.url}/led")
        hosts = f"{pages.place},{other.place}"
        picture(read(f"{pages.url}/a", hosts, page_browser=browser))
        assert inner.requests == []
        assert other.paths == ["/allowed.svg"]
        assert "/script" not in pages.paths
        assert "/leads" in pages.paths


@needs_browser
def test_nothing_of_the_browser_is_left(pages: FakePages, read: Read, browser: str, tmp_path: Path) -> None:
    pages.pages["/a"] = reply(ARTICLE)
    before = {one.pid for one in psutil.process_iter()}
    folder = Path(os.environ.get("TMPDIR", "/tmp"))
    picture(read(f"{pages.url}/a", pages.place, page_browser=browser))
    mine = [
        one
        for one in psutil.process_iter(["cmdline"])
        if one.pid not in before
        and any(pages.url in part or "desk-page-" in part for part in one.info["cmdline"] or ())
    ]
    assert mine == []
    assert not [path for path in folder.glob("desk-page-*/page.png") if path.stat().st_uid == os.geteuid()]


def test_a_browser_that_hangs_is_killed_with_its_group(
    pages: FakePages, read: Read, program: MakeProgram, tmp_path: Path
) -> None:
    pages.pages["/a"] = reply(ARTICLE)
    path = program(f"sleep 600 & echo $$ > {tmp_path}/pid; exec sleep 600")
    answer = read(f"{pages.url}/a", pages.place, page_browser=path, tool_seconds=10.0)
    assert no_picture(answer) == "no picture: the browser made none in its time"
    group = int((tmp_path / "pid").read_text())
    until = time.monotonic() + PATIENCE
    while any(os.getpgid(one.pid) == group for one in psutil.process_iter() if alive(one)):
        assert time.monotonic() < until
        time.sleep(0.05)


def alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE and os.getpgid(process.pid) > 0
    except (psutil.NoSuchProcess, ProcessLookupError):
        return False


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("echo 'Running as root without --no-sandbox is not supported.' >&2; exit 1", "no picture: Running as root"),
        ("exit 0", "no picture: the browser made none in its time"),
        ('for one; do case $one in --screenshot=*) echo text > "${one#*=}";; esac; done', "no picture: the browser"),
    ],
)
def test_a_browser_that_makes_no_picture_is_an_answer_with_the_text(
    pages: FakePages, read: Read, program: MakeProgram, text: str, expected: str
) -> None:
    pages.pages["/a"] = reply(ARTICLE)
    answer = read(f"{pages.url}/a", pages.place, page_browser=program(text))
    assert no_picture(answer).startswith(expected)
    assert "1,234.5" in answer.payload["page"]["text"]


def test_the_browser_gets_no_setting_of_the_desk(
    pages: FakePages, read: Read, program: MakeProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALPACA_SECRET_KEY", "never-shown")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    pages.pages["/a"] = reply(ARTICLE)
    path = program(f"env > {tmp_path}/env")
    read(f"{pages.url}/a", pages.place, page_browser=path)
    names = {line.partition("=")[0] for line in (tmp_path / "env").read_text().splitlines()}
    assert names <= {"PATH", "HOME", "LANG", "PWD", "OLDPWD", "SHLVL", "_"}


def test_without_a_browser_the_answer_has_the_text(
    pages: FakePages, read: Read, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    pages.pages["/a"] = reply(ARTICLE)
    missing = no_picture(read(f"{pages.url}/a", pages.place, page_browser=None))
    assert missing == "not available: configure DESK_PAGE_BROWSER (no Chromium is on the PATH)"
    with pytest.raises(PageError, match="DESK_PAGE_BROWSER=/nowhere is no program"):
        find_browser("/nowhere")


def test_the_resolver_knows_the_checked_addresses_alone() -> None:
    hosts = page_hosts("127.0.0.1:8080,[::1]:81,*.example.com")
    rules = resolver_rules(target_of("http://127.0.0.1:8080/a", hosts), hosts, time.monotonic() + PATIENCE)
    assert rules == "MAP 127.0.0.1:8080 127.0.0.1:8080, MAP [::1]:81 [::1]:81, MAP * ~NOTFOUND"
