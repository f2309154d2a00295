"""The wire to channels: apprise, which this module alone loads, and no process but the one that sends."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Sequence
from urllib.parse import unquote

import apprise
from apprise.exception import AppriseException

from chordesk.models.errors import SettingError
from chordesk.models.text import without_secrets
from chordesk.models.urls import HIDDEN
from chordesk.tasks.notifications.channels import Answer, Channel

# Apprise's own 4 s are short for a mail server; a far side that drips is cut off by the sender.
READ_SECONDS = 10.0
_LONGEST = 300
_LIBRARY = logging.getLogger("apprise")
_PARTS = re.compile(r"[/?&=:@,#]+")


class _Collector(logging.Handler):
    """Collects what apprise writes about an attempt, for the thread that makes it, and writes none of it anywhere: it
    may have parts of URLs in it."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._own = threading.local()

    def begin(self) -> None:
        self._own.lines = []

    def lines(self) -> Sequence[str]:
        return getattr(self._own, "lines", [])

    def emit(self, record: logging.LogRecord) -> None:
        if hasattr(self._own, "lines"):
            self._own.lines.append(record.getMessage())


_collector = _Collector()


def _collect() -> None:
    """apprise and its HTTP library write the paths of URLs at DEBUG."""
    _LIBRARY.handlers[:] = [_collector]
    _LIBRARY.propagate = False
    _LIBRARY.setLevel(logging.WARNING)
    logging.getLogger("urllib3").setLevel(logging.WARNING)


class ChannelWire:
    """A channel that messages can be sent to. service: apprise's name of it, such as Slack."""

    def __init__(self, channel: Channel) -> None:
        """Raises SettingError for a URL that apprise cannot read."""
        _collect()
        self.channel = channel
        self._pieces = _secret_pieces(channel.url)
        # No file of its own, and no pictures from elsewhere.
        asset = apprise.AppriseAsset(
            app_id="Chordesk", app_desc="Chordesk", app_url="", image_url_mask="", image_url_logo="",
            storage_mode=apprise.PersistentStoreMode.MEMORY, async_mode=False,
        )  # fmt: skip
        _collector.begin()
        try:
            made = apprise.Apprise.instantiate(channel.url, asset=asset, suppress_exceptions=False)
        except (AppriseException, TypeError, ValueError) as error:
            raise self._unreadable(str(error)) from None
        if made is None:
            raise self._unreadable("; ".join(_collector.lines()))
        if "rto=" not in channel.url:
            made.socket_read_timeout = READ_SECONDS
        self.service = str(made.service_name)
        self._plugin = made

    def send(self, title: str, text: str) -> Answer:
        """Send one message and return what became of it. Waits as long as the far side lets it."""
        _collector.begin()
        try:
            sent = self._plugin.notify(body=text, title=title, body_format=apprise.NotifyFormat.TEXT)
        except Exception as error:
            return Answer(False, self.masked(f"{type(error).__name__}: {error}"))
        if sent:
            return Answer(True)
        return Answer(False, self.masked("; ".join(_collector.lines()) or "it was not sent, without a reason"))

    def masked(self, text: str) -> str:
        for piece in self._pieces:
            text = text.replace(piece, HIDDEN)
        return " ".join(without_secrets(text).split())[:_LONGEST]

    def _unreadable(self, why: str) -> SettingError:
        scheme = self.channel.url.partition("://")[0]
        problem = f"the channel {self.channel.name}: apprise cannot read its {scheme}:// URL"
        reason = self.masked(why)
        return SettingError(
            f"{problem}: {reason}" if reason else problem,
            remedy="correct it in DESK_NOTIFY_CHANNELS or its file; docs/notifications.md shows the usual ones",
        )


def wires(channels: Sequence[Channel]) -> dict[str, ChannelWire]:
    return {one.name: ChannelWire(one) for one in channels}


def _secret_pieces(url: str) -> list[str]:
    """All parts of a URL but scheme and a host with a dot, the longest first: tokens can be in any place."""
    _, _, rest = url.partition("://")
    parts = [one for one in _PARTS.split(rest) if len(one) >= 4]
    host = rest.rpartition("@")[2].split("/")[0].split("?")[0].partition(":")[0]
    public = {host, "localhost"} if "." in host or host == "localhost" else {"localhost"}
    found = {one for part in parts for one in (part, unquote(part)) if one not in public}
    return sorted(found, key=len, reverse=True)
