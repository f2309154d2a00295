"""Checks of the sources of research: the SEC's filings, pages of the web with the browser for their pictures, and event
markets."""

from __future__ import annotations

import subprocess
import tempfile

from chordesk.models.errors import NotConfigured
from chordesk.models.urls import page_hosts
from chordesk.tasks.doctor.check import Check, CheckContext, CheckStatus
from chordesk.tools.model_tools import filings as edgar
from chordesk.tools.pages.browser import find_browser
from chordesk.tools.pages.reading import PageError
from chordesk.tools.pages.text import require_installed
from chordesk.tools.venues import factory

_SECONDS = 12


def filings(context: CheckContext) -> Check:
    """Check that sec_filings has what it needs, without a request and without the identity's text."""
    if context.settings.sec_identity is None:
        return Check("filings", CheckStatus.OK, "no identity is set (DESK_SEC_IDENTITY): sec_filings asks for nothing")
    try:
        edgar.require_installed()
    except NotConfigured as error:
        return Check("filings", CheckStatus.WARN, "an identity is set, edgartools is missing", str(error))
    replay = "" if context.desk.market.clock.day is None else "; none are asked for in a replay"
    return Check("filings", CheckStatus.OK, f"EDGAR is asked under the identity of DESK_SEC_IDENTITY{replay}")


def pages(context: CheckContext) -> Check:
    """Check that page_read can read pages where hosts are named, and name the browser that makes their pictures."""
    settings = context.settings
    hosts = page_hosts(settings.page_hosts)
    if not hosts:
        return Check("pages", CheckStatus.OK, "no hosts are named (DESK_PAGE_HOSTS): page_read reads nothing")
    named = ", ".join(str(host) for host in hosts)
    try:
        require_installed()
    except NotConfigured as error:
        return Check("pages", CheckStatus.WARN, f"hosts {named}; the text cannot be read", str(error))
    try:
        browser = _browser(settings.page_browser)
    except PageError as error:
        return Check("pages", CheckStatus.OK, f"hosts {named}; without pictures: {error}")
    replay = "" if context.desk.market.clock.day is None else "; none is read in a replay"
    return Check("pages", CheckStatus.OK, f"hosts {named}; pictures by {browser}{replay}")


def venues(context: CheckContext) -> Check:
    """Check that the event markets that are named can be read; no request is made."""
    settings = context.settings
    named = [*settings.venues, *(["funding rates of Hyperliquid"] if settings.funding else [])]
    if not named:
        return Check("venues", CheckStatus.OK, "no event market is named (DESK_VENUES): none is read")
    try:
        factory.require_installed()
    except NotConfigured as error:
        return Check("venues", CheckStatus.WARN, f"{', '.join(named)}: httpx is missing", str(error))
    replay = "" if context.desk.market.clock.day is None else "; no episode asks them in a replay"
    return Check("venues", CheckStatus.OK, f"{', '.join(named)}{replay}")


def _browser(setting: str | None) -> str:
    """Return the path and the version of the browser, which loads an empty page. Raises PageError when it does not."""
    path = find_browser(setting)
    version = _output(path, "--version")
    with tempfile.TemporaryDirectory(prefix="desk-page-", ignore_cleanup_errors=True) as folder:
        _output(path, "--headless", "--disable-gpu", f"--user-data-dir={folder}", "--dump-dom", "about:blank")
    return f"{path} ({version[:80]})"


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=True)
    except subprocess.CalledProcessError as error:
        why = (error.stderr.strip().splitlines() or [f"it ended with {error.returncode}"])[-1]
        raise PageError(f"{command[0]} does not run: {why.rpartition('] ')[2][-200:]}") from None
    except (OSError, subprocess.SubprocessError) as error:
        raise PageError(f"{command[0]} does not run: {type(error).__name__}") from None
    return done.stdout.strip()
