"""The page's files: the published bytes of others, nothing from elsewhere, and all of them in the package."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest

from chordesk.tasks.web.page.assets import SHELL, STATIC, files, policy
from deploy.vendor import LIBRARIES

VENDOR = STATIC / "vendor"
OWN = [
    path for path in sorted(STATIC.rglob("*")) if path.suffix in (".js", ".html", ".css") and VENDOR not in path.parents
]
BARRED = (
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|dangerouslySet|\beval\(|new Function|style=\"|\son\w+=\""
)
# The names of a format and, as the licence of the charts asks, of their maker; nothing is loaded from there.
NAMED = ("http://www.w3.org/", "https://www.tradingview.com")
MANIFEST = json.loads((VENDOR / "manifest.json").read_text(encoding="utf-8"))


def test_the_libraries_are_the_bytes_that_were_published() -> None:
    named = {row["file"] for row in MANIFEST}
    assert named == {path.name for path in VENDOR.iterdir()} - {"manifest.json", "NOTICE.txt"}
    for row in MANIFEST:
        assert hashlib.sha512((VENDOR / row["file"]).read_bytes()).hexdigest() == row["sha512"], row["file"]
        assert row["licence"] in ("MIT", "Apache-2.0")
        assert base64.b64decode(row["integrity"].removeprefix("sha512-"), validate=True)


def test_each_library_has_its_version_and_its_licence() -> None:
    assert {(row["name"], row["version"]) for row in MANIFEST} == {(one.name, one.version) for one in LIBRARIES}
    for library in LIBRARIES:
        assert any(file.endswith(".LICENSE") for file in library.files), library.name
    assert "TradingView" in (VENDOR / "NOTICE.txt").read_text(encoding="utf-8")


def test_each_module_that_is_imported_is_there() -> None:
    found = files()
    mapped = json.loads(re.findall(r"importmap\">(.*?)</script>", (STATIC / SHELL).read_text())[0])["imports"]
    assert {path.removeprefix("/page/") for path in mapped.values()} <= set(found)
    for path in OWN:
        code = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)  # types come from elsewhere
        for name in re.findall(r"(?:from |import\()'([^']+)'", code):
            if name.startswith("."):
                assert (path.parent / name).resolve().relative_to(STATIC.resolve()).as_posix() in found, (
                    f"{path.name}: {name}"
                )
            elif not name.startswith("/page/"):
                assert name in mapped, f"{path.name}: {name}"


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.relative_to(STATIC).as_posix())
def test_no_file_makes_text_a_script_or_asks_elsewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.findall(BARRED, text)
    assert not [url for url in re.findall(r"https?://[^\s'\"`)<]+", text) if not url.startswith(NAMED)]


def test_the_policy_allows_the_import_map_by_its_hash_and_nothing_inline() -> None:
    shell = (STATIC / SHELL).read_bytes()
    found = policy(shell)
    text = re.findall(rb'<script type="importmap">(.*?)</script>', shell)
    assert len(text) == 1
    assert f"'sha256-{base64.b64encode(hashlib.sha256(text[0]).digest()).decode()}'" in found
    assert "unsafe" not in found
    assert "http" not in found
    assert len(re.findall(rb"<script(?![^>]* src=)", shell)) == 1
