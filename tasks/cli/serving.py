"""`desk api` and `desk mcp`: the desk for programs, over HTTP and over the Model Context Protocol."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Annotated

import typer

from chordesk.models.extras import require_extra
from chordesk.models.settings import Settings
from chordesk.models.settings.sources import load_settings
from chordesk.models.urls import is_loopback
from chordesk.tasks.cli.output import print_line, warn
from chordesk.tasks.cli.processes import forget_credentials
from chordesk.tasks.cli.shell import checked

if TYPE_CHECKING:
    from chordesk.tools.registry import Toolset

commands = typer.Typer()


@commands.command()
def api(
    port: Annotated[int | None, typer.Option(help="Port; the setting's or a free one.", min=0, max=65535)] = None,
) -> None:
    """Serve the desk over HTTP, with live events.

    Runs, threads, orders, approvals and stop.
    """
    from chordesk.tasks.services import signals

    # Loaded here: no other command, and no worker, has use for a web framework.
    from chordesk.tasks.web.app import serve
    from chordesk.tasks.worker import logs

    forget_credentials()
    settings = checked().settings
    logs.configure(settings)

    def announce(url: str, token_at: str) -> None:
        print_line(f"listening on {url}, the token is in {token_at}")
        if not is_loopback(settings.api_host):
            warn([f"{settings.api_host} is not loopback, and tokens go in clear: put TLS in front"])

    with signals.raised():
        serve(settings, settings.api_port if port is None else port, announce, watched=True)


@commands.command()
def mcp(
    http: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Serve streamable HTTP there; by default stdio.")
    ] = None,
    run: Annotated[
        str | None, typer.Option(help="A run: its market as of its day, and the dry run of its orders.")
    ] = None,
    tool: Annotated[list[str] | None, typer.Option(help="A tool to offer, again for more; by default all.")] = None,
) -> None:
    """Offer the desk's read tools over MCP; none submits orders."""
    from chordesk.tasks.services import signals
    from chordesk.tasks.worker import logs

    require_extra("mcp", "`desk mcp`")
    # Loaded here: agents and a web framework, which no other command of this module's wing has use for.
    from chordesk.agents.offering import offer

    forget_credentials()
    settings = load_settings()
    logs.configure(settings)
    logging.getLogger("mcp").setLevel(logging.WARNING)  # at INFO it has a line or two for each request
    toolset = offer(settings, run, names=tool, preview=run is not None and tool is None)
    with signals.raised():
        _serve(settings, toolset, http)


def _serve(settings: Settings, toolset: Toolset, http: str | None) -> None:
    if http is None:
        from chordesk.tasks.web.mcp.protocol import serve_stdio

        serve_stdio(toolset)
        return
    from chordesk.tasks.web.mcp.http import address_of, serve_http

    host, _ = address_of(http)

    def announce(url: str, token_at: str) -> None:
        print_line(f"listening on {url}, the token is in {token_at}")
        if not is_loopback(host):
            warn([f"{host} is not loopback, and tokens go in clear: put TLS in front"])

    serve_http(settings, toolset, http, announce)
