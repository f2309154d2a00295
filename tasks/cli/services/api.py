"""`desk api`: the desk over HTTP, for programs."""

from __future__ import annotations

from typing import Annotated

import typer

from chordesk.models.urls import is_loopback
from chordesk.tasks.cli.output import print_line, warn
from chordesk.tasks.cli.services.processes import forget_credentials
from chordesk.tasks.cli.shell import checked
from chordesk.tasks.services import signals
from chordesk.tasks.worker import logs

commands = typer.Typer()


@commands.command()
def api(
    port: Annotated[int | None, typer.Option(help="Port; the setting's or a free one.", min=0, max=65535)] = None,
) -> None:
    """Serve the desk over HTTP: runs, threads, orders, approvals, stop, and live events."""
    # Loaded here: no other command, and no worker, has use for a web framework.
    from chordesk.tasks.web.serving import serve

    forget_credentials()
    settings = checked().settings
    logs.configure(settings)

    def announce(url: str, token_at: str) -> None:
        print_line(f"listening on {url}, the token is in {token_at}")
        if not is_loopback(settings.api_host):
            warn([f"{settings.api_host} is not loopback, and tokens go in clear: put TLS in front"])

    with signals.raised():
        serve(settings, settings.api_port if port is None else port, announce, watched=True)
