"""`desk cassette`: the kept answers of models, as a file of their own and back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from chordesk.models.errors import UsageError
from chordesk.models.settings.sources import load_settings
from chordesk.tasks.cli.output import emit, print_line, table
from chordesk.tasks.cli.shell import Json, looks, make_own, opened, run_of
from chordesk.tasks.cli.upkeep import bytes_text

if TYPE_CHECKING:
    from chordesk.tasks.measure.cassette_files import Head, Kept, Taken

File = Annotated[Path, typer.Argument(help="The file.")]
OfRun = Annotated[
    str | None, typer.Option("--run", help="Only the turns that this run kept or played; a backtest's with its days.")
]

commands = typer.Typer(
    name="cassette", help="Models' answers that are kept, to play runs again without a model.", no_args_is_help=True
)


@commands.command("list")
@looks("no cassettes yet")
def list_kept(as_json: Json = False) -> None:
    """List what is kept, by role and model, with its size."""
    from chordesk.tasks.measure.cassette_files import kept

    _settings, store = opened()
    with store.read() as session:
        rows = kept(session)
    emit(
        rows, lambda _: _table(rows) if rows else "no turns are kept; DESK_CASSETTES=record keeps them", as_json=as_json
    )


@commands.command("export")
def export_file(file: File, run: OfRun = None, as_json: Json = False) -> None:
    """Write kept turns into one file, without keys and folders of this machine."""
    from chordesk.tasks.measure.cassette_files import export

    settings, store = opened()
    with store.read() as session:
        row = run_of(session, run) if run is not None else None
    head, size = export(store, settings, file, row)
    emit(head, lambda _: f"{head.turns:,} turns in {file}, {bytes_text(size)}", as_json=as_json)


@commands.command("import")
def import_file(file: File, as_json: Json = False) -> None:
    """Take the turns of a file, and show the settings that they were made with."""
    from chordesk.tasks.measure.cassette_files import take

    make_own(load_settings())  # on a machine that only replays it is the first command
    settings, store = opened()
    taken = take(store, settings, file)
    emit(taken, lambda _: "\n".join(_told(file, taken)), as_json=as_json)


@commands.command("delete")
def delete_kept(
    run: OfRun = None, every: Annotated[bool, typer.Option("--all", help="All that are kept.")] = False
) -> None:
    """Delete kept turns; no run loses anything."""
    from chordesk.tasks.measure.cassette_files import forget

    if (run is None) != every:
        raise UsageError("say which turns", remedy="give --run RUN or --all")
    _settings, store = opened()
    with store.read() as session:
        row = run_of(session, run) if run is not None else None
    print_line(f"{forget(store, row):,} turns deleted")


def _table(rows: list[Kept]) -> Table:
    columns: dict[str, Callable[[Kept], str | Text]] = {
        "Role": lambda row: row.role,
        "Model": lambda row: row.model,
        "Turns": lambda row: f"{row.turns:,}",
        "Size": lambda row: bytes_text(row.size),
        "Last": lambda row: f"{row.last:%Y-%m-%d %H:%M}",
    }
    return table(columns, rows, right=("Turns", "Size"))


def _told(file: Path, taken: Taken) -> list[str]:
    head = taken.head
    lines = [f"{head.turns:,} turns taken from {file}, {bytes_text(taken.size)}, made on {head.made_at:%Y-%m-%d}"]
    lines += [f"Not played here: {note}" for note in taken.notes]
    return [*lines, "To play them, start the desk with these settings:", "DESK_CASSETTES=replay", *_settings(head)]


def _settings(head: Head) -> list[str]:
    def text(value: Any) -> str:
        return ",".join(map(str, value)) if isinstance(value, list) else str(value)

    return [f"DESK_{name.upper()}={text(value)}" for name, value in sorted(head.settings.items())]
