"""`desk unpark`: ask a provider again before the time that it stated, as after a plan was extended."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer

from chordesk.models.errors import UsageError
from chordesk.tasks.cli.output import emit
from chordesk.tasks.cli.shell import Json, checked

REDIS_SECONDS = 3.0
commands = typer.Typer()


@commands.command()
def unpark(
    name: Annotated[
        str | None, typer.Argument(help="A model or account, as `desk status` names it; all without one.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Let parked models be asked again before their limit's time.

    As after a plan was extended. One turn goes first: if the limit still holds, its model is parked again.
    """
    from chordesk.models.database.store import Store, require_current
    from chordesk.tasks.engine import limit_waits
    from chordesk.tasks.engine.limits import parked_models, unpark
    from chordesk.tasks.redis_clients import client as client_of
    from chordesk.tasks.redis_clients import redis_url, wait_ready

    settings = checked().settings
    address = redis_url(settings)
    wait_ready(address, REDIS_SECONDS)
    with closing(client_of(address, REDIS_SECONDS)) as client:
        parked = [one.model for one in parked_models(client)]
        if name is not None and name not in parked:
            raise UsageError(f"{name!r} is not parked", remedy=f"parked are: {', '.join(parked) or 'none'}")
        chosen = parked if name is None else [name]
        unpark(client, chosen)
    require_current(settings.database)
    with closing(Store(settings.database)) as store, store.session() as session:
        steps = limit_waits.wake(session, chosen)
    said = f"{', '.join(chosen)}: asked again, by one of {steps} waiting steps first" if chosen else "nothing is parked"
    emit({"unparked": chosen, "steps": steps}, lambda _: said, as_json=as_json)
