"""The audit log's state for people: whether each chain is whole, its length and its last hash."""

from __future__ import annotations

import datetime as dt

from sqlmodel import Session, col, select

from chordesk.models.answers import Frozen
from chordesk.models.tables.orders import AuditAnchor
from chordesk.tools.orders.audit_reading import CheckedChain

MOST_PROBLEMS = 20


class ChainState(Frozen):
    """One chain. verified: its file agrees with its anchor, line by line; entries: lines that are anchored; head: hash
    of the last one, at: its time; problems: the first of all_problems; abandoned: lines struck out, beyond: lines that
    are not committed or just being written."""

    chain: str
    place: str
    file_found: bool
    verified: bool
    entries: int
    head: str | None
    at: dt.datetime | None
    problems: list[str]
    all_problems: int
    abandoned: int
    beyond: int


class AuditState(Frozen):
    """All chains that the database or the data folder knows. verified: each of them is; True without any, as nothing is
    on record then."""

    verified: bool
    chains: list[ChainState]


def audit_state(session: Session, checked: list[CheckedChain]) -> AuditState:
    """Return the state of checked chains, with the hashes at which the database has them anchored now."""
    anchors = {row.chain: row for row in session.exec(select(AuditAnchor).order_by(col(AuditAnchor.at))).all()}
    return AuditState(
        verified=all(one.whole for one in checked), chains=[_chain(one, anchors.get(one.chain)) for one in checked]
    )


def _chain(one: CheckedChain, anchor: AuditAnchor | None) -> ChainState:
    return ChainState(
        chain=one.chain,
        place=one.place,
        file_found=one.file is not None,
        verified=one.whole,
        entries=one.count,
        head=anchor.head if anchor else None,
        at=anchor.at if anchor else None,
        problems=one.reading.problems[:MOST_PROBLEMS],
        all_problems=len(one.reading.problems),
        abandoned=one.reading.abandoned,
        beyond=one.reading.beyond,
    )
