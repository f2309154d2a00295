"""The broker's stand-in of the fault suite: its stream can be cut or stop sending, and it counts how often an order was
filled. `python -m tests.ordeal.broker` prints its URL and serves until it is killed."""

from __future__ import annotations

import json
import threading
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.websockets import WebSocket

from tests.fakes.alpaca import OPEN, Alpaca, Row, serving

PRICE = 25.0
# Its stream: as it should be; every connection cut and none taken; connections that stay, and nothing comes.
STREAMING, CUT, SILENT = "streaming", "cut", "silent"


@dataclass
class FaultyBroker(Alpaca):
    """streams: STREAMING, CUT or SILENT."""

    streams: str = STREAMING

    def _publish(self, event: str, row: Row, **more: Any) -> None:
        if self.streams == STREAMING:
            super()._publish(event, row, **more)

    def fill(self, client_id: str, quantity: Decimal | int, price: Decimal | int) -> None:
        """Nothing when the order has ended since somebody looked."""
        with self._lock:
            if self.order(client_id)["status"] in OPEN:
                super().fill(client_id, quantity, price)

    async def stream(self, socket_: WebSocket) -> None:
        if self.streams == CUT:
            await socket_.close()
        else:
            await super().stream(socket_)

    async def control(self, request: Request) -> Response:
        """As the stand-in's, and {"streams": ...}. {"brief": true} spares the lists, which grow."""
        wanted = await request.json()
        if "streams" in wanted:
            self.streams = wanted["streams"]
            if self.streams == CUT:
                self.cut()
        state = json.loads(bytes((await super().control(request)).body))
        more = {"sent": len(self.sends), "listening": self.listening()}
        if wanted.get("brief"):
            return JSONResponse(more)
        fills = Counter(self.orders[row["order_id"]]["client_order_id"] for row in self.activities)
        return JSONResponse({**state, **more, "fills": fills})


def main() -> None:
    with serving(FaultyBroker(fills="all", price=Decimal(PRICE))) as broker:
        print(broker.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
