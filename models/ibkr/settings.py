"""The settings DESK_IBKR_..."""

from __future__ import annotations

from pydantic import BaseModel

from chordesk.models.settings.schema import of_process


class IbkrSettings(BaseModel):
    host: str = of_process("127.0.0.1", "the host of IB Gateway or TWS, as the trade worker sees it", "gateway")
    port: int = of_process(
        0, "its port; 0: 4002 for ibkr-paper and 4001 for ibkr-live, which are the Gateway's", "7497", ge=0, le=65_535
    )
    client_id: int = of_process(
        1, "the number of the desk's connection: an order is cancelled by the number that placed it", "7", ge=1, le=999
    )
