"""Fetches the page's libraries with npm, unmodified, and writes their manifest: `make vendor`.

npm compares each archive with the hash that its registry publishes; the manifest keeps that one, and one for each file.
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VENDOR = Path(__file__).parents[1] / "tasks" / "web" / "page" / "static" / "vendor"


@dataclass(frozen=True, slots=True)
class Library:
    """A package of npm and the files that the page takes from it, by their new name."""

    name: str
    version: str
    files: dict[str, str]


LIBRARIES = (
    Library(
        "preact",
        "11.2.0",
        {"preact.mjs": "dist/preact.mjs", "preact-hooks.mjs": "hooks/dist/hooks.mjs", "preact.LICENSE": "LICENSE"},
    ),
    Library("htm", "3.1.1", {"htm.mjs": "dist/htm.mjs", "htm.LICENSE": "LICENSE"}),
    Library(
        "@preact/signals-core",
        "1.14.5",
        {"signals-core.mjs": "dist/signals-core.mjs", "signals-core.LICENSE": "LICENSE"},
    ),
    Library("@preact/signals", "2.11.4", {"signals.mjs": "dist/signals.mjs", "signals.LICENSE": "LICENSE"}),
    Library(
        "lightweight-charts",
        "5.2.1",
        {
            "lightweight-charts.mjs": "dist/lightweight-charts.standalone.production.mjs",
            "lightweight-charts.LICENSE": "LICENSE",
        },
    ),
)


def main() -> int:
    """Write the files and the manifest. Returns 0, or 1 when npm fails."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for library in LIBRARIES:
            done = subprocess.run(
                ["npm", "pack", "--json", "--silent", f"{library.name}@{library.version}"],
                cwd=folder, capture_output=True, text=True,
            )  # fmt: skip
            if done.returncode:
                print(f"npm pack {library.name}: {done.stderr.strip()}", file=sys.stderr)
                return 1
            rows += _taken(library, _packed(json.loads(done.stdout)), Path(folder))
    (VENDOR / "manifest.json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    return 0


def _packed(answer: Any) -> dict[str, Any]:
    """Return the one package of npm's answer, which is a list or, of other versions, a table by name."""
    found = answer if isinstance(answer, list) else list(answer.values())
    packed: dict[str, Any] = found[0]
    return packed


def _taken(library: Library, packed: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Write a library's files; return their rows of the manifest. Raises ValueError for an archive that is another."""
    archive = folder / packed["filename"]
    digest = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if digest != packed["integrity"]:
        raise ValueError(f"{archive.name} is not what npm published")
    rows = []
    with tarfile.open(archive) as opened:
        package = json.load(opened.extractfile("package/package.json"))  # type: ignore[arg-type]
        for file, inside in library.files.items():
            data = opened.extractfile(f"package/{inside}").read()  # type: ignore[union-attr]
            (VENDOR / file).write_bytes(data)
            rows.append(
                {
                    "name": library.name, "version": library.version, "licence": package["license"], "file": file,
                    "of": inside, "sha512": hashlib.sha512(data).hexdigest(), "integrity": packed["integrity"],
                }
            )  # fmt: skip
    return rows


if __name__ == "__main__":
    raise SystemExit(main())
