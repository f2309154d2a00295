"""All tables of the database: those of each module of `models.tables`, whichever a process has loaded so far."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from sqlalchemy import Table
from sqlmodel import SQLModel

from chordesk.models import tables


@cache
def every_table() -> dict[str, Table]:
    """Return all tables by name, those that others refer to first."""
    for module in pkgutil.iter_modules(tables.__path__):
        importlib.import_module(f"chordesk.models.tables.{module.name}")
    return {table.name: table for table in SQLModel.metadata.sorted_tables}
