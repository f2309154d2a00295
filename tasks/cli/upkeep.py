"""What the desk keeps: `desk gc`, `desk backup`, `desk restore`, folders of own data, and the database's migrations."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import SecretStr
from rich.console import Group, RenderableType

from chordesk.models import features
from chordesk.models.errors import UsageError
from chordesk.models.files import expanded
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import is_up
from chordesk.models.settings.sources import load_settings
from chordesk.models.settings.variables import read_secret
from chordesk.models.text import utc_seconds
from chordesk.models.urls import masked
from chordesk.tasks.cli.output import emit, print_line, table, warn
from chordesk.tasks.cli.shell import Json, opened, whoami
from chordesk.tasks.cli.version import version

if TYPE_CHECKING:
    from chordesk.models.database.feature_tables import Kept
    from chordesk.models.database.store import Store
    from chordesk.tasks.backup.making import Made, Restored
    from chordesk.tasks.retention.retention_policy import Amounts, Sizes
    from chordesk.tools.market.files.data_folder import FolderReport

commands = typer.Typer()


_UNITS = ("B", "kB", "MB", "GB", "TB")


def bytes_text(count: int) -> str:
    """Return a number of bytes with three digits in decimal units: 950 B, 1.23 kB, 45.6 MB."""
    size, place = float(count), 0
    while abs(size) >= 999.5 and place < len(_UNITS) - 1:
        size, place = size / 1000, place + 1
    return f"{count} B" if place == 0 else f"{size:.3g} {_UNITS[place]}"


def amounts_table(amounts: Amounts, *, dry_run: bool) -> RenderableType:
    from chordesk.tasks.retention.retention_policy import total

    if not amounts:
        return "nothing is due"
    rows = [
        (name, f"{one.rows:,}", bytes_text(one.bytes))
        for name, one in sorted(amounts.items(), key=lambda item: (-item[1].bytes, item[0]))
    ]
    whole = total(amounts.values())
    rows.append(("all", f"{whole.rows:,}", bytes_text(whole.bytes)))
    return table(("kind", "would go" if dry_run else "deleted", "content"), rows)


def sizes_tables(found: Sizes) -> RenderableType:
    units = [
        (one.name, f"{one.count:,}", bytes_text(one.each) if one.each is not None else "none to measure", one.note)
        for one in found.units
    ]
    rows = [
        (one.name, f"{one.rows:,}", bytes_text(one.bytes), bytes_text(one.stored) if one.stored is not None else "")
        for one in found.tables
        if one.rows
    ]
    database = bytes_text(found.database) if found.database is not None else "not reported by the database"
    return Group(
        table(("one", "measured on", "bytes", "which"), units),
        "",
        table(("table", "rows", "content", "with indexes"), rows),
        f"database in all: {database}",
    )


GC = "gc"


@commands.command()
def gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what would go, and change nothing.")] = False,
    older_than: Annotated[
        float | None, typer.Option(help="Days, in place of every age of the settings; at least 1.", min=1)
    ] = None,
    sizes: Annotated[
        bool, typer.Option("--sizes", help="Measure the database and the pictures instead: bytes of each kind.")
    ] = False,
    give_back: Annotated[
        bool, typer.Option("--vacuum", help="Then give free space of SQLite's file back to the disk; the desk is down.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Delete what is older than the settings keep.

    Runs, events, rollouts and pictures; never what an order or a score rests on. A desk at work does so by itself,
    and may go on meanwhile.
    """
    from chordesk.models.tables.columns import utcnow
    from chordesk.tasks.bootstrap import Desk
    from chordesk.tasks.retention import collection
    from chordesk.tasks.retention.retention_policy import measure, policy_of

    settings, store = opened()
    if sizes:
        found = measure(store, settings.home)
        emit(found, lambda _: sizes_tables(found), as_json=as_json)
        return
    if give_back and not dry_run:
        _require_vacuum(settings, store)
    age = dt.timedelta(days=older_than) if older_than is not None else None
    policy = policy_of(settings, utcnow(), age)
    with contextlib.closing(Desk(settings, GC, records=False)) as desk:
        done = collection.due(desk, policy) if dry_run else collection.collect(desk, policy)
    emit(done, lambda _: amounts_table(done.amounts, dry_run=dry_run), as_json=as_json)
    warn(f"not looked at: {text}" for text in done.skipped)
    if not dry_run and not as_json:
        _report_space(store, give_back)


def _require_vacuum(settings: Settings, store: Store) -> None:
    if not store.is_sqlite:
        raise UsageError(
            "--vacuum is for SQLite; Postgres's autovacuum makes the space of deleted rows free for new ones by itself",
            remedy="to give it back to the disk: VACUUM (FULL) in psql, which locks each table meanwhile",
        )
    if is_up(settings.home):
        raise UsageError(
            "--vacuum writes the whole database anew, and no worker could write meanwhile", remedy="stop the desk first"
        )


def _report_space(store: Store, give_back: bool) -> None:
    from chordesk.models.database.store import free_bytes, vacuum

    if not store.is_sqlite:
        print_line("Postgres's autovacuum makes the space of deleted rows free for new ones; its files do not shrink")
    elif give_back:
        print_line(f"{bytes_text(vacuum(store))} given back to the disk")
    else:
        free = bytes_text(free_bytes(store) or 0)
        print_line(f"{free} of the database are free for new rows; `desk gc --vacuum` gives them back to the disk")


@commands.command()
def backup(
    place: Annotated[str, typer.Argument(help="A new folder, or an fsspec address such as s3://BUCKET/NAME.")],
    check: Annotated[
        bool,
        typer.Option(
            "--verify", help="Restore it into a temporary folder and compare counts; makes none if PLACE is one."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Back the desk up as of one point in time while it works.

    Database, audit log, HALT file, pictures and rollouts.
    """
    from chordesk.models.database.store import Store, require_current
    from chordesk.tasks.backup import drill
    from chordesk.tasks.backup.making import backup as back_up
    from chordesk.tasks.backup.making import verify
    from chordesk.tasks.backup.places import is_backup

    settings = load_settings()
    if check and is_backup(place):
        tried = verify(settings, place, whoami())
        emit(tried, _tried, as_json=as_json)
        return
    require_current(settings.database)
    store = Store(settings.database)
    try:
        made = back_up(settings, store, place, version())
    finally:
        store.close()
    drill.note_made(settings, place if "://" in place else str(expanded(place).absolute()))
    emit(made, lambda _: _made(made), as_json=as_json)
    if check:
        told = _tried(verify(settings, place, whoami()))
        warn([told]) if as_json else print_line(told)
    warn(f"the audit log was not whole already: {one}" for chain in made.manifest.chains for one in chain.problems[:1])
    warn(f"not in this data folder, so not in the backup: {name}" for name in made.manifest.missing[:_MOST])
    warn(f"{path} is what a killed backup left: remove it, unless another machine writes it" for path in made.leftovers)


@commands.command()
def restore(
    place: Annotated[str, typer.Argument(help="The folder or fsspec address of a backup.")],
    into: Annotated[
        str | None,
        typer.Option(
            help="An empty data folder, or the URL of an empty Postgres database; those of the settings by default."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Restore a backup into an empty place, and verify it.

    The desk there is halted until a person resumes it.
    """
    from chordesk.tasks.backup.making import restore as bring_back

    done = bring_back(_target(load_settings(), into), place, whoami())
    emit(done, lambda _: _restored(done, into), as_json=as_json)


_MOST = 5


def _target(settings: Settings, into: str | None) -> Settings:
    if into is None:
        return settings
    if "://" in into:
        return settings.model_copy(update={"database_url": SecretStr(into)})
    return settings.model_copy(update={"home": expanded(into).absolute(), "database_url": None})


def _made(made: Made) -> str:
    found = made.manifest
    lines = sum(chain.lines for chain in found.chains if chain.included)
    return "\n".join((
        f"{made.place}: the desk as of {utc_seconds(found.at)}, schema {found.revision}",
        f"{found.runs:,} runs, {found.open_runs} of them open, {found.orders:,} orders, {lines:,} lines of the audit "
        f"log; {len(found.files):,} files, {bytes_text(made.bytes)}",
        *(f"not in it: {text}" for text in found.left_out),
    ))  # fmt: skip


def _tried(done: Restored) -> str:
    found = done.manifest
    broken = f"; its audit log was not whole already: {done.broken[0]}" if done.broken else ""
    return (
        f"verified: restored into a temporary folder, {found.runs:,} runs and {found.orders:,} orders as of "
        f"{utc_seconds(found.at)}, {done.lines:,} lines of the audit log{broken}"
    )


def _restored(done: Restored, into: str | None) -> str:
    found = done.manifest
    upgraded = f", upgraded from schema {done.upgraded_from}" if done.upgraded_from else ""
    shell = f"DESK_HOME={done.home} " if into is not None and "://" not in into else ""
    mandates = f"mandates taken back: {', '.join(map(str, done.disarmed))}; " if done.disarmed else ""
    elsewhere = [chain.place for chain in found.chains if not chain.included]
    return "\n".join((
        f"{done.home}: the desk as of {utc_seconds(found.at)}{upgraded}; {found.runs:,} runs, "
        f"{found.open_runs} of them open, {found.orders:,} orders",
        f"verified: {len(found.files):,} files, {done.lines:,} lines of the audit log, the lineage of every order",
        *(f"THE AUDIT LOG IS NOT WHOLE, and was not when the backup was made: {one}" for one in done.broken[:_MOST]),
        f"{mandates}HALTED: {', '.join(done.halted)}. Orders may have been sent after that time. Next:",
        *(f"  bring back the audit log of {place}" for place in elsewhere),
        "  keep TRADER_LIVE off, and see that the old desk is down for good",
        f"  {shell}desk up           # in a terminal of its own; open runs go on, and send no order",
        f"  {shell}desk reconcile    # with each broker: what it has and this desk does not know",
        *([f"  {shell}desk audit accept   # once you know who changed the log: no account resumes before"]
          if done.broken else []),
        f"  {shell}desk resume       # once they agree, each account by itself; real money needs `desk arm` anew",
    ))  # fmt: skip


HAS_ERRORS = 1

data_commands = typer.Typer(name="data", no_args_is_help=True, help="Own data: a folder of bars, headlines and chains.")


@data_commands.command()
def check(
    folder: Annotated[Path | None, typer.Argument(help="The folder; DESK_DATA by default.")] = None,
    most: Annotated[int, typer.Option("--most", min=1, help="Problems shown of each file.")] = 5,
    as_json: Json = False,
) -> None:
    """Check a folder of own data; exit code 1 when there are errors.

    Each problem is named with its file, row and column.
    """
    from chordesk.tools.market.files.data_folder import check_folder

    settings = load_settings()
    path = expanded(folder).absolute() if folder is not None else settings.data
    if path is None:
        raise UsageError("no folder to check", remedy="name one, or set DESK_DATA")
    report = check_folder(path, settings.data_prices, most)
    emit(plain(report), lambda _: "\n".join(lines(report)), as_json=as_json)
    if report.problems.errors:
        raise typer.Exit(HAS_ERRORS)


def plain(report: FolderReport) -> dict[str, Any]:
    """Return a report as plain data."""
    problems = report.problems
    rows = [
        {"level": one.level, "file": one.file, "row": one.row, "column": one.column, "message": one.message}
        for one in problems.found
    ]
    more = [{"file": file, "level": level, "count": count} for (file, level), count in problems.left_out().items()]
    counts = {"errors": problems.errors, "warnings": problems.warnings}
    head = {"folder": str(report.folder), "about": report.about, "contents": list(report.contents)}
    return {**head, **counts, "problems": rows, "notShown": more}


def lines(report: FolderReport) -> list[str]:
    problems = report.problems
    found = [f"{report.folder}"]
    found += [report.about] if report.about else []
    found += [f"  {content}" for content in report.contents]
    for level in ("error", "warning"):
        found += [f"{level}: {problem}" for problem in problems.of(level)]
        found += [
            f"{level}: {file}: {count} more, not shown"
            for (file, kind), count in problems.left_out().items()
            if kind == level
        ]
    return [*found, f"{problems.errors} errors, {problems.warnings} warnings"]


NOT_CURRENT = 1

db_commands = typer.Typer(name="db", help="The database and its migrations.", no_args_is_help=True)


@db_commands.command()
def upgrade(
    fleet: Annotated[
        bool, typer.Option("--fleet", help="First refuse settings and servers that a service of a fleet cannot use.")
    ] = False,
    fixed: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Of --fleet: a variable that all services have.")
    ] = None,
    login: Annotated[
        str | None, typer.Option(metavar="FILE", help="File with the URL of a login of the migration's own.")
    ] = None,
) -> None:
    """Bring the database to this version's schema."""
    from chordesk.models.database import store
    from chordesk.tasks import running_processes

    settings = _of_fleet(fixed or []) if fleet else load_settings()
    url = settings.database if login is None else read_secret("--login", login)
    before, _ = store.current(url)
    made = {line.feature.name: line.revision for line in store.feature_lines(url)[0]}
    store.upgrade(url, tell=print_line)
    after, _ = store.current(url)
    if fleet:
        running_processes.require_redis(settings, store.desk_of(url))
    done = "is up to date" if before == after else f"went from revision {before} to {after}"
    done = done if before else f"is made, at revision {after}"
    print_line(f"{masked(url)} {done}")
    lines, kept = store.feature_lines(url)
    for line in lines:
        if made.get(line.feature.name) != line.revision:
            print_line(str(line))
    _tell_kept(kept)
    if unready := features.unready():
        warn(f"{one}; {one.remedy}" for one in unready.values())
        raise typer.Exit(NOT_CURRENT)


def _tell_kept(kept: Sequence[Kept]) -> None:
    """Name the rows that nothing here uses, but for those of a package whose tables do not fit, of which more is
    told."""
    unready = {features.prefix(name) for name in features.unready()}
    for each in kept:
        if features.prefix(each.name) not in unready:
            print_line(f"{each}; {each.remedy}")


def _of_fleet(fixed: list[str]) -> Settings:
    """Return the settings, which all services can take, with a Redis that keeps what it is given."""
    from chordesk.tasks.redis_clients import redis_url, require_fit, wait_ready
    from chordesk.tasks.services import fleet_settings

    settings = fleet_settings.check(os.environ, dict(one.partition("=")[::2] for one in fixed))
    wait_ready(redis_url(settings), 10.0)
    if (warning := require_fit(redis_url(settings))) is not None:
        print_line(warning)
    return settings


@db_commands.command()
def current(as_json: Json = False) -> None:
    """Show the revisions of the database and of features, and the newest ones; exit code 1 when they differ."""
    from chordesk.models.database import store

    settings = load_settings()
    found, newest = store.current(settings.database)
    lines, kept = store.feature_lines(settings.database)
    store.every_table()  # a table of a package may not fit, whatever the revision is
    unready = features.unready()
    plain = {
        "database": masked(settings.database), "revision": found, "newest": newest,
        "features": [{"name": one.feature.name, "revision": one.revision, "newest": one.newest} for one in lines],
        "kept": [{"feature": one.name, "tables": dict(one.rows), "why": one.why} for one in kept],
        "unready": [{"feature": name, "why": one.why} for name, one in unready.items()],
    }  # fmt: skip
    now = f"revision {found}" if found else "no desk has run on it yet"
    told = [f"{plain['database']}: {now}, newest {newest}", *map(str, lines)]
    told += [f"{one}; {one.remedy}" for one in kept]
    told += [f"{one}; {one.remedy}" for one in unready.values()]
    emit(plain, lambda _: "\n".join(told), as_json=as_json)
    if found != newest or unready or not all(line.is_current for line in lines):
        raise typer.Exit(NOT_CURRENT)


@db_commands.command()
def renew(as_json: Json = False) -> None:
    """Make a copied data folder a desk of its own.

    Ids of its own, every account halted, every mandate taken back.
    """
    from chordesk.tasks.backup.copies import renew as renewed

    settings = load_settings()
    made, names = renewed(settings, whoami())
    halted = f"; halted: {', '.join(names)}, until `desk resume` after `desk reconcile`" if names else ""
    emit({"home": str(settings.home), "id": made, "halted": names}, lambda _: f"{settings.home}: id {made}{halted}",
         as_json=as_json)  # fmt: skip


commands.add_typer(data_commands)
commands.add_typer(db_commands)
