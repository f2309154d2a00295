"""Tables of features: the module that registers them, the migrations that make them, and what is left of a feature that
is not in force.

The migrations of each feature are a line of their own, which `alembic_version_NAME` counts. In one line with the desk's
Alembic would fail at a revision whose package is gone, and one package's broken migration would stop every other's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from sqlalchemy import Connection, Inspector, MetaData, Table, func, inspect, select
from sqlalchemy.schema import CreateIndex, CreateTable, DDLElement
from sqlmodel import SQLModel

from chordesk.models import features, migrations
from chordesk.models.descriptions import is_ours, said
from chordesk.models.features import Feature, Keep, prefix
from chordesk.models.tables.columns import Utc

VERSION = "alembic_version"


def version_table(name: str) -> str:
    return f"{VERSION}_{prefix(name)}".rstrip("_")


def of_modules(*modules: str) -> dict[str, Table]:
    """Return the tables whose classes are in these modules or below, and which are loaded. Not by the registry: a class
    that failed for its table's name stays there without one."""
    found: dict[str, Table] = {}
    for name, module in list(sys.modules.items()):
        if any(name == one or name.startswith(f"{one}.") for one in modules):
            there = list(vars(module).values())  # another thread may be loading it
            own = (one for one in there if isinstance(one, type) and one.__module__ == name)
            tables = (getattr(one, "__table__", None) for one in own)
            found.update((table.name, table) for table in tables if isinstance(table, Table))
    return found


@cache
def of_features(names: tuple[str, ...], core: frozenset[str]) -> frozenset[str]:
    """Return the names of the tables of these features. A package whose tables cannot be registered, or have names of
    others, can keep nothing. core: names of the desk's own tables, which are registered by now."""
    found: set[str] = set()
    for feature in features.in_force():
        if feature.name not in names:
            continue
        before = dict(SQLModel.metadata.tables)
        try:
            with features.loading(f"the tables of the feature {feature.name}"):
                for module in feature.tables:
                    features.load(module)
            why = _misnamed(feature, core | found)
        except BaseException as error:
            if is_ours(error):
                raise
            why = said(error)
        if not why:
            found.update(of_modules(*feature.tables))
            continue
        for name in SQLModel.metadata.tables.keys() - before.keys() - core - found:
            SQLModel.metadata.remove(SQLModel.metadata.tables[name])
        features.set_unready(feature, why)
    return frozenset(found)


def _misnamed(feature: Feature, there: frozenset[str]) -> str:
    own = of_modules(*feature.tables)
    others = [each.prefix for each in features.in_force() if len(each.name) > len(feature.name)]
    for name in sorted(own):
        if name in there:
            return f"among the tables there is {name} already"
        if not name.startswith(feature.prefix):
            return f"its table {name} does not begin with {feature.prefix}"
        if taken := next((each for each in others if name.startswith(each)), None):
            return f"its table {name} begins as those of the feature {taken.rstrip('_')}"
    if own and not feature.migrations:
        return f"no migration makes its table {min(own)}"
    return next(
        (why for name, keep in feature.keeps.items() if (why := _unfit(feature, own.get(name), name, keep))), ""
    )


def _unfit(feature: Feature, table: Table | None, name: str, keep: Keep) -> str:
    """Return what is wrong with a rule of retention: a mistyped one would keep rows for ever, or delete others."""
    from chordesk.models.settings import Settings

    its = f"its rule for the rows of {name}"
    if table is None:
        return f"{its} is for no table of it"
    if keep.run not in ("", "results", "evidence") or (keep.run and not _refers_to_run(table)):
        return f"{its} has run={keep.run!r}: give 'results' or 'evidence', and the table a run_id that refers to run.id"
    if keep.at and (keep.at not in table.c or not isinstance(table.c[keep.at].type, Utc)):
        return f"{its} has at={keep.at!r}, which is no column with a time"
    if isinstance(keep.days, str) and feature.prefix + keep.days not in Settings.model_fields:
        return f"{its} has days={keep.days!r}, which is no field of its settings"
    return f"{its} has days and no at" if keep.days and not keep.at else ""


def _refers_to_run(table: Table) -> bool:
    return "run_id" in table.c and any(key.column.table.name == "run" for key in table.c.run_id.foreign_keys)


@cache
def rules(names: tuple[str, ...]) -> dict[str, tuple[Feature, Keep]]:
    """Return the rules of retention of these features' tables, which are loaded, by table."""
    return {
        name: (feature, feature.keeps.get(name, Keep()))
        for feature in features.in_force()
        if feature.name in names
        for name in of_modules(*feature.tables)
    }


def holding(connection: Connection, core: frozenset[str]) -> list[tuple[str, str]]:
    """Return the tables and columns of features that are not in force that refer to runs."""
    there = inspect(connection)
    return [
        (table, key["constrained_columns"][0])
        for tables in _absent(connection, core).values()
        for table in tables
        for key in there.get_foreign_keys(table)
        if key["referred_table"] == "run"
    ]


@dataclass(frozen=True, slots=True)
class Line:
    """The migrations of a feature that is in force. revision: that of the database, None for none."""

    feature: Feature
    folder: Path
    newest: str
    revision: str | None

    @property
    def is_current(self) -> bool:
        return self.revision == self.newest

    @property
    def is_known(self) -> bool:
        return self.revision is None or self.revision in migrations.revisions(self.folder)

    def __str__(self) -> str:
        return f"the feature {self.feature.name}: revision {self.revision or 'none'}, newest {self.newest}"


def lines(connection: Connection) -> list[Line]:
    """Return the lines of the features in force, without loading Alembic or a table of theirs."""
    found = []
    for feature in features.in_force():
        if not feature.migrations:
            continue
        spec = None
        with suppress(ImportError, ValueError):
            spec = find_spec(feature.migrations)
        folder = next((Path(place) for place in (spec and spec.submodule_search_locations) or ()), None)
        revisions = migrations.revisions(folder) if folder is not None and folder.is_dir() else []
        if folder is None or not revisions:
            features.set_unready(feature, f"{feature.migrations} has no migration such as 0001_tables.py")
            continue
        found.append(Line(feature, folder, revisions[-1], _revision(connection, feature.name)))
    return found


def _revision(connection: Connection, name: str) -> str | None:
    if not inspect(connection).has_table(version_table(name)):
        return None
    found: str | None = connection.exec_driver_sql(f"select version_num from {version_table(name)}").scalar()
    return found


def set_unready(found: Iterable[Line]) -> None:
    """Note the packages' features whose tables are not as this process needs them; the rest of the desk works. Raises
    DatabaseUnfit for one of the desk's own, which come with its own upgrade."""
    for line in found:
        if line.is_current:
            continue
        features.set_unready(line.feature, *_unready(line))


def _unready(line: Line) -> tuple[str, str]:
    if line.is_known:
        at = f"at revision {line.revision}" if line.revision else "not made yet"
        remedy = "run `desk db upgrade`, and start what runs of the desk again"
        return f"its tables are {at}, and it needs revision {line.newest}", remedy
    reason = f"its tables are at revision {line.revision}, which this version (revision {line.newest}) does not know"
    return reason, "install the version of the package that wrote them, or a newer one"


def migrate(connection: Connection, line: Line) -> None:
    """Bring the tables of one feature to its newest revision. Raises what its migration raises, and ValueError where
    its tables do not come of it."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", migrations.written(migrations.VERSIONS.parent))
    config.set_main_option("path_separator", "newline")
    config.set_main_option("version_locations", migrations.written(line.folder))
    config.attributes.update(connection=connection, version_table=version_table(line.feature.name))
    before = _of_others(connection, line.feature)
    command.upgrade(config, "head")
    after = _of_others(connection, line.feature)
    if changed := sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name)):
        raise ValueError(f"it makes, changes or drops {changed[0]}, and its own begin with {line.feature.prefix}")
    there = inspect(connection)
    if wrong := differences(there, of_modules(*line.feature.tables)):
        raise ValueError(f"after it the database does not fit the package: {'; '.join(wrong)}")
    if (reached := _revision(connection, line.feature.name)) != line.newest:
        raise ValueError(f"the revision in {line.newest}_*.py is {reached}: name both the same")


def _of_others(connection: Connection, feature: Feature) -> dict[str, set[str]]:
    """Return the columns of the tables that are not this feature's."""
    there = inspect(connection)
    own = (feature.prefix, version_table(feature.name))
    names = (name for name in there.get_table_names() if not name.startswith(own))
    return {name: {column["name"] for column in there.get_columns(name)} for name in names}


def differences(there: Inspector, wanted: Mapping[str, Table]) -> list[str]:
    """Missing tables and columns, and unknown columns that must not be empty."""
    found: list[str] = []
    for name, table in wanted.items():
        if not there.has_table(name):
            found.append(f"it has no table {name}")
            continue
        columns = {column["name"]: column for column in there.get_columns(name)}
        found += [f"it has no {name}.{column.name}" for column in table.columns if column.name not in columns]
        found += [
            f"it needs {name}.{column}"
            for column, about in columns.items()
            if column not in table.columns and not about["nullable"] and about.get("default") is None
        ]
    return found


@dataclass(frozen=True, slots=True)
class Kept:
    """Tables of a feature that is not in force, which no part of the desk here reads or deletes."""

    name: str
    rows: Mapping[str, int]
    why: str
    remedy: str

    def __str__(self) -> str:
        shown = ", ".join(f"{table} ({count} row{'' if count == 1 else 's'})" for table, count in self.rows.items())
        return f"the tables {shown} of the feature {self.name} are kept: {self.why}"


def kept(connection: Connection, core: frozenset[str]) -> list[Kept]:
    """Return what features that are not in force have left in rows; tables without any are not worth a line."""
    found = []
    for name, tables in sorted(_absent(connection, core).items()):
        quoted = MetaData()
        counts = {
            table: connection.execute(select(func.count()).select_from(Table(table, quoted))).scalar_one()
            for table in tables
        }
        if any(counts.values()):
            found.append(Kept(name, counts, *_reason(name)))
    return found


def _reason(name: str) -> tuple[str, str]:
    for off in features.off():
        if prefix(off) == prefix(name):
            return "it is switched off", f"take {off} out of {features.OFF} to use them"
    for each in (*features.skipped(), *features.unready().values()):
        if prefix(each.name) == prefix(name):
            return each.why, each.remedy
    return "its package is not installed", "install it to use them"


def _absent(connection: Connection, core: frozenset[str]) -> dict[str, list[str]]:
    """Return the tables of each feature that has made some here and is not in force, by its name as tables have it."""
    there = sorted(set(inspect(connection).get_table_names()) - core)
    made = {name.removeprefix(f"{VERSION}_"): list[str]() for name in there if name.startswith(f"{VERSION}_")}
    for table in there:
        owners = [name for name in made if table.startswith(f"{name}_")]
        if owners and not table.startswith(f"{VERSION}_"):
            made[max(owners, key=len)].append(table)
    here = {version_table(each.name) for each in features.in_force() if each.name not in features.unready()}
    return {name: tables for name, tables in made.items() if version_table(name) not in here and tables}


def reflected(connection: Connection, core: frozenset[str]) -> Iterator[Table]:
    """Yield the tables of all features, in force or not, as the database has them, in the order of their references;
    first those that count revisions."""
    names = set(inspect(connection).get_table_names())
    counting = {name for name in names if name.startswith(f"{VERSION}_")}
    made = tuple(f"{name.removeprefix(f'{VERSION}_')}_" for name in counting)
    own = {name for name in names - core - counting if name.startswith(made)} if made else set[str]()
    there = MetaData()
    there.reflect(connection, only=lambda name, _: name in counting | own)
    yield from (table for table in there.sorted_tables if table.name in counting)
    yield from (table for table in there.sorted_tables if table.name in own)


def made_by(connection: Connection, table: Table) -> list[str]:
    """Return the statements that make a table and its indexes, each in one line."""
    made: list[DDLElement] = [
        CreateTable(table),
        *map(CreateIndex, sorted(table.indexes, key=lambda index: str(index.name))),
    ]
    return [" ".join(str(each.compile(dialect=connection.dialect)).split()) for each in made]
