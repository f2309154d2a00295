"""Alpaca's trade updates: fills as they happen. What the stream misses, a lookup finds."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import structlog
from alpaca.trading.stream import TradingStream

from chordesk.models.orders import BrokerFill
from chordesk.tools.alpaca.http import Credentials
from chordesk.tools.brokers.alpaca_shapes import streamed_fill

log = structlog.get_logger(__name__)


class StreamedFills:
    """Fills from the stream, by the broker's order id; threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fills: defaultdict[str, dict[Decimal, BrokerFill]] = defaultdict(dict)

    def add(self, order_id: str, total: Decimal, fill: BrokerFill) -> None:
        with self._lock:
            self._fills[order_id].setdefault(total, fill)

    def of(self, order_id: str) -> dict[Decimal, BrokerFill]:
        with self._lock:
            return dict(self._fills.get(order_id, {}))

    def forget(self, order_id: str) -> None:
        with self._lock:
            self._fills.pop(order_id, None)


class TradeUpdates:
    """One connection to the stream, in a thread of its own. The client connects again by itself when it is cut."""

    def __init__(self, url: str, found: Credentials, fills: StreamedFills, changed: Callable[[str], None]) -> None:
        self._fills = fills
        self._changed = changed
        self._stream: Any = TradingStream(found.key, found.secret, url_override=url)
        self._stream.subscribe_trade_updates(self._handle)
        # Its errors carry what was sent; a cut is no news here, for lookups go on.
        logging.getLogger("alpaca.trading.stream").setLevel(logging.CRITICAL)
        self._thread = threading.Thread(target=self._run, name="alpaca-stream", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self, seconds: float = 1.0) -> None:
        """Ask the stream to end; it looks for that every five seconds, and its thread keeps no process alive."""
        loop = self._stream._loop
        if loop is not None and loop.is_running():
            asyncio.run_coroutine_threadsafe(self._stream.stop_ws(), loop)
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            self._stream.run()
        except Exception:
            log.warning("fill_stream.ended", instead="fills are polled for", exc_info=True)

    async def _handle(self, update: Any) -> None:
        """Record an update. Must not raise: the client would take it for an error of the connection."""
        try:
            fill = streamed_fill(update)
            if fill is not None:
                self._fills.add(*fill)
            await asyncio.to_thread(self._changed, str(update.order.client_order_id))
        except Exception:
            log.warning("fill_stream.update_unusable", instead="fills are polled for", exc_info=True)
