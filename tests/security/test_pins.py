"""Where packages come from: pins with hashes alone, no address of an index in any file, and advisories on demand."""

from __future__ import annotations

import re
import subprocess

from tests.patience import PATIENCE
from tests.stack import REPOSITORY

SETS = sorted((REPOSITORY / "requirements").glob("*.txt"))
# Options and addresses of an index, as pip, uv and npm write them.
INDEX = re.compile(
    r"--(?:extra-)?index-url[ =]\S|(?:extra-)?index-url *=|https?://[^\s\"'`)]*/simple\b|\bregistry *= *\S+//"
)
LISTING = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", *arguments], cwd=REPOSITORY, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def test_no_file_names_an_index() -> None:
    """The machine's own configuration says where packages come from."""
    done = subprocess.run(LISTING, cwd=REPOSITORY, capture_output=True, text=True, timeout=PATIENCE, check=True)
    paths = [REPOSITORY / name for name in done.stdout.split("\0") if name]
    assert len(paths) > 1000
    found = []
    for path in paths:
        if path.is_file() and path.suffix not in (".png", ".gz", ".parquet", ".wasm"):
            found += [f"{path}: {one[0]}" for one in INDEX.finditer(path.read_text("utf-8", errors="replace"))]
    assert found == []


def test_an_index_would_be_found() -> None:
    for text in ("--index-url" + " host", "index-url" + " = host", "https:" + "//host/simple", "registry" + "=x//host"):
        assert INDEX.search(text), text
    assert not INDEX.search("--no-emit-index-url --no-emit-find-links and a simple thing")


def test_the_audit_reads_every_pinned_set() -> None:
    planned = make("--dry-run", "audit")
    assert planned.returncode == 0, planned.stderr
    (loop,) = re.findall(r"for set in ([a-z ]+);", planned.stdout)
    assert sorted(loop.split()) == [path.stem for path in SETS]
    assert "--require-hashes" in planned.stdout


def test_the_audit_names_what_it_needs() -> None:
    """Without pip-audit on the PATH it is not passed over."""
    done = make("audit", "PATH=/usr/bin:/bin")
    assert done.returncode != 0
    assert "needs pip-audit" in done.stdout + done.stderr
