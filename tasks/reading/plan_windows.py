"""The plans of accounts: what is left of their windows, and whether one more run fits."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress

import redis
from sqlmodel import Session

from chordesk.models.answers import Frozen
from chordesk.models.errors import DeskError
from chordesk.models.quotas import Quota
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import utcnow
from chordesk.tasks.engine.quota_use import forecasts, quotas
from chordesk.tasks.redis_clients import client, redis_url

ASK_SECONDS = 1.0


class QuotaRow(Frozen):
    """The plan of an account, as its provider told it last. said: what is left, in words; forecasts: whether one more
    run fits, by kind of run."""

    account: str
    quota: Quota
    said: str
    forecasts: list[str]


def quota_rows(session: Session, settings: Settings, kinds: Sequence[str]) -> list[QuotaRow]:
    """Return the plans that are known, by account. kinds: of runs whose fit is told. Empty without Redis."""
    with (
        suppress(redis.RedisError, DeskError),
        closing(client(redis_url(settings), ASK_SECONDS, again=False)) as opened,
    ):
        return [
            QuotaRow(
                account=account,
                quota=quota,
                said=quota.said(utcnow()),
                forecasts=forecasts(opened, session, account, quota, kinds),
            )
            for account, quota in quotas(opened).items()
        ]
    return []
