"""Makes the pictures of the page that the documents show, from a demo's desk of its own: `python docs/pictures.py
[FOLDER]`."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

FOLDER = Path(__file__).parent / "pictures"
BROWSERS = ("chromium", "chromium-browser", "chromium-headless-shell", "google-chrome", "microsoft-edge")
LINK = re.compile(r"http://127\.0\.0\.1:\d+/#[A-Za-z0-9_-]{43}\S*")
MOST_BYTES = 150_000
WIDTH, HEIGHT = 1200, 720
SETTLE_MS = 1_500  # charts and graphs are drawn after their data


@contextmanager
def demo_desk() -> Iterator[str]:
    """The link to the page of a demo's desk with paper fills, which ends with the block."""
    with tempfile.TemporaryDirectory(prefix="pictures-") as home:
        command = [str(Path(sys.executable).with_name("desk")), "demo", "--live", "--page", "--home", f"{home}/demo"]
        environ = {**os.environ, "BROWSER": "true", "COLUMNS": "200", "SSH_CONNECTION": "no window is to open"}
        demo = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            yield _link(demo)
        finally:
            demo.send_signal(signal.SIGINT)
            demo.communicate()


def _link(demo: subprocess.Popen[str]) -> str:
    seen: list[str] = []
    for line in demo.stdout or ():
        seen.append(line)
        if found := LINK.search(line):
            return found[0]
    raise RuntimeError("the demo printed no link:\n" + "".join(seen[-20:]))


def take(page: Page, base: str, way: str, path: Path) -> None:
    """Write the picture of a view; raise ValueError when it is too large for the repository."""
    page.goto(f"{base}#{way}")
    page.locator("main h1").first.wait_for()
    while page.locator("main .loading").count():
        page.wait_for_timeout(SETTLE_MS)
    page.wait_for_timeout(SETTLE_MS)
    page.screenshot(path=path, animations="disabled")
    size = path.stat().st_size
    print(f"{path.name}: {size / 1000:.0f} kB")
    if size > MOST_BYTES:
        raise ValueError(f"{path.name} has {size} bytes, more than {MOST_BYTES}")


def links(page: Page, base: str, way: str, beginning: str) -> list[str]:
    """Return the views that a view links to, by the beginning of their address."""
    page.goto(f"{base}#{way}")
    found = page.locator(f'main a[href^="#{beginning}"]')
    found.first.wait_for()
    return [str(one.get_attribute("href")).removeprefix("#") for one in found.all()]


def main() -> None:
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        raise SystemExit("no browser: install chromium-headless-shell or Chromium")
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with demo_desk() as link, sync_playwright() as playwright:
        base = link.partition("#")[0]
        opened = playwright.chromium.launch(executable_path=browser, args=flags)
        page = opened.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.goto(link)
        page.get_by_role("navigation", name="Views").wait_for()
        run = links(page, base, "/runs?kind=screen", "/runs/")[0]
        order = links(page, base, f"/orders?state=filled&run={run.removeprefix('/runs/')}", "/orders/")[0]
        thread = links(page, base, order, "/threads/")[-1]
        symbol = links(page, base, order, "/symbols/")[0]
        episode = links(page, base, "/scores?show=episodes", "/runs/")[0]
        views = {"order": order, "run": run, "symbol": symbol, "thread": thread, "board": episode, "desk": "/"}
        for name, way in views.items():
            take(page, base, way, folder / f"{name}.png")
        page.emulate_media(color_scheme="dark")
        take(page, base, order, folder / "order-dark.png")
        take(page, base, "/account", folder / "account-dark.png")
        opened.close()


if __name__ == "__main__":
    main()
