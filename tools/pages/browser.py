"""Picture of a page by a headless Chromium that reaches the allowed hosts alone and runs no script.

Its resolver knows only the addresses that were checked, so neither a redirect nor a part of the page leads elsewhere.
Scripts are off by its settings: they could open connections for which it asks no resolver.
"""

from __future__ import annotations

import importlib
import io
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from chordesk.models.urls import PageHost
from chordesk.tools.pages.page_reader import PageError, Target, address_of
from chordesk.tools.registry import ToolImage
from chordesk.tools.toolsets import MAX_IMAGE_BYTES

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OFF = "off"
MOST_AT_ONCE = 2  # each has some 250 MB
WIDTH, HEIGHT = 1024, 1280
_LEAST_SECONDS = 2.0
_PNG = b"\x89PNG\r\n\x1a\n"
_FLAGS = (
    "--headless", "--disable-gpu", "--hide-scrollbars", "--mute-audio", "--no-first-run", "--disable-sync",
    "--disable-extensions", "--disable-default-apps", "--disable-component-update", "--disable-background-networking",
    "--dns-prefetch-disable", "--disable-quic", "--no-proxy-server",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
)  # fmt: skip
_SETTINGS = {"profile": {"default_content_setting_values": {"javascript": 2, "notifications": 2, "geolocation": 2}}}
_running = threading.BoundedSemaphore(MOST_AT_ONCE)


def find_browser(setting: str | None) -> str:
    if setting == OFF:
        raise PageError("not available: configure DESK_PAGE_BROWSER, which is off")
    for name in (setting,) if setting else NAMES:
        if path := shutil.which(os.path.expanduser(name)):
            return path
    if setting:
        raise PageError(f"not available: DESK_PAGE_BROWSER={setting} is no program")
    raise PageError("not available: configure DESK_PAGE_BROWSER (no Chromium is on the PATH)")


def picture_of(browser: str, target: Target, hosts: Sequence[PageHost], until: float) -> ToolImage:
    """The upper part of a page, as PNG. until: time.monotonic(). Raises PageError."""
    if not _running.acquire(timeout=max(until - time.monotonic() - _LEAST_SECONDS, 0)):
        raise PageError("no picture: the browser makes those of other pages")
    try:
        with tempfile.TemporaryDirectory(prefix="desk-page-", ignore_cleanup_errors=True) as folder:
            return ToolImage(_fit(_shot(browser, target, hosts, until, Path(folder))), "image/png")
    finally:
        _running.release()


def resolver_rules(target: Target, hosts: Sequence[PageHost], until: float) -> str:
    """Return the rules by which the browser finds the allowed hosts at their checked addresses, and no other host."""
    places = {(target.host, target.port): target.rule}
    places |= {(rule.name, rule.port): rule for rule in hosts if not rule.subdomains}
    rules = []
    for (host, port), rule in places.items():
        with suppress(PageError):  # a further host that has no address is not needed for the page
            rules.append(f"MAP {_bracketed(host)}:{port} {_bracketed(address_of(host, port, rule, until))}:{port}")
    return ", ".join([*rules, "MAP * ~NOTFOUND"])


def _shot(browser: str, target: Target, hosts: Sequence[PageHost], until: float, folder: Path) -> bytes:
    file, notes, left = folder / "page.png", folder / "notes", until - time.monotonic()
    if left < _LEAST_SECONDS:
        raise PageError("no picture: the page itself took all the time")
    (folder / "Default").mkdir()
    (folder / "Default" / "Preferences").write_bytes(orjson.dumps(_SETTINGS))
    command = [
        browser, *_FLAGS, f"--user-data-dir={folder}", f"--window-size={WIDTH},{HEIGHT}",
        f"--timeout={int((left - 1) * 1000)}",  # a part of the page that does not come is not waited for
        f"--host-resolver-rules={resolver_rules(target, hosts, until)}", f"--screenshot={file}", target.url,
    ]  # fmt: skip
    environ = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), "LANG": "C.UTF-8"}
    with notes.open("wb") as errors:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, env=environ,
                cwd=folder, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise PageError(f"no picture: {browser} does not run: {error.strerror}") from None
        _wait(process, until)
    data = file.read_bytes() if file.is_file() else b""
    if not data.startswith(_PNG):
        raise PageError(f"no picture: {_last_note(notes) or 'the browser made none in its time'}")
    return data


def _wait(process: subprocess.Popen[bytes], until: float) -> None:
    """Wait for the browser's end, then kill the rest of its process group."""
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(until - time.monotonic(), 0))
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _last_note(notes: Path) -> str:
    """What the browser wrote last of its own end; its complaints about the desktop's services are not that."""
    lines = [line for line in notes.read_text(errors="replace").splitlines() if line.strip() and "dbus" not in line]
    last = lines[-1].rpartition("] ")[2] if lines else ""
    return "".join(letter for letter in last if letter.isprintable())[-200:]


def _fit(data: bytes) -> bytes:
    if len(data) <= MAX_IMAGE_BYTES:
        return data
    pillow: Any = importlib.import_module("PIL.Image")
    with pillow.open(io.BytesIO(data)) as opened:
        image = opened.convert("RGB")
    while len(data) > MAX_IMAGE_BYTES:
        packed = io.BytesIO()
        image.quantize(256).save(packed, "PNG", optimize=True)
        data = packed.getvalue()
        image = image.resize((image.width * 2 // 3, image.height * 2 // 3))
    return data


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
