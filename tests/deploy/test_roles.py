"""deploy/roles.py on a real PostgreSQL: what the desk's logins may do, and that a desk works with them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url

from chordesk.models.database.store import Store, may_too_much, upgrade
from chordesk.models.states import RUN_FINAL
from chordesk.models.tables.runs import Run
from chordesk.tasks.workflows.screen import open_screen
from deploy import roles
from tests.patience import PATIENCE
from tests.postgres import Server
from tests.stack import processes, wait_for
from tests.tasks.backup.kit import restored

pytestmark = [pytest.mark.postgres, pytest.mark.process, pytest.mark.no_cover]


def logins(admin: str, folder: Path) -> list[str]:
    """Make the logins of a database, and return their addresses: the superuser's, the owner's, the service's."""
    url = make_url(admin)
    found = [url, *(url.set(username=f"{user}_{url.database}", password="it's") for user in ("owner", "rows"))]
    texts = [one.render_as_string(hide_password=False) for one in found]
    paths = [folder / str(number) for number in range(3)]
    for path, one in zip(paths, texts, strict=True):
        path.write_text(one, encoding="utf-8")
    assert roles.main([str(path) for path in paths]) == 0
    return texts


def refused(url: str, *statements: str) -> None:
    with psycopg.connect(plain(url), autocommit=True) as connection:
        for statement in statements:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.encode())


def plain(url: str, **other: str) -> str:
    return make_url(url).set(drivername="postgresql", **other).render_as_string(hide_password=False)


OUTSIDE = (
    "COPY run FROM PROGRAM 'id'", "COPY run TO PROGRAM 'cat'", "COPY run TO '/tmp/x'",
    "SELECT pg_read_file('/etc/passwd')",
    "CREATE ROLE mine SUPERUSER", "CREATE DATABASE mine", "ALTER SYSTEM SET log_statement = 'all'",
    "SELECT rolpassword FROM pg_authid", "CREATE EXTENSION file_fdw",
)  # fmt: skip


def test_the_logins_may_do_what_the_desk_does_and_nothing_else(postgres: Server, tmp_path: Path) -> None:
    admin, owner, service = logins(postgres.empty(), tmp_path)
    upgrade(owner)
    assert [may_too_much(url) for url in (admin, owner, service)] == ["is a superuser", None, None], "as doctor tells"
    refused(owner, *OUTSIDE)
    refused(
        service,
        *OUTSIDE,
        "DROP TABLE run",
        "CREATE TABLE mine (id int)",
        "TRUNCATE run",
        f"SET ROLE {make_url(owner).username}",
    )
    for url in (owner, service):
        with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
            psycopg.connect(plain(url, database="postgres"))


@pytest.mark.parametrize(
    ("service", "said"), [("desk:p@h/desk", "make secrets"), ("rows:p@h/other", "must be one database")]
)
def test_addresses_that_do_not_belong_together_are_refused(
    service: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / str(number) for number in range(3)]
    for path, address in zip(paths, ("desk:p@h/desk", "owner:p@h/desk", service), strict=True):
        path.write_text(f"postgresql+psycopg://{address}", encoding="utf-8")
    assert roles.main([str(path) for path in paths]) == 1
    assert said in capsys.readouterr().err


def test_the_tables_of_a_superuser_change_hands(postgres: Server, tmp_path: Path) -> None:
    """An older desk, in which every service had the superuser's login."""
    url = postgres.migrated()
    with closing(Store(url)) as store, store.session() as session:
        session.execute(text("CREATE ROLE rows_before; GRANT pg_execute_server_program TO rows_before"))
        session.execute(text(f"ALTER ROLE rows_before RENAME TO rows_{make_url(url).database}"))
    _, owner, service = logins(url, tmp_path)
    assert logins(url, tmp_path)[1:] == [owner, service], "it can run again"
    refused(service, *OUTSIDE[:2])
    upgrade(owner)
    with closing(Store(owner)) as store, store.session() as session:
        session.execute(text("ALTER TABLE run ADD COLUMN later int"))


def test_a_screen_ends_and_its_backup_comes_back_with_the_plain_login(postgres: Server, tmp_path: Path) -> None:
    _, owner, service = logins(postgres.empty(), tmp_path)
    upgrade(owner)
    with processes(DESK_DATABASE_URL=service) as desk:
        desk.rulebook()
        desk.workers("research", "ops", "trade")
        run_id = open_screen(desk.app, "IBM,AAPL").id

        def state() -> str:
            with desk.app.desk.store.read() as session:
                return session.get_one(Run, run_id).state

        wait_for(lambda: state() in RUN_FINAL, "the screen ends")
        assert state() == "done"
        assert desk.desk("backup", "backup", str(tmp_path / "copy")).wait(PATIENCE) == 0
        del desk.running["backup"]
    _, new, _ = logins(postgres.empty(), tmp_path)
    _, found = restored(tmp_path / "copy", tmp_path / "new", DESK_DATABASE_URL=new)
    with closing(found.store), found.store.read() as session:
        assert session.get_one(Run, run_id).state == "done"
