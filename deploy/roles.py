"""Make the logins of the desk in its own PostgreSQL: `python deploy/roles.py ADMIN OWNER SERVICE`.

Each argument is a file with an address, `postgresql+psycopg://USER:PASSWORD@HOST/NAME`: of the server's superuser, who
does this; of the login that owns the schema, for the migration alone; and of the one that every other part of the desk
uses, which reads and writes rows. What is there is brought to the same, so it runs before each migration. Tables that a
superuser made, as in a desk of before these logins, change hands. The server is taken for the desk's alone: nobody else
enters its other databases either.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

NOTHING_ELSE = sql.SQL("LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS INHERIT")


def address(path: str) -> dict[str, Any]:
    """Return the parts of the address in a file. Raises OSError, psycopg.Error, ValueError."""
    scheme, _, rest = Path(path).read_text(encoding="utf-8").strip().partition("://")
    found = conninfo_to_dict(f"{scheme.partition('+')[0]}://{rest}")
    if not found.get("user") or not found.get("dbname"):
        raise ValueError(f"{path} is not an address postgresql+psycopg://USER:PASSWORD@HOST/NAME")
    return found


def make(admin: dict[str, Any], owner: dict[str, Any], service: dict[str, Any]) -> None:
    """Make both logins, and give them what is theirs. Raises psycopg.Error, ValueError."""
    if len({one["user"] for one in (admin, owner, service)}) < 3:
        names = f"{admin['user']}, {owner['user']} and {service['user']}"
        raise ValueError(f"{names} must be three users; `make secrets` makes the addresses of the other two")
    if len({one["dbname"] for one in (admin, owner, service)}) > 1:
        names = f"{admin['dbname']}, {owner['dbname']} and {service['dbname']}"
        raise ValueError(f"{names} must be one database: correct the addresses")
    with psycopg.connect(**{**admin, "connect_timeout": 10}) as connection:
        for one in (owner, service):
            _login(connection, one)
        _database(connection, admin["dbname"], (owner["user"], service["user"]))
        _schema(connection, sql.Identifier(owner["user"]), sql.Identifier(service["user"]))


def _login(connection: psycopg.Connection[Any], one: dict[str, Any]) -> None:
    name = sql.Identifier(one["user"])
    if connection.execute("select 1 from pg_roles where rolname = %s", [one["user"]]).fetchone() is None:
        connection.execute(sql.SQL("CREATE ROLE {}").format(name))
    password = sql.Literal(one.get("password"))
    connection.execute(sql.SQL("ALTER ROLE {} WITH {} PASSWORD {}").format(name, NOTHING_ELSE, password))
    groups = "select roleid::regrole::text from pg_auth_members where member = %s::regrole"
    for (group,) in connection.execute(groups, [f'"{one["user"]}"']).fetchall():
        connection.execute(sql.SQL("REVOKE {} FROM {}").format(sql.SQL(group), name))


def _database(connection: psycopg.Connection[Any], own: str, users: tuple[str, ...]) -> None:
    for (name,) in connection.execute("select datname from pg_database").fetchall():
        connection.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(sql.Identifier(name)))
    for user in users:
        connection.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(*map(sql.Identifier, (own, user))))


def _schema(connection: psycopg.Connection[Any], owner: sql.Identifier, service: sql.Identifier) -> None:
    tables = "select relname from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')"
    for (name,) in connection.execute(tables).fetchall():
        connection.execute(sql.SQL("ALTER TABLE public.{} OWNER TO {}").format(sql.Identifier(name), owner))
    for statement in (
        "ALTER SCHEMA public OWNER TO {owner}",
        "REVOKE ALL ON SCHEMA public FROM PUBLIC",
        "GRANT USAGE ON SCHEMA public TO {service}",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {service}",
        "GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {service}",
        "ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA public"
        " GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {service}",
        "ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA public GRANT USAGE, SELECT ON SEQUENCES TO {service}",
    ):
        connection.execute(sql.SQL(statement).format(owner=owner, service=service))


def main(arguments: list[str]) -> int:
    """Make the logins. Returns 0, 1 when that fails, 2 for wrong arguments."""
    if len(arguments) != 3:
        print("usage: roles.py ADMIN OWNER SERVICE: three files, an address each", file=sys.stderr)
        return 2
    try:
        admin, owner, service = map(address, arguments)
        make(admin, owner, service)
    except (OSError, ValueError, psycopg.Error) as error:
        print(f"the database's logins were not made: {error}", file=sys.stderr)
        if "password authentication failed" in str(error):
            print("bring back the secrets that its volume was made with, or give it an empty one", file=sys.stderr)
        return 1
    print(f"{owner['user']} owns the schema of {admin['dbname']}, {service['user']} reads and writes its rows")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
