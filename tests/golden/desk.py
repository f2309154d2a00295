"""A fixed US desk, as one comparison: what a change of clocks, listings, prices or money must leave as it was.

`python -m tests.golden.desk OUT` plays `desk demo --live` in a folder of its own and writes each row of the tables,
each prompt and each tool answer as a line, without ids, real times and durations. `--against EARLIER` then prints the
lines that only one of the two files has, and ends with 1 if there are any. It takes about a minute. Make EARLIER on the
parent commit; nothing of it is kept in the repository, since a prompt that is reworded changes it rightly.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, inspect, text

from chordesk.models.settings import Settings

# Of how the desk ran: processes, messages, leases, threads.
_MACHINERY = frozenset(
    {"alembic_version", "attempt", "audit_anchor", "blob", "conversation", "event_batch", "event_head", "identity",
     "notification_sender", "rollout", "runtime_item", "runtime_turn", "submitter", "sweep", "thread"}
)  # fmt: skip
# Real time, durations and names of processes. The market's own time is in market_at, filled_at and priced_at.
_OF_THE_PLAY = frozenset(
    {"id", "created_at", "updated_at", "started_at", "finished_at", "ended_at", "opened_at", "closed_at", "sent_at",
     "due_at", "lease_until", "claimed_at", "processed_at", "deadline_at", "resolved_at", "taken_at", "occurred_at",
     "trusted_until", "trusted_from", "at", "seconds", "owner", "worker", "thread_id", "thread_reason", "codex_turn_id",
     "attempt", "sends", "fence", "token", "payload_hash", "broker_order_id", "ordinal", "size", "settings", "notes"}
)  # fmt: skip
_TOKENS = "tokens"  # ends the columns of counts, which ids and times of other lengths change
# What is drawn or counted anew in each play: ids, citation labels, the time of an earlier question, tokens, seconds.
_CHANGING = (
    (re.compile(r"\b[0-9a-f]{32}\b|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<id>"),
    (re.compile(r"\b[a-z]{4}-[a-z]\b"), "<cite>"),
    (re.compile(r"earlier question of [-0-9: ]+UTC"), "earlier question"),
    (re.compile(r'"(used|seconds|tokens)": [\d.]+'), r'"\1": 0'),
)
_SHOWN = 40


def lines_of(home: Path, tables: Sequence[str] = ()) -> list[str]:
    """Return the rows, prompts and tool answers of a desk's folder as sorted lines. tables: these alone, if any."""
    made = [*_rows(Settings(home=home).database, tables), *_prompts(home)]
    return sorted(_steady(line.replace(str(home), "<home>")) for line in made)


def _steady(line: str) -> str:
    for pattern, name in _CHANGING:
        line = pattern.sub(name, line)
    return line


def _rows(database: str, tables: Sequence[str]) -> Iterator[str]:
    engine = create_engine(database)
    with closing(engine.raw_connection()), engine.connect() as connection:
        for table in inspect(engine).get_table_names():
            if table in _MACHINERY or (tables and table not in tables):
                continue
            # A column that a later schema adds says nothing of a desk that has no use for it.
            defaults = {column["name"]: column["default"] for column in inspect(engine).get_columns(table)}
            for row in connection.execute(text(f'SELECT * FROM "{table}"')).mappings():
                told = {name: value for name, value in row.items() if not name.endswith(_TOKENS)}
                told = {name: value for name, value in told.items() if not _unsaid(value, defaults[name])}
                kept = {name: _plain(value) for name, value in told.items() if name not in _OF_THE_PLAY}
                yield f"{table} {json.dumps(kept, sort_keys=True, default=str)}"


def _unsaid(value: Any, default: str | None) -> bool:
    return value is None or (default is not None and str(value) == default.strip("'"))


def _plain(value: Any) -> Any:
    """Return a cell; JSON is read, so that its keys come in order."""
    if isinstance(value, str) and value[:1] in "{[":
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _prompts(home: Path) -> Iterator[str]:
    for rollout in home.glob("codex/**/rollout-*.jsonl"):
        for line in rollout.read_text(encoding="utf-8").splitlines():
            item = json.loads(line).get("payload", {})
            if item.get("type") == "message" and item.get("role") != "assistant":
                yield f"prompt {json.dumps([part.get('text') for part in item['content']])}"


def play(home: Path) -> None:
    command = [sys.executable, "-m", "chordesk.tasks.cli.main", "demo", "--live", "--home", str(home)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--against", type=Path, help="an earlier file")
    parser.add_argument("--home", type=Path, help="a demo's folder that is there, in place of a new one")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = asked.home or Path(folder) / "demo"
        if asked.home is None:
            play(home)
        found = lines_of(home)
    asked.out.write_text("\n".join(found) + "\n", encoding="utf-8")
    print(f"{len(found)} lines in {asked.out}")
    if asked.against is None:
        return 0
    earlier = asked.against.read_text(encoding="utf-8").splitlines()
    gone, new = Counter(earlier) - Counter(found), Counter(found) - Counter(earlier)
    for sign, differing in (("-", gone), ("+", new)):
        for line in list(differing.elements())[:_SHOWN]:
            print(f"{sign} {line[:2000]}")
    print(f"{gone.total()} lines are gone, {new.total()} are new")
    return int(bool(gone or new))


if __name__ == "__main__":
    raise SystemExit(main())
