"""`desk watch`: live events of a run, or of the whole desk."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated

import typer
from rich.text import Text

from chordesk.models.database.store import Store
from chordesk.models.errors import UsageError
from chordesk.models.events import DESK, Envelope, EventType
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import standing_of_run
from chordesk.models.states import RunState
from chordesk.tasks.cli.output import console
from chordesk.tasks.cli.render.events import event_line
from chordesk.tasks.cli.render.standing import standing_line
from chordesk.tasks.cli.shell import opened
from chordesk.tasks.cli.start import INTERRUPTED
from chordesk.tasks.events.feed import Feed
from chordesk.tasks.views.run_view import find_run

WENT_WRONG = frozenset({RunState.FAILED, RunState.STOPPED})

commands = typer.Typer()


@commands.command()
def watch(
    run: Annotated[
        str | None, typer.Argument(help="A run's id or the beginning of it; `desk` for events of no run.")
    ] = None,
    since: Annotated[int | None, typer.Option(help="Only events after this one; 0 is before the first.", min=0)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON envelope per line for programs.")] = False,
) -> None:
    """Show a run's past events, then its live ones; without a run, all live events of the desk."""
    if run is None and since is not None:
        raise UsageError("--since goes with a run", remedy="name the run: sequences are counted per run")
    settings, store = opened()
    try:
        last = asyncio.run(_watch(store, settings, run, since or 0, as_json=as_json))
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    finally:
        store.close()
    failed = last is not None and last.payload.get("state") in WENT_WRONG
    raise typer.Exit(1 if failed else 0)


async def _watch(store: Store, settings: Settings, run: str | None, since: int, *, as_json: bool) -> Envelope | None:
    """Print events until the run and its orders have ended; return the event with the run's outcome."""
    out = console()
    if run not in (None, DESK) and not as_json:
        out.print(_standing(store, str(run)))
        sys.stdout.flush()
    address = settings.redis_url.get_secret_value() if settings.redis_url is not None else None
    ended = None
    async with Feed(store, address, settings) as feed, aclosing(_events(feed, store, run, since)) as events:
        async for one in events:
            if as_json:
                sys.stdout.write(one.model_dump_json() + "\n")
            else:
                out.print(event_line(one, with_run=run is None), soft_wrap=True, highlight=False)
            sys.stdout.flush()
            if one.type is EventType.RUN_COMPLETED:
                ended = one
    return ended if run is not None else None


def _standing(store: Store, run: str) -> Text:
    with store.read() as session:
        row = find_run(session, run)
    return standing_line(standing_of_run(row.settings, row.account, row.model, row.market, row.market_now))


def _events(feed: Feed, store: Store, run: str | None, since: int) -> AsyncGenerator[Envelope]:
    if run is None:
        return feed.follow_desk()
    if run == DESK:
        return feed.follow(DESK, since)
    with store.read() as session:
        return feed.follow(find_run(session, run).id, since)
