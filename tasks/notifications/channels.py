"""The channels of the settings: their URLs, and what each of them gets and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chordesk.models import notice_channels
from chordesk.models.errors import SettingError
from chordesk.models.features import lack_of
from chordesk.models.notice_channels import ByChannel, NoticeKind, QuietHours
from chordesk.models.settings import Settings

_SET = "set DESK_NOTIFY_CHANNELS to NAME=URL, or DESK_NOTIFY_CHANNELS_FILE to a file with such lines"


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel. url: apprise's, a secret."""

    name: str
    url: str = field(repr=False)
    kinds: frozenset[NoticeKind]
    quiet: QuietHours | None


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one attempt. error: why it failed, without secrets."""

    sent: bool
    error: str | None = None


def channels(settings: Settings) -> list[Channel]:
    """Raises SettingError for what does not fit together, and without apprise or a channel."""
    if settings.notify_channels is None:
        raise SettingError("no channel of notifications is set", remedy=_SET)
    urls = notice_channels.channel_urls(settings.notify_channels.get_secret_value())
    kinds, quiet = (
        notice_channels.kinds_by_channel(settings.notify_kinds),
        notice_channels.quiet_by_channel(settings.notify_quiet),
    )
    _require_known("DESK_NOTIFY_KINDS", settings.notify_kinds, kinds, urls)
    _require_known("DESK_NOTIFY_QUIET", settings.notify_quiet, quiet, urls)
    require_library()
    return [Channel(name, url, kinds.of(name), quiet.of(name)) for name, url in urls.items()]


def require_library() -> None:
    """Raise SettingError unless apprise is installed. It is not loaded: that takes memory and a second."""
    if (lack := lack_of("notify")) is not None:
        raise SettingError(f"notifications need {lack.reason}", remedy=lack.remedy)


def chosen(found: list[Channel], name: str | None) -> list[Channel]:
    some = [one for one in found if name in (None, one.name)]
    if not some:
        known = ", ".join(one.name for one in found)
        raise SettingError(f"there is no channel {name!r}", remedy=f"the channels are: {known}")
    return some


def _require_known(variable: str, text: str, given: ByChannel[Any], urls: Mapping[str, str]) -> None:
    for name in given.own:
        if name not in urls:
            remedy = f"the channels are: {', '.join(urls)}"
            raise SettingError(f"{variable}={text!r}: there is no channel {name!r}", remedy=remedy)
