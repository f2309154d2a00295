"""Telegram's Bot API. The token is part of the address, so no address is ever shown as it is."""

from __future__ import annotations

from typing import Any

from chordesk.tasks.messengers.far_side import CALL_SECONDS, FarSide, Refusal, object_of


class BotApi(FarSide):
    """Calls of one bot."""

    def __init__(self, base: str, token: str) -> None:
        super().__init__("Telegram", base, token, token.partition(":")[2])
        self._token = token

    async def call(self, method: str, seconds: float = CALL_SECONDS, **given: Any) -> Any:
        """Return a call's result. Raises Refusal."""
        self.must_not_wait()
        status, body, _ = await self.posted(f"{self._base}/bot{self._token}/{method}", seconds, given, {})
        answer = object_of(body)
        if status == 200 and answer is not None and answer.get("ok") is True:
            return answer.get("result")
        raise self._refused(status, answer)

    async def to_chat(self, method: str, chat: str, **given: Any) -> Any:
        """The same for a message to a chat, no sooner than Telegram allows."""
        await self.turn(chat)
        return await self.call(method, chat_id=int(chat), **given)

    def _refused(self, status: int, answer: dict[str, Any] | None) -> Refusal:
        told = (answer or {}).get("description")
        why = self.masked(told if isinstance(told, str) else f"HTTP {status}, and not an answer of the Bot API")
        if status == 429:
            given = (answer or {}).get("parameters")
            return self.asked_to_wait(why, given.get("retry_after") if isinstance(given, dict) else None)
        # What it answers by an error of its own did not happen; what has no sense may be a proxy's.
        return Refusal(why, status, known=400 <= status < 500 or (answer is not None and status != 200))
