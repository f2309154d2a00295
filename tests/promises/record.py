"""Records what `test_promises` holds this version to: `python -m tests.promises.record`, once for each
minor version; with `names`, the surface alone.

It writes the names that others build on (`surface.json`), and a home of a small desk that has screened, traded on
paper, analysed and forecast (`home.tar.gz`), which later versions upgrade, with the fields of what its commands showed
(`shown.json`). Read the differences before you keep them: what goes was promised.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.promises.surface import Surface, surface

HERE = Path(__file__).parent
SURFACE, HOME, SHOWN = HERE / "surface.json", HERE / "home.tar.gz", HERE / "shown.json"
DUMP = "desk.sql"
# Of a home what any version can make anew, or what belongs to processes.
LEFT = (
    "desk.db",
    "desk.db-queue",
    "desk.db-sums",
    "desk.db-shm",
    "desk.db-wal",
    "cache",
    "codex",
    "logs",
    "run",
    "redis",
    "charts",
    ".env",
)
SETTINGS = {"DESK_MARKET": "replay", "DESK_UNIVERSE": "IBM,KO,GE,F", "TRADER_LIVE": "1", "DESK_API_PORT": "0"}
WORK = (
    ("screen", "--max", "2", "--yes", "--wait"),
    ("analyze", "KO", "--no-research", "--across-earnings", "--wait"),
    ("episode", "--wait"),
    ("alerts", "add", "rises", "price above 1000", "IBM"),
    ("schedule", "add", "weekly", "10:00", "--kind", "screen", "--days", "mon"),
)
SHOWS = (0, 1)  # codes of commands that showed something: `desk status` has 1 where no worker runs
# Commands that show the home; {run}: its screen, {order}: its newest order.
LOOKS = (
    ("runs", "list"),
    ("runs", "show", "{run}"),
    ("orders", "list"),
    ("orders", "show", "{order}"),
    ("status",),
    ("scores",),
    ("board",),
    ("alerts", "list"),
    ("schedule", "list"),
    ("changes",),
)


def kept_surface() -> Surface:
    told = json.loads(SURFACE.read_text("utf-8"))
    return {part: [*_joined(names)] for part, names in told.items()}


def _joined(owners: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for owner, names in owners.items():
        yield owner
        yield from (f"{owner}: {name}" for name in names)


def keep_surface(found: Surface) -> None:
    """Write a line for each owner of names, such as a command with its options."""
    told: dict[str, dict[str, list[str]]] = {}
    for part, names in found.items():
        owners = told.setdefault(part, {})
        for name in names:
            owner, colon, own = name.partition(": ")
            owners.setdefault(owner, [])
            if colon:
                owners[owner].append(own)
    lines = []
    for part, owners in told.items():
        rows = ",\n".join(f"  {json.dumps(owner)}: {json.dumps(names)}" for owner, names in sorted(owners.items()))
        lines.append(f" {json.dumps(part)}: {{\n{rows}\n }}")
    SURFACE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def fields(value: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of all fields of a JSON value; those of an array's items are one."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield f"{path}{key}"
            yield from fields(inner, f"{path}{key}.")
    elif isinstance(value, list):
        for inner in value:
            yield from fields(inner, path)


def pack(home: Path, target: Path) -> None:
    with sqlite3.connect(home / "desk.db") as database, tarfile.open(target, "w:gz", compresslevel=9) as packed:
        dump = "\n".join(database.iterdump()).encode()
        about = tarfile.TarInfo(DUMP)
        about.size = len(dump)
        packed.addfile(about, io.BytesIO(dump))
        for path in sorted(home.iterdir()):
            if path.name not in LEFT:
                packed.add(path, path.name)


def unpack(home: Path) -> None:
    home.mkdir(mode=0o700)
    with tarfile.open(HOME) as packed:
        packed.extractall(home, filter="data")
    with sqlite3.connect(home / "desk.db") as database:
        database.executescript((home / DUMP).read_text("utf-8"))


def look(run: Any) -> dict[str, list[str]]:
    """Return the fields of what each command shows. run: runs one with its arguments, and returns its JSON."""
    runs = run("runs", "list", "--json")
    names = {"run": next(one["run"]["id"] for one in runs if one["run"]["kind"] == "screen")}
    names["order"] = run("orders", "list", "--json")[0]["id"]
    found = {}
    for arguments in LOOKS:
        told = run(*(one.format(**names) for one in arguments), "--json")
        found[" ".join(arguments)] = sorted(set(fields(told)))
    return found


def main() -> None:
    keep_surface(surface())
    if sys.argv[1:] == ["names"]:
        return
    folder = Path(tempfile.mkdtemp(prefix="chordesk-home-"))
    home = folder / "home"
    home.mkdir(mode=0o700)
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("DESK_", "TRADER_"))}
    environ = {**clean, **SETTINGS, "DESK_HOME": str(home)}
    command = [str(Path(sys.executable).with_name("desk"))]

    def desk(*arguments: str) -> str:
        done = subprocess.run([*command, *arguments], env=environ, cwd=home, capture_output=True, text=True)
        if done.returncode not in SHOWS:
            raise SystemExit(f"desk {' '.join(arguments)}: {done.stderr or done.stdout}")
        return done.stdout

    up = subprocess.Popen([*command, "up"], env=environ, cwd=home, stdout=subprocess.DEVNULL)
    try:
        while not (home / "run" / "services.json").exists():
            time.sleep(1)
        for arguments in WORK:
            print(f"desk {' '.join(arguments)}", flush=True)
            desk(*arguments)
    finally:
        up.send_signal(signal.SIGINT)
        up.wait(120)
    shown = look(lambda *arguments: json.loads(desk(*arguments)))
    SHOWN.write_text(json.dumps(shown, indent=1) + "\n", encoding="utf-8")
    pack(home, HOME)
    shutil.rmtree(folder)
    print(f"{HOME.name} has {HOME.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
