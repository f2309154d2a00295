"""Slack's Web API and Socket Mode: calls with the bot's token, and a socket that the app's token opens."""

from __future__ import annotations

from typing import Any

import aiohttp

from chordesk.models.urls import is_loopback
from chordesk.tasks.messengers.far_side import CALL_SECONDS, FarSide, Refusal, object_of

MOST_ENVELOPE = 1_000_000  # bytes
PING_SECONDS = 15.0  # a socket whose far side is silent for twice as long is dead
# What Slack answers where a token is not in force, and where a person or channel takes no messages.
_REVOKED = frozenset(
    {"invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "org_login_required",
     "team_access_not_granted", "not_allowed_token_type", "missing_scope"}
)  # fmt: skip
_BLOCKED = frozenset(
    {"channel_not_found", "not_in_channel", "is_archived", "user_disabled", "user_not_found", "restricted_action",
     "messages_tab_disabled"}
)  # fmt: skip
# After these nobody knows whether it was done.
_BROKEN = frozenset({"internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org"})


class SlackApi(FarSide):
    """Calls of one app in one workspace."""

    def __init__(self, base: str, bot_token: str, app_token: str) -> None:
        super().__init__("Slack", base, bot_token, app_token)
        self._bot_token, self._app_token = bot_token, app_token

    async def call(self, method: str, **given: Any) -> dict[str, Any]:
        """Return the answer of a method to the bot. Raises Refusal."""
        return await self._called(method, self._bot_token, given)

    async def to_channel(self, method: str, channel: str, **given: Any) -> dict[str, Any]:
        """The same for a message, no sooner than Slack allows."""
        await self.turn(channel)
        return await self.call(method, channel=channel, **given)

    async def socket(self) -> aiohttp.ClientWebSocketResponse:
        """Open a socket, through which Slack sends what people write. Raises Refusal."""
        found = await self._called("apps.connections.open", self._app_token, {})
        url = found.get("url")
        if not isinstance(url, str) or not _is_safe(url):
            raise Refusal("Slack gave no address of a socket", 200)
        try:
            return await self.session.ws_connect(
                url, heartbeat=PING_SECONDS, max_msg_size=MOST_ENVELOPE, timeout=aiohttp.ClientWSTimeout(ws_close=5.0)
            )
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise Refusal(self.masked(f"no socket: {type(error).__name__}")) from None

    async def _called(self, method: str, token: str, given: dict[str, Any]) -> dict[str, Any]:
        self.must_not_wait()
        headers = {"Authorization": f"Bearer {token}"}
        status, body, answered = await self.posted(f"{self._base}/{method}", CALL_SECONDS, given, headers)
        if status == 429:
            after = answered.get("Retry-After", "")
            raise self.asked_to_wait(
                "Slack: too many requests", int(after) if after.isascii() and after.isdigit() else 0
            )
        answer = object_of(body)
        if status == 200 and answer is not None and answer.get("ok") is True:
            return answer
        told = (answer or {}).get("error")
        if not isinstance(told, str):
            known = 400 <= status < 500
            raise Refusal(f"HTTP {status}, and not an answer of Slack's", status, known=known)
        why = self.masked(f"{method}: {told}")
        if told == "ratelimited":
            raise self.asked_to_wait(why, 0)
        if told in _BROKEN:
            raise Refusal(why, 500, known=False)
        raise Refusal(why, 401 if told in _REVOKED else 403 if told in _BLOCKED else 400)


def _is_safe(url: str) -> bool:
    from urllib.parse import urlsplit

    try:
        found = urlsplit(url)
        return found.scheme == "wss" or (found.scheme == "ws" and is_loopback(found.hostname or ""))
    except ValueError:
        return False
