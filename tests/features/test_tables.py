"""The tables of a package: made by its own migrations, named and kept without it; and packages whose tables do not fit,
which keep nothing while the rest works."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.features.test_package import PACKAGE
from tests.features.test_switched_off import desk, python
from tests.postgres import Server
from tests.stack import REPOSITORY, Processes, processes


def site(folder: Path, name: str, *, source: Path | None = None, module: str = "") -> Path:
    """Lay a package down as pip does: its modules, and its entry point in a dist-info folder."""
    module = source.name if source is not None else module or f"wrong_{name}".replace("-", "_")
    if source is not None:
        shutil.copytree(source, folder / module, ignore=shutil.ignore_patterns("__pycache__"))
    about = folder / f"{module}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text(f"[chordesk.features]\n{name} = {module}:FEATURE\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(site(tmp_path_factory.mktemp("site"), "toy", source=PACKAGE / "chordesk_toy"))


@pytest.fixture
def found() -> Iterator[Processes]:
    """A desk whose database was made before the package came."""
    with processes(forked=False) as made:
        yield made


NOTE = """
import sys
from chordesk.models.database.store import every_table, open_current
from chordesk.models.settings.sources import load_settings
from chordesk_toy.tables import ToyNote
store = open_current(load_settings().database)
with store.session() as session:
    session.add_all([ToyNote(text=text) for text in sys.argv[1:]])
assert "toy_note" in every_table()
"""


COMMANDS = """
import json, sys
from typer.testing import CliRunner
from chordesk.tasks.cli.root import build
found = []
for one in json.loads(sys.argv[1]):
    done = CliRunner().invoke(build(one[0]), one)
    found.append([done.exit_code, done.stdout, f"{done.stderr} {done.exception or ''}"])
print(json.dumps(found))
"""


def commands(found: Processes, *given: str, **environ: str) -> list[tuple[int, str, str]]:
    """Run commands in one process: a process each would take a second more."""
    done = python(found, "-c", COMMANDS, json.dumps([one.split() for one in given]), **environ)
    assert done.returncode == 0, done.stderr
    return [tuple(one) for one in json.loads(done.stdout.splitlines()[-1])]


def test_a_package_that_comes_later_gets_its_tables_and_keeps_its_rows_without_it(found: Processes, toy: str) -> None:
    listed, current, opened = commands(found, "runs list", "db current", "toy 1", PYTHONPATH=toy)
    assert (listed[0], current[0], opened[0]) == (0, 1, 1), opened
    assert "the feature toy: revision none, newest 0001" in current[1]
    assert "its tables are not made yet, and it needs revision 0001" in opened[2]
    upgraded, again, current = commands(found, "db upgrade", "db upgrade", "db current --json", PYTHONPATH=toy)
    assert (upgraded[0], again[0], current[0]) == (0, 0, 0), (upgraded, again)
    lines = [line for line in json.loads(current[1])["features"] if line["name"] == "toy"]
    assert lines == [{"name": "toy", "revision": "0001", "newest": "0001"}]
    noted = python(found, "-c", NOTE, "one", "two", "three", PYTHONPATH=toy)
    assert noted.returncode == 0, noted.stderr
    kept = "the tables toy_note (3 rows) of the feature toy are kept: "
    for environ, why, remedy in (
        ({}, "its package is not installed", "install it to use them"),
        ({"PYTHONPATH": toy, "DESK_FEATURES_OFF": "toy"}, "it is switched off", "take toy out of DESK_FEATURES_OFF"),
    ):
        gone, current, doctor = commands(found, "db upgrade", "db current --json", "doctor --json", **environ)
        assert (gone[0], f"{kept}{why}; {remedy}" in gone[1]) == (0, True), gone
        assert (current[0], json.loads(current[1])["kept"][0]["tables"]) == (0, {"toy_note": 3})
        checks = {row["name"]: row for row in json.loads(doctor[1])["checks"]}
        assert f"{kept}{why}" in checks["features"]["detail"]
        assert remedy in checks["features"]["remedy"]


FILL = """
import datetime as dt
from chordesk.models.database.store import open_current
from chordesk.models.settings.sources import load_settings
from chordesk.models.tables.columns import utcnow
from chordesk_toy.tables import ToyNote
from tests.builders import a_run
store, old = open_current(load_settings().database), utcnow() - dt.timedelta(days=400)
with store.session() as session:
    run = a_run(session, state="done", created_at=old, finished_at=old)
    session.add_all([ToyNote(text="of a run", run_id=run.id), ToyNote(text="old", created_at=old), ToyNote(text="new")])
"""
COLLECT = """
import json
from chordesk.models.database.store import open_current
from chordesk.models.settings.sources import load_settings
from chordesk.models.tables.columns import utcnow
from chordesk.tasks.retention import run_deletion
from chordesk.tasks.retention.retention_policy import policy_of
settings = load_settings()
store = open_current(settings.database)
policy = policy_of(settings, utcnow())
due = [run_deletion.due_rows(store, policy), run_deletion.due(store, policy)]
done = [run_deletion.collect_rows(store, policy), run_deletion.collect(store, policy)]
assert due == done, (due, done)
with store.read() as session:
    left = [row[0] for row in session.connection().exec_driver_sql("select text from toy_note order by text")]
print(json.dumps([{name: one.rows for part in done for name, one in part.items()}, left]))
"""


def test_rows_of_a_package_go_by_its_rules_and_without_it_they_hold_their_runs(found: Processes, toy: str) -> None:
    assert commands(found, "db upgrade", PYTHONPATH=toy)[0][0] == 0
    path = f"{toy}:{REPOSITORY}"
    assert (filled := python(found, "-c", FILL, PYTHONPATH=path)).returncode == 0, filled.stderr
    for environ, gone, left in (
        ({}, {}, ["new", "of a run", "old"]),
        ({"PYTHONPATH": toy, "DESK_TOY_NOTE_DAYS": "0"}, {"run": 1, "toy_note": 1}, ["new", "old"]),
        ({"PYTHONPATH": toy}, {"toy_note": 1}, ["new"]),
    ):
        done = python(found, "-c", COLLECT, **environ)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout.splitlines()[-1]) == [gone, left]


WRONG = {
    "forgets": ("forgets_note", "its rule for the rows of forgets_note has at='told', which is no column with a time"),
    "misnamed": ("misnamed", "its table note does not begin with misnamed_"),
    "run": ("run_document_copy", "among the tables there is run_document_copy already"),
    "fails": ("fails_note", "its migration to revision 0001 failed, OperationalError: near"),
    "unmade": (
        "unmade_note",
        "its migration to revision 0001 failed, ValueError: after it the database does not fit the package: ",
    ),
    "exits": ("exits_note", "its migration to revision 0001 failed, SystemExit: 3"),
    "drops": (
        "drops_note",
        "its migration to revision 0001 failed, ValueError: it makes, changes or drops forecast, and its own",
    ),
    "empty": ("empty_note", "wrong_empty_migrations has no migration such as 0001_tables.py"),
}
TABLE = """
from chordesk.plugins import Feature, Keep
FEATURE = Feature("{name}", tables=("wrong_{name}_tables",), migrations="wrong_{name}_migrations", keeps={keeps})
"""
CLASS = "from chordesk.plugins import Identified\nclass Note(Identified, table=True):\n    __tablename__ = '{}'\n"
MIGRATION = "from alembic import op\nrevision = '0001'\ndown_revision = None\ndef upgrade(): {}\n"
MADE = """op.execute('create table {name}_first (id varchar)'), op.execute('{statement}')"""


def test_packages_whose_tables_do_not_fit_are_named_and_change_nothing(
    found: Processes, toy: str, tmp_path: Path
) -> None:
    for name, (table, _) in WRONG.items():
        site(tmp_path, name)
        keeps = "{'forgets_note': Keep(at='told', days=3)}" if name == "forgets" else "{}"
        (tmp_path / f"wrong_{name}.py").write_text(TABLE.format(name=name, keeps=keeps), encoding="utf-8")
        (tmp_path / f"wrong_{name}_tables.py").write_text(CLASS.format(table if name != "misnamed" else "note"))
        (tmp_path / f"wrong_{name}_migrations").mkdir()
        if name != "empty":
            statement = {"fails": "no statement", "drops": "drop table forecast"}.get(name, "select 1")
            made = MADE.format(name=name, statement=statement) if name != "exits" else "exit(3)"
            (tmp_path / f"wrong_{name}_migrations" / "0001_note.py").write_text(MIGRATION.format(made))
    path = {"PYTHONPATH": f"{toy}:{tmp_path}"}
    with closing(sqlite3.connect(found.settings.home / "desk.db")) as connection:
        tables = {row[0] for row in connection.execute("select name from sqlite_master")}
    upgraded = desk(found, "db", "upgrade", **path)
    assert (upgraded.returncode, "Traceback" in upgraded.stderr) == (1, False), upgraded.stderr
    lines = " ".join(upgraded.stderr.split())
    for name, (_, why) in WRONG.items():
        start = f"the feature {name} of wrong_{name} 1.0 (wrong_{name}:FEATURE) can keep nothing: {why}"
        assert start in lines, (name, upgraded.stderr)
        assert f"{upgraded.stdout} {lines}".count(why) == 1
    with closing(sqlite3.connect(found.settings.home / "desk.db")) as connection:
        made = {row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")}
    assert made - tables == {"toy_note", "alembic_version_toy"}
    # A module of tables that breaks once its migration has run is as one that never fitted.
    for text, why in (("raise SystemExit(3)", "SystemExit: 3 (tables.py, line 1)"), ("1 / 0", "ZeroDivisionError: ")):
        shutil.copytree(Path(toy), broken := tmp_path / f"broken{len(text)}")
        (broken / "chordesk_toy" / "tables.py").write_text(f"{text}\n", encoding="utf-8")
        listed, upgraded, current = commands(found, "runs list", "db upgrade", "db current", PYTHONPATH=str(broken))
        assert (listed[0], upgraded[0], current[0]) == (0, 1, 1)
        assert f"the feature toy of chordesk_toy 1.0 (chordesk_toy:FEATURE) can keep nothing: {why}" in current[1]


@pytest.mark.postgres
def test_tables_of_a_package_come_back_on_postgres_where_it_is_not_installed(
    found: Processes, toy: str, postgres: Server, tmp_path: Path
) -> None:
    with_toy = {"PYTHONPATH": toy, "DESK_DATABASE_URL": postgres.migrated()}
    assert [code for code, *_ in commands(found, "db upgrade", "db upgrade", **with_toy)] == [0, 0]
    assert python(found, "-c", NOTE, "one", "two", **with_toy).returncode == 0
    (made,) = commands(found, f"backup {tmp_path / 'copy'}", DESK_DATABASE_URL=with_toy["DESK_DATABASE_URL"])
    assert made[0] == 0, made
    into = {"DESK_DATABASE_URL": postgres.empty(), "DESK_HOME": str(tmp_path / "new")}
    restored, current = commands(found, f"restore {tmp_path / 'copy'}", "db current --json", **into)
    assert restored[0] == 0, restored
    assert json.loads(current[1])["kept"][0]["tables"] == {"toy_note": 2}
    (current,) = commands(found, "db current --json", **into, PYTHONPATH=toy)
    shown = json.loads(current[1])
    revisions = {line["name"]: line["revision"] for line in shown["features"]}
    assert (current[0], revisions["toy"], shown["kept"]) == (0, "0001", [])
