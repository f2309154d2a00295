"""`desk page`: the desk in a browser, opened with a link that works once."""

from __future__ import annotations

import getpass
import os
import re
import sys
import time
import webbrowser
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings, running_desk
from chordesk.tasks.cli.output import print_line
from chordesk.tasks.cli.processes import forget_credentials, stay
from chordesk.tasks.cli.shell import checked

ANSWERS_SECONDS = 30.0
PAUSE_SECONDS = 0.1
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}
UNKNOWN = "desk"
_PERSON = re.compile(r"\w[\w .,'@+-]{0,79}")

commands = typer.Typer()


@commands.command()
def page(
    at: Annotated[str, typer.Argument(help="View to open, as after the # of its address: /runs/RUN.")] = "/",
    by: Annotated[str | None, typer.Option(help="Your name, for the record; the login's by default.")] = None,
    url: Annotated[str | None, typer.Option(help="Address of the service, where it runs on another machine.")] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Only print the link.")] = False,
    end_sessions: Annotated[bool, typer.Option("--end-sessions", help="End every session of the page.")] = False,
    device: Annotated[
        str | None, typer.Option(help="Print a link for a device of this name, which stays for 30 days.")
    ] = None,
    scope: Annotated[
        list[str] | None, typer.Option(help="Of --device: read, start, decide, operate; all by default.")
    ] = None,
    devices: Annotated[bool, typer.Option("--devices", help="List the devices that are logged in.")] = False,
    revoke: Annotated[str | None, typer.Option(help="End the session of the device of this name.")] = None,
) -> None:
    """Open the page; over SSH only print its link.

    Without a running service this command serves it until Ctrl-C.
    """
    from chordesk.tasks.redis_clients import redis_url
    from chordesk.tasks.web.page import page_sessions

    settings = checked().settings
    if end_sessions:
        page_sessions.end_all(redis_url(settings))
        print_line("every session of the page has ended")
        return
    if devices or revoke is not None:
        _devices(settings, revoke)
        return
    person, way = _person(by), at if at.startswith("/") else f"/{at}"
    stays = _device(device, scope)
    found = running_desk.read_api(settings.home)
    if url is None and (found is None or not found[1]):
        if not _is_served(settings):
            _serve(settings, person, way, no_open, stays)
            return
        settings = checked().settings  # one that was starting has published its addresses since
        found = _answering(settings)
    _show(settings, url or (found[0] if found else ""), person, way, no_open, stays)


def _device(name: str | None, scope: list[str] | None) -> dict[str, Any]:
    """Return what a code has of the device that it is for; nothing for a session of a browser."""
    from chordesk.tasks.named_tokens import NAME, Scope

    if name is None and scope:
        raise UsageError("--scope is of a device", remedy="name it with --device")
    if name is not None and not NAME.fullmatch(name):
        raise UsageError(f"--device {name!r} is no name", remedy="use letters, digits, spaces and . , ' @ + -")
    if wrong := [one for one in scope or () if one not in list(Scope)]:
        raise UsageError(f"--scope {wrong[0]!r} is none", remedy=f"choose among {', '.join(Scope)}")
    return {"device": name, "scopes": sorted({*scope, Scope.READ}) if scope else None}


def _devices(settings: Settings, revoked: str | None) -> None:
    from chordesk.models.text import utc_seconds
    from chordesk.tasks.redis_clients import message_key, redis_url
    from chordesk.tasks.web.page import page_sessions

    address, key = redis_url(settings), message_key(settings)
    if revoked is not None:
        page_sessions.revoke_device(address, revoked, key)
        print_line(f"the device {revoked} is logged out")
        return
    found = page_sessions.devices(address, key)
    if not found:
        print_line("no device is logged in; `desk page --device NAME` prints a link for one")
    for one in found:
        scopes = ", ".join(one.scopes) if one.scopes is not None else "all"
        print_line(f"{one.name}: {one.by}, {scopes}; until {utc_seconds(one.until)}")


def offer(settings: Settings) -> None:
    _show(settings, _answering(settings)[0], _person(None), "/", no_open=False)
    print_line("another link, for another browser or later: `desk page`")


def _answering(settings: Settings) -> tuple[str, bool]:
    until = time.monotonic() + ANSWERS_SECONDS
    while (found := running_desk.read_api(settings.home)) is None or not found[1]:
        if time.monotonic() > until:
            raise UsageError(
                f"the page's service does not answer within {ANSWERS_SECONDS:.0f} s", remedy="see its log, api.log"
            )
        time.sleep(PAUSE_SECONDS)
    return found


def _is_served(settings: Settings) -> bool:
    """Return whether a `desk up` on the home serves it, or will once it has started: that is waited for. Whoever took
    its port meanwhile would keep it from starting."""
    said = False
    while running_desk.is_up(settings.home):
        if (serves := running_desk.serves(settings.home)) is not None:
            return serves
        if not said:
            said = True
            print_line(f"a desk starts on {settings.home}: waiting for it")
        time.sleep(PAUSE_SECONDS)
    return False


def opens_here(environ: Mapping[str, str], platform: str) -> bool:
    if environ.get("SSH_CONNECTION") or environ.get("SSH_TTY"):
        return False
    return platform in ("darwin", "win32") or bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


def link(url: str, code: str, way: str) -> str:
    """Return the link that logs in with a code and opens a view. The fragment is in no request and in no log."""
    for everywhere, here in EVERYWHERE.items():
        url = url.replace(f"//{everywhere}:", f"//{here}:")
    return f"{url.rstrip('/')}/#{code}{way if way != '/' else ''}"


def _show(
    settings: Settings, url: str, person: str, way: str, no_open: bool, stays: Mapping[str, Any] | None = None
) -> None:
    from chordesk.tasks.redis_clients import message_key, redis_url
    from chordesk.tasks.web.page import page_sessions

    code = page_sessions.new_code(redis_url(settings), person, message_key(settings), **(stays or {}))
    made = link(url, code, way)
    print_line(f"the page: {made}")
    print_line(f"the link works once, for {page_sessions.CODE_SECONDS} s")
    if stays is not None and stays["device"] is not None:
        print_line(f"open it on {stays['device']}, which then stays for 30 days; `desk page --revoke` ends it")
        return
    if not no_open and opens_here(os.environ, sys.platform):
        webbrowser.open(made)


def _serve(settings: Settings, person: str, way: str, no_open: bool, stays: Mapping[str, Any]) -> None:
    # Loaded here: to make a link for a service that runs needs no web framework.
    from chordesk.tasks.services import stop_signals
    from chordesk.tasks.web.app import serve

    forget_credentials()
    stay(settings)

    def announce(url: str, _token_at: str) -> None:
        print_line(f"no service ran for {settings.home}: serving it on {url} until Ctrl-C")
        _show(settings, url, person, way, no_open, stays)

    with stop_signals.raised():
        serve(settings, settings.api_port, announce)


def _person(given: str | None) -> str:
    if given is not None and not _PERSON.fullmatch(given):
        raise UsageError(f"--by {given!r} is no name", remedy="use letters, digits, spaces and . , ' @ + -")
    if given is not None:
        return given
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        return UNKNOWN  # a container's user may have no name
    return name if _PERSON.fullmatch(name) else UNKNOWN
