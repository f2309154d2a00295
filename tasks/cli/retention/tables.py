"""Terminal text about stored data: what went by table, and how large each kind is. Pure: data in, text out."""

from __future__ import annotations

from rich.console import Group, RenderableType

from chordesk.tasks.cli.output import table
from chordesk.tasks.retention.amounts import Amounts, Sizes, total

_UNITS = ("B", "kB", "MB", "GB", "TB")


def bytes_text(count: int) -> str:
    """Return a number of bytes with three digits in decimal units: 950 B, 1.23 kB, 45.6 MB."""
    size, place = float(count), 0
    while abs(size) >= 999.5 and place < len(_UNITS) - 1:
        size, place = size / 1000, place + 1
    return f"{count} B" if place == 0 else f"{size:.3g} {_UNITS[place]}"


def amounts_table(amounts: Amounts, *, dry_run: bool) -> RenderableType:
    """Return what went, or would go, by table, the largest first."""
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
    """Return the size of one of each kind, and that of each table."""
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
