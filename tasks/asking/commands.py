"""`desk ask`: a question in words, answered from the desk's rows."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from chordesk.models.text import inert
from chordesk.tasks.cli.output import emit
from chordesk.tasks.cli.shell import Json, looks, opened

if TYPE_CHECKING:
    from chordesk.tasks.asking.answers import Answer

commands = typer.Typer()


@commands.command("ask")
@looks("the desk has done nothing yet", as_json="null")
def ask(
    words: Annotated[list[str], typer.Argument(metavar="QUESTION", help="In English, such as: why was ED bought")],
    account: Annotated[str | None, typer.Option(help="An account; else the desk's.")] = None,
    as_json: Json = False,
) -> None:
    """Ask the desk: why, what changed, what it holds and costs.

    It answers from its rows: no model is asked, and it costs nothing.
    """
    from chordesk.tasks.asking.lookup import answer
    from chordesk.tasks.bootstrap import Desk

    settings, store = opened()
    with closing(Desk(settings, "ask")) as desk:
        found = answer(settings, store, desk.account_market, " ".join(words), account)
    emit(found, _shown, as_json=as_json)


def _shown(found: Answer) -> RenderableType:
    lines: list[RenderableType] = [Text(inert(line)) for line in found.text.splitlines()]
    if found.missing:
        lines.append(Text(f"missing: {'; '.join(inert(one) for one in found.missing)}", style="yellow"))
    if found.sources:
        named = ", ".join(str(one) for one in found.sources[:6])
        more = f" and {len(found.sources) - 6} more" if len(found.sources) > 6 else ""
        lines.append(Text(f"from {named}{more}", style="dim"))
    return Group(*lines)
