"""Its command line."""

from __future__ import annotations

import typer
from tradingagents.graph import play

app = typer.Typer()


@app.command()
def analyze(symbol: str = typer.Option("AAPL")) -> None:
    """Print the decision about a symbol."""
    typer.echo(f"decision {play(symbol)}")
