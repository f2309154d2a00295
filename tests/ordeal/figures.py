"""Keeps what a bench or benchmark measured for the pages, with its date, its commit and its command.

A page shows `docs/figures/NAME.json` between `<!-- figures: NAME -->` and `<!-- end -->`; `python docs/generate.py`
puts it there, so no figure on it is typed. As a program it reads what a command of the desk wrote:

    desk demo > FILE
    python -m tests.ordeal.figures demo FILE
    desk benchmark forecastbench --from FOLDER --no-play --json > FILE
    python -m tests.ordeal.figures forecastbench FILE
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.stack import REPOSITORY

FIGURES = REPOSITORY / "docs" / "figures"


def keep(name: str, command: str, **what: Any) -> None:
    """Write a table (columns, rows) or a text."""
    made = {"command": command, "date": dt.datetime.now(dt.UTC).date().isoformat(), "commit": commit(), **what}
    FIGURES.mkdir(exist_ok=True)
    (FIGURES / f"{name}.json").write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"kept in docs/figures/{name}.json; `python docs/generate.py` puts it on its page")


def commit() -> str:
    """Return the last commit of the main line, with a plus where code had changed since."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    last = git("merge-base", "HEAD", "main")
    return last[:8] + ("+" if git("diff", "--name-only", last, "--", "*.py", "*.jinja") else "")


def machine() -> str:
    return f"{os.cpu_count()} processors at a load of {os.getloadavg()[0]:.0f}"


# What the demo prints is shown by the first line that each of these finds, in this order.
SHOWN = (
    r"up after .*",
    r" +[\d.]+ s  screen .* trader 1/1 .* orders 1/1 .*",
    r"Symbol +Screeners.*",
    r"[A-Z]+ +[a-z].* (?:BUY|HOLD|CAUTION|PASS) .*",
    r"Gate: .*",
    r" +\d+ of \d+ figures in .*",
    r" +\d+ forecasts of .*",
    r"done in .*",
)
TABLE = slice(2, 4)  # of them
WIDTH = 124  # of a line on the page


def demo(printed: str) -> None:
    """Keep the lines of a demo that tell what it did. Raises ValueError where one is not there."""
    lines = printed.splitlines()
    found = []
    for pattern in SHOWN:
        line = next((one.rstrip() for one in lines if re.fullmatch(pattern, one.rstrip())), None)
        if line is None:
            raise ValueError(f"no line of the demo fits {pattern!r}: did it end?")
        found.append(line)
    found[TABLE] = aligned(found[TABLE])
    shown = (line if len(line) <= WIDTH else f"{line[: WIDTH - 4]} ..." for line in found)
    keep("demo", "desk demo", text="\n".join(shown), where=machine())


def aligned(lines: Sequence[str]) -> list[str]:
    """Return rows of a wide table as narrow as their own cells."""
    cells = [re.split(r" {2,}", line) for line in lines]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def benchmark(name: str, more: str = "") -> Callable[[str], None]:
    """Return what keeps the rows that `desk benchmark NAME --json` printed, each figure in the form of its column."""

    def kept(printed: str) -> None:
        told = json.loads(printed)
        forms: Mapping[str, str] = told["columns"]
        columns, rows = ["who", *forms, "source"], []
        for row in told["rows"]:
            cells = (row["figures"].get(figure) for figure in forms)
            shown = [
                "" if cell is None else format(cell, form) for cell, form in zip(cells, forms.values(), strict=True)
            ]
            rows.append([row["who"], *shown, row["source"]])
        note = "; ".join(told["lines"])
        keep(name, f"desk benchmark {name}{more}", columns=columns, rows=rows, note=note)

    return kept


KEPT: Mapping[str, Callable[[str], None]] = {
    "demo": demo,
    "forecastbench": benchmark("forecastbench", " --no-play"),
    "stockbench": benchmark("stockbench"),
}


if __name__ == "__main__":
    KEPT[sys.argv[1]](Path(sys.argv[2]).read_text(encoding="utf-8"))
