"""Signatures of the messages of Celery and kombu, for a Redis that others may reach: tasks, control commands, their
answers and workers' events each carry an HMAC by the key of the desk. One without is dropped before anything reads it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import threading
import time
from collections.abc import Mapping
from typing import Any

import structlog
from kombu.connection import Connection
from kombu.transport import TRANSPORT_ALIASES
from kombu.transport import redis as transport
from kombu.transport.virtual import Empty
from kombu.utils import json

from chordesk.models.settings import Settings
from chordesk.tasks.redis_clients import message_key

log = structlog.get_logger(__name__)

TRANSPORT = "signed"
OPTION = "signer"  # of the broker's transport options
HEADER = "desk-signature"
LOG_SECONDS = 60.0
_PURPOSE = b"chordesk message 1"
_CHANGED = frozenset({HEADER, "redelivered"})  # headers that are not signed: kombu adds the latter


class Signer:
    """Signs messages and verifies them. refused: how many were dropped so far; why: the last of them.
    Threads share it."""

    def __init__(self, key: str) -> None:
        self.refused, self.why = 0, ""
        self._key = key.encode()
        self._lock = threading.Lock()
        self._logged = -LOG_SECONDS

    def __json__(self) -> str:
        """Return what `celery inspect` shows of the transport's options."""
        return "hmac-sha256"

    def __deepcopy__(self, _: Any) -> Signer:
        return self  # Celery copies its settings

    def signature(self, message: Mapping[str, Any], body: str | bytes, exchange: str, routing_key: str) -> str:
        """Return the signature of a message with this body, for one place: all that a worker acts by is in it."""
        headers = {name: value for name, value in message["headers"].items() if name not in _CHANGED}
        answers = [message["properties"].get(name) for name in ("reply_to", "correlation_id")]
        kinds = [message["content-type"], message["content-encoding"]]
        signed = [headers, *answers, *kinds, exchange, routing_key]
        head: str = json.dumps(signed, sort_keys=True)  # type: ignore[no-untyped-call]
        text = body.encode() if isinstance(body, str) else body
        return hmac.new(self._key, b"\n".join((_PURPOSE, head.encode(), text)), hashlib.sha256).hexdigest()

    def refuse(self, queue: str, why: str) -> None:
        with self._lock:
            self.refused, self.why = self.refused + 1, why
            due = time.monotonic() - self._logged >= LOG_SECONDS
            self._logged = time.monotonic() if due else self._logged
        if due:
            log.warning("message.refused", queue=queue, why=why, refused=self.refused)


def signer_of(settings: Settings) -> Signer | None:
    """Return the signer of a process's messages; None on a private socket without a key. Raises SettingError."""
    key = message_key(settings)
    return Signer(key) if key is not None else None


class SignedQoS(transport.QoS):
    """What workers hold, without entries that are not messages: kombu would fail at them every two seconds."""

    def restore_by_tag(self, tag: Any, client: Any = None, leftmost: bool = False) -> None:
        parent: Any = super()
        try:
            parent.restore_by_tag(tag, client, leftmost)
        except (TypeError, ValueError, RecursionError):
            self.channel.connection.signer.refuse("", "it is no JSON")
            with self.channel.conn_or_acquire(client) as server:
                server.zrem(self.unacked_index_key, tag)
                server.hdel(self.unacked_key, tag)


class SignedChannel(transport.Channel):
    """Channel of Redis that signs what it sends."""

    QoS = SignedQoS

    def basic_publish(self, message: dict[str, Any], exchange: str, routing_key: str, **options: Any) -> Any:
        made = self.connection.signer.signature(message, message["body"], exchange, routing_key)
        message["headers"] = {**message["headers"], HEADER: made}
        parent: Any = super()
        return parent.basic_publish(message, exchange=exchange, routing_key=routing_key, **options)

    def _brpop_read(self, **options: Any) -> Any:
        parent: Any = super()
        try:
            return parent._brpop_read(**options)
        except (ValueError, RecursionError):
            self.connection.signer.refuse("", "it is no JSON")
            raise Empty from None


class SignedTransport(transport.Transport):
    """Transport of Redis that delivers what the desk has signed, from the place that it was sent to."""

    Channel = SignedChannel
    client: Any
    state: Any

    @property
    def signer(self) -> Signer:
        found: Signer = self.client.transport_options[OPTION]
        return found

    def _deliver(self, message: Any, queue: str) -> None:
        if (why := self._why_not(message, queue)) is None:
            parent: Any = super()
            parent._deliver(message, queue)
        else:
            self.signer.refuse(queue, why)

    def _why_not(self, message: Any, queue: str) -> str | None:
        """Return why a message was not sent by the desk to this queue; None if it was."""
        try:
            given, place = message["headers"].get(HEADER), message["properties"]["delivery_info"]
            exchange, routing_key = place["exchange"], place["routing_key"]
            if message["properties"]["body_encoding"] != "base64":
                raise ValueError  # another would be read as another text
            made = self.signer.signature(message, base64.b64decode(message["body"]), exchange, routing_key)
            # A task is sent to its queue by name, all else to an exchange.
            bound = {one.exchange for one in self.state.queue_bindings(queue)}
            here = exchange in bound if exchange else routing_key == queue
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            return "it has not the form of a message"
        if given is None:
            return "it has no signature"
        if not isinstance(given, str) or not hmac.compare_digest(given.encode(), made.encode()):
            return "its signature is of another key, or of another content"
        return None if here else "it was sent to another queue"


TRANSPORT_ALIASES[TRANSPORT] = f"{__name__}:{SignedTransport.__qualname__}"
Connection.resolve_aliases[TRANSPORT] = "redis"  # as which it is shown
