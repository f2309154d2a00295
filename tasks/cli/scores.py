"""`desk scores` and `desk calibrate`: what time made of forecasts and verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from chordesk.models.errors import UsageError
from chordesk.tasks.cli.output import emit
from chordesk.tasks.cli.shell import Json, opened

if TYPE_CHECKING:
    from chordesk.tasks.reading.scores import ScoreKind

commands = typer.Typer()

Account = Annotated[str | None, typer.Option("--account", help="Another account than that of the settings.")]


@commands.command("scores")
def show(
    voice: Annotated[str | None, typer.Option("--voice", help="Only this voice, in detail.")] = None,
    tool: Annotated[str | None, typer.Option("--tool", help="Only this tool of the board.")] = None,
    lens: Annotated[str | None, typer.Option("--lens", help="Only this lens of a screen.")] = None,
    role: Annotated[str | None, typer.Option("--role", help="Only the reports of this role.")] = None,
    rating: Annotated[str | None, typer.Option("--rating", help="Only verdicts of this rating.")] = None,
    account: Account = None,
    as_json: Json = False,
) -> None:
    """Score voices, tools, lenses, roles and verdicts.

    Over resolved questions.
    """
    from chordesk.tasks.cli.show.questions import score_report
    from chordesk.tasks.reading.scores import scores

    kind, name = _one_of(voice=voice, tool=tool, lens=lens, role=role, rating=rating and rating.upper())
    settings, store = opened()
    with store.read() as session:
        found = scores(session, account or settings.account, settings.model_cutoffs, kind, name)
    emit(found, lambda board: score_report(board, in_detail=name is not None), as_json=as_json)


@commands.command("calibrate")
def calibrate(
    least: Annotated[int, typer.Option("--min-n", min=30, help="Resolved questions that are enough.")] = 30,
    account: Account = None,
    as_json: Json = False,
) -> None:
    """Turn verdicts into the probability that they turn out.

    By rating and confidence, where there are enough resolved questions.
    """
    from chordesk.tasks.cli.show.questions import odds_report
    from chordesk.tools.scoring.verdict_calibration import cutoffs_of, store_odds, verdict_odds

    settings, store = opened()
    owner = account or settings.account
    with store.session() as session:
        found = verdict_odds(session, owner, cutoffs_of(settings.model_cutoffs), least)
        store_odds(session, owner, found)
    emit(found, lambda odds: odds_report(odds, least), as_json=as_json)


def _one_of(**given: str | None) -> tuple[ScoreKind | None, str | None]:
    """Return the one option that was given with its value; raise UsageError for more than one."""
    named = [(kind, name) for kind, name in given.items() if name is not None]
    if len(named) > 1:
        options = " and ".join(f"--{kind}" for kind, _ in named)
        raise UsageError(f"{options} were given together", remedy="give one of them")
    return named[0] if named else (None, None)  # type: ignore[return-value]
