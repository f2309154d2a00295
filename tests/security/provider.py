"""A provider of models that wants the desk's key: the rulebook's answers, and failures that quote their request."""

from __future__ import annotations

from collections.abc import Callable

import orjson

from chordesk.agents.rulebook import server
from tests.fakes.responses import FakeResponses, Receive, Reply, Seen, Send

# Returns a reply in place of the rulebook's, None for the rulebook's.
Instead = Callable[[Seen], Reply | None]


class Provider(FakeResponses):
    """Answers by the rulebook's rules. keyless: number of calls that came without the key."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self.keyless, self._key = 0, key
        self.instead: Instead = lambda _: None

    async def answer(self, seen: Seen, receive: Receive, send: Send) -> None:
        self.keyless += seen.headers.get("authorization") != f"Bearer {self._key}"
        reply = self.instead(seen)
        if reply is not None:
            await self._reply(reply, send)
            return
        try:
            code, body, kind = 200, server.answer(orjson.dumps(seen.body)), b"text/event-stream"
        except server.BadRequest as error:
            code, body, kind = 400, orjson.dumps({"error": {"message": str(error)}}), b"application/json"
        headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": code, "headers": headers})
        await send({"type": "http.response.body", "body": body})
