"""`desk tokens`: named tokens of people and programs for the service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from chordesk.models.errors import UsageError
from chordesk.models.text import utc_seconds
from chordesk.tasks.cli.output import emit, paragraph, print_line, table
from chordesk.tasks.cli.shell import Json, opened, whoami

if TYPE_CHECKING:
    from chordesk.models.tables.runtime import ApiToken

commands = typer.Typer(name="tokens", help="Named tokens of people and programs for the service.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="Name of the person or program, as the record has it.")]


@commands.command()
def add(
    name: Name, scope: Annotated[list[str], typer.Option(help="read, start, decide or operate; each reads too.")]
) -> None:
    """Make a token; it is printed once, and only its hash is kept."""
    from chordesk.tasks import named_tokens

    if wrong := [one for one in scope if one not in list(named_tokens.Scope)]:
        raise UsageError(f"--scope {wrong[0]!r} is none", remedy=f"choose among {', '.join(named_tokens.Scope)}")
    settings, store = opened()
    with store.session() as session:
        made = named_tokens.add(session, settings, name, [named_tokens.Scope(one) for one in scope], whoami())
    print_line(made)


@commands.command("list")
def list_tokens(as_json: Json = False) -> None:
    """List the tokens, revoked ones too; none is shown."""
    from chordesk.tasks import named_tokens

    with opened()[1].read() as session:
        rows = named_tokens.listed(session)
    plain = [row.model_dump(exclude={"digest"}) for row in rows]
    emit(plain, lambda _: table(_COLUMNS, map(_row, rows)) if rows else "there is no token", as_json=as_json)


@commands.command()
def revoke(name: Name) -> None:
    """End a token: a service refuses it within two seconds."""
    from chordesk.tasks import named_tokens

    settings, store = opened()
    with store.session() as session:
        named_tokens.revoke(session, settings, name, whoami())
    print_line(f"the token of {name} is revoked")


_COLUMNS = ("Name", "Scopes", "Made", "By", "Revoked")


def _row(row: ApiToken) -> tuple[str, ...]:
    revoked = utc_seconds(row.revoked_at) if row.revoked_at is not None else "-"
    return paragraph(row.name), ", ".join(row.scopes), utc_seconds(row.made_at), paragraph(row.made_by), revoked
