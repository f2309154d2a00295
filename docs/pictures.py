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
from contextlib import ExitStack, contextmanager
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
    """The link to the page of a demo's desk with paper fills, which is up until the block ends."""
    desk = str(Path(sys.executable).with_name("desk"))
    with tempfile.TemporaryDirectory(prefix="pictures-") as folder:
        home = f"{folder}/demo"
        subprocess.run([desk, "demo", "--live", "--home", home], check=True, stdout=subprocess.DEVNULL)
        # The session whose open filled the orders.
        environ = {**os.environ, "DESK_HOME": home, "DESK_REPLAY_DATE": "2010-08-13", "COLUMNS": "200"}
        with ExitStack() as stack:
            up = stack.enter_context(running([desk, "up", "--no-beat"], environ))
            next(line for line in up.stdout or () if "Ctrl-C stops all" in line)
            page = stack.enter_context(running([desk, "page", "--no-open"], environ))
            yield next(found[0] for line in page.stdout or () if (found := LINK.search(line)))


@contextmanager
def running(command: list[str], environ: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate()


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
        order = links(page, base, "/orders?state=filled", "/orders/")[0]
        run = links(page, base, order, "/runs/")[0]
        thread = links(page, base, order, "/threads/")[-1]
        symbol = links(page, base, order, "/symbols/")[0]
        episode = links(page, base, "/scores?show=episodes", "/runs/")[0]
        views = {"order": order, "run": run, "symbol": symbol, "thread": thread, "board": episode, "desk": "/"}
        views |= {"record": "/scores", "settings": "/settings"}
        for name, way in views.items():
            take(page, base, way, folder / f"{name}.png")
        page.emulate_media(color_scheme="dark")
        take(page, base, order, folder / "order-dark.png")
        take(page, base, "/account", folder / "account-dark.png")
        opened.close()


if __name__ == "__main__":
    main()
