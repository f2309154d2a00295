"""`desk runs toys`."""

import typer

commands = typer.Typer()


@commands.command()
def toys() -> None:
    """Say that there are toys."""
    typer.echo("toys")
