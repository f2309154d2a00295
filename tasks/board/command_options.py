"""What the board adds to other commands: `--voice` of `desk stop`, `--rounds` of backtests."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from chordesk.models.errors import UsageError


def rounds(
    rounds: Annotated[int, typer.Option(help="Rounds of voices before the trader: 0, 1 or 2.")] = 0,
) -> dict[str, Any]:
    if rounds not in (0, 1, 2):
        raise UsageError(f"--rounds {rounds} is not a number of rounds", remedy="give 0, 1 or 2")
    return {"rounds": rounds}


def stop_voice(
    runs: list[str] | None,
    every: bool,
    as_json: bool,
    voice: Annotated[
        str | None, typer.Option(help="Only this voice of the run's board, such as weaver; the others go on.")
    ] = None,
) -> None:
    """Stop one voice of one run in place of the run, and end the command."""
    if voice is None:
        return
    from chordesk.tasks.board.episode import rounds
    from chordesk.tasks.cli.output import emit
    from chordesk.tasks.cli.runs import MARGIN_SECONDS
    from chordesk.tasks.cli.shell import opened, run_of, whoami
    from chordesk.tasks.worker.messages import WorkerNotifier

    if every or len(runs or ()) != 1:
        raise UsageError("--voice goes with one run", remedy="name the run whose voice it is")
    settings, store = opened()
    with store.read() as session:
        run_id = run_of(session, (runs or [""])[0], acts=True).id
    interrupt, most = WorkerNotifier(settings).interrupt, settings.lease_seconds + MARGIN_SECONDS
    found = rounds.stop_voice(store, run_id, voice, whoami(), interrupt, most)
    turns = ", ".join(f"turn {turn} of thread {thread}" for thread, turn in found.interrupted) or "no turn was running"
    end = f"stopped after {found.seconds:.1f} s" if found.over else "is still held by its worker"
    emit(found, lambda _: f"{voice} of run {run_id} {end}: {turns}", as_json=as_json)
    raise typer.Exit(0 if found.over else 1)
