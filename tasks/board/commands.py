"""`desk episode` and `desk board`: an episode of the forecasting board, and what is on a board; `desk scores` and `desk
calibrate`: what time made of forecasts and verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from chordesk.models.errors import UsageError
from chordesk.models.states import RunKind
from chordesk.tasks.cli.output import emit
from chordesk.tasks.cli.shell import Json, looks, opened, run_of
from chordesk.tasks.cli.start import Budget, DryRun, Wait, Yes, connected, forecast, see

if TYPE_CHECKING:
    from chordesk.tasks.reading.scores import ScoreKind

commands = typer.Typer()


@commands.command()
def episode(
    symbols: Annotated[
        list[str] | None,
        typer.Argument(
            help="Symbols to ask about; the candidates of the latest screen and the holdings by default, else what "
            "moved most."
        ),
    ] = None,
    questions: Annotated[
        list[str] | None, typer.Option(help="Ids of open questions, by comma; the desk chooses them by default.")
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="1 is blind; 2 by default, then all positions are shown.")] = None,
    budget: Budget = None,
    wait: Wait = True,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Let the voices forecast questions by all tools' signals.

    Harvest every tool's signals, let the voices forecast questions by them, and tally.
    """
    from chordesk.tasks.board.episode.opening import open_episode

    app = connected()
    look = forecast(app, budget, yes=yes, dry_run=dry_run, as_json=as_json)
    run = open_episode(app, symbols or (), _parts(questions), rounds, look=look)
    see(app, run, wait=wait, as_json=as_json)


def _parts(named: list[str] | None) -> list[str]:
    found = [part.strip() for item in named or [] for part in item.split(",") if part.strip()]
    if named and not found:
        raise UsageError("--questions names no question", remedy="leave it out, and the desk chooses them")
    return found


@commands.command()
@looks("no episode yet", as_json="null")
def board(
    run: Annotated[
        str | None,
        typer.Argument(
            help="An episode, or a screen with rounds: its id or the beginning of it; else the last episode."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show a run's board: questions, forecasts, voices, tally.

    With its signals, and the citations of each forecast.
    """
    from chordesk.tasks.board.board_display import board_report
    from chordesk.tasks.board.board_view import board_view

    store = opened()[1]
    with store.read() as session:
        found = board_view(session, run_of(session, run, RunKind.EPISODE))
    emit(found, board_report, as_json=as_json)


Account = Annotated[str | None, typer.Option("--account", help="Another account than that of the settings.")]


@commands.command("scores")
@looks("no scores yet", as_json="null")
def show(
    voice: Annotated[str | None, typer.Option("--voice", help="Only this voice, in detail.")] = None,
    tool: Annotated[str | None, typer.Option("--tool", help="Only this tool of the board.")] = None,
    lens: Annotated[str | None, typer.Option("--lens", help="Only this lens of a screen.")] = None,
    role: Annotated[str | None, typer.Option("--role", help="Only the reports of this role.")] = None,
    rating: Annotated[str | None, typer.Option("--rating", help="Only verdicts of this rating.")] = None,
    thesis: Annotated[
        str | None, typer.Option("--thesis", help="Only theses of a group, such as 'role risk' or 'horizon 10'.")
    ] = None,
    ever: Annotated[bool, typer.Option("--ever", help="Of all questions, not of those of a year alone.")] = False,
    account: Account = None,
    as_json: Json = False,
) -> None:
    """Score voices, tools, lenses, roles, verdicts and theses.

    Over resolved questions.
    """
    from chordesk.tasks.board.question_display import score_report
    from chordesk.tasks.reading.scores import kept_scores

    kind, name = _one_of(voice=voice, tool=tool, lens=lens, role=role, rating=rating and rating.upper(), thesis=thesis)
    settings, store = opened()
    found = kept_scores(store, account or settings.account, settings.model_cutoffs, kind, name, ever=ever)
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
    from chordesk.tasks.board.question_display import odds_report
    from chordesk.tools.scoring.verdict_calibration import cutoffs_of, store_odds, verdict_odds

    settings, store = opened()
    owner = account or settings.account
    with store.session() as session:
        found = verdict_odds(session, owner, cutoffs_of(settings.model_cutoffs), least)
        store_odds(session, owner, found)
    emit(found, lambda odds: odds_report(odds, least), as_json=as_json)


def _one_of(**given: str | None) -> tuple[ScoreKind | None, str | None]:
    named = [(kind, name) for kind, name in given.items() if name is not None]
    if len(named) > 1:
        options = " and ".join(f"--{kind}" for kind, _ in named)
        raise UsageError(f"{options} were given together", remedy="give one of them")
    return named[0] if named else (None, None)  # type: ignore[return-value]
