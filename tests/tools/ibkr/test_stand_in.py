"""The stand-in of TWS speaks as TWS does: the client's own high level reads each of its messages."""

from __future__ import annotations

import asyncio
import logging
from decimal import Decimal

import pytest

from tests.fakes.tws import ACCOUNT, Tws, serving
from tests.patience import PATIENCE

ib_async = pytest.importorskip("ib_async")


async def until(done: asyncio.Event) -> None:
    await asyncio.wait_for(done.wait(), PATIENCE)


async def trade(tws: Tws) -> None:
    ib = ib_async.IB()
    await ib.connectAsync("127.0.0.1", tws.port, 5, timeout=PATIENCE)
    assert (ib.managedAccounts(), ib.client.serverVersion()) == ([ACCOUNT], 178)
    (share,) = await ib.qualifyContractsAsync(ib_async.Stock("AAPL", "SMART", "USD"))
    wanted = ib_async.LimitOrder("BUY", 10, 90.5, tif="GTC", orderRef="mine", account=ACCOUNT)
    reported = asyncio.Event()
    trade = ib.placeOrder(share, wanted)
    trade.commissionReportEvent += lambda *_: reported.set()
    while trade.orderStatus.status != "PreSubmitted":
        await asyncio.wait_for(trade.statusEvent, PATIENCE)
    tws.fill("mine", Decimal(4), Decimal(90))
    await until(reported)
    (open_,) = await ib.reqAllOpenOrdersAsync()
    assert (open_.order.orderRef, open_.order.permId, open_.orderStatus.filled) == ("mine", trade.order.permId, 4)
    tws.fill("mine", Decimal(6), Decimal(91))
    late = await ib.reqAllOpenOrdersAsync()  # what was told meanwhile counts as its answer
    assert all(one.orderStatus.status == "Filled" for one in late)
    (ended,) = await ib.reqCompletedOrdersAsync(False)
    told = (ended.order.orderRef, ended.order.filledQuantity, ended.order.totalQuantity, ended.orderStatus.status)
    assert told == ("mine", 10, 0, "Filled"), "the whole quantity of an ended order is not told"
    fills = await ib.reqExecutionsAsync()
    assert [(one.execution.shares, one.execution.price) for one in fills] == [(4, 90), (6, 91)]
    (held,) = await ib.reqPositionsAsync()
    assert (held.contract.symbol, held.position, held.avgCost) == ("AAPL", 10, 90.6)
    ib.disconnect()


def test_the_client_reads_all_that_the_stand_in_writes(caplog: pytest.LogCaptureFixture) -> None:
    with serving() as tws:
        asyncio.run(trade(tws))
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR] == []
