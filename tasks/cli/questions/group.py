"""`desk questions` with its subcommands."""

from __future__ import annotations

import typer

from chordesk.tasks.cli.questions import asking, listing, pairs, positions, resolving

commands = typer.Typer(
    name="questions", help="Questions that resolve: the desk's own, a person's, event markets'.", no_args_is_help=True
)
commands.command("list")(listing.list_)
commands.command("show")(listing.show)
commands.command("add")(asking.add)
commands.command("import")(asking.import_)
commands.command("resolve")(resolving.resolve)
commands.command("pairs")(pairs.pairs)
commands.command("pair")(pairs.pair)
commands.command("unpair")(pairs.unpair)
commands.command("positions")(positions.positions)
