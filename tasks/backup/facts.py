"""Facts of a database at one point in time, by which the files that belong to it are chosen."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from sqlalchemy import Connection, func, select, text
from sqlmodel import col

from chordesk.models.database.artifacts import path_in_home
from chordesk.models.states import RUN_FINAL
from chordesk.models.tables.orders import AuditAnchor, Order
from chordesk.models.tables.runs import Artifact, Run
from chordesk.models.tables.threads import Rollout
from chordesk.tools.orders.audit.chain import ChainAnchor


@dataclass(frozen=True, slots=True)
class Anchored:
    """A chain of the audit log, the place that opened it, and how far the database counts it."""

    chain: str
    place: str
    anchor: ChainAnchor


@dataclass(frozen=True, slots=True)
class Facts:
    """pictures: paths within the data folder, by digest. rollouts: digests of their blobs. at: just before the point
    in time."""

    at: dt.datetime
    revision: str
    runs: int
    open_runs: int
    orders: int
    chains: list[Anchored]
    pictures: dict[str, str]
    rollouts: set[str]


def facts_of(connection: Connection, at: dt.datetime) -> Facts:
    """Return the facts of the database as this connection's transaction sees it."""
    anchors = connection.execute(
        select(
            col(AuditAnchor.chain), col(AuditAnchor.place), col(AuditAnchor.count), col(AuditAnchor.head),
            col(AuditAnchor.size),
        ).order_by(col(AuditAnchor.chain))
    )  # fmt: skip
    pictures = connection.execute(select(col(Artifact.digest), col(Artifact.kind)).distinct())
    open_runs = select(func.count()).select_from(Run).where(col(Run.state).not_in(RUN_FINAL))
    return Facts(
        at=at,
        revision=str(connection.execute(text("select version_num from alembic_version")).scalar_one()),
        runs=connection.execute(select(func.count()).select_from(Run)).scalar_one(),
        open_runs=connection.execute(open_runs).scalar_one(),
        orders=connection.execute(select(func.count()).select_from(Order)).scalar_one(),
        chains=[Anchored(chain, place, ChainAnchor(count, head, size)) for chain, place, count, head, size in anchors],
        pictures={digest: path_in_home(digest, kind) for digest, kind in pictures},
        rollouts=set(connection.execute(select(col(Rollout.digest)).distinct()).scalars()),
    )
