"""Fencing: one row an account names the only process that may submit. Tokens only grow, so an older holder is locked
out for good."""

from __future__ import annotations

import threading
import time

from sqlalchemy.exc import IntegrityError
from sqlmodel import Session

from chordesk.models.database.store import Store
from chordesk.models.errors import FencedOff
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Submitter

UNOWNED = ""  # owner of a released account, which the next process may take


def take(store: Store, account: str, owner: str) -> int:
    """Make `owner` the only submitter for the account; return its token, one more than the last."""
    with store.session() as session:
        row = _row(session, account)
        row.token, row.owner, row.taken_at = row.token + 1, owner, utcnow()
        session.add(row)
        return row.token


def _row(session: Session, account: str) -> Submitter:
    row = session.get(Submitter, account, with_for_update=True, populate_existing=True)
    if row is not None:
        return row
    try:
        with session.begin_nested():
            row = Submitter(account=account, token=0, owner=UNOWNED)
            session.add(row)
    except IntegrityError:  # another process made it a moment ago
        row = None
    return row or session.get_one(Submitter, account, with_for_update=True, populate_existing=True)


def require(session: Session, account: str, token: int) -> None:
    """Raise FencedOff when another token than this is in force.

    Called in the transaction that moves an order to `submitting`: the lock on the row keeps others from taking the
    account between this check and the commit.
    """
    row = session.get(Submitter, account, with_for_update={"read": True}, populate_existing=True)
    if row is None or row.token != token:
        raise _fenced_off(account, token, row)


def _fenced_off(account: str, token: int, row: Submitter | None) -> FencedOff:
    now = (
        f"{row.token}, taken by {row.owner or 'no process'} at {row.taken_at:%Y-%m-%d %H:%M:%S} UTC" if row else "none"
    )
    return FencedOff(f"token {token} of account {account} is no longer in force; the one that is: {now}")


def release(session: Session, account: str, token: int | None = None) -> None:
    """Let the next process take the account; the present holder has to take it anew. token: release that one only,
    and leave the account alone when another is in force."""
    row = session.get(Submitter, account, with_for_update=True, populate_existing=True)
    if row is not None and token in (None, row.token):
        row.token, row.owner, row.taken_at = row.token + 1, UNOWNED, utcnow()
        session.add(row)


class FencingLease:
    """A process's right to submit for an account. It is taken with the first order, once: a process that was fenced
    off takes it again only after the account was released."""

    def __init__(self, store: Store, account: str, owner: str) -> None:
        self.account = account
        self.owner = owner
        self._store = store
        self._token: int | None = None
        self._reconciled_at: float | None = None
        self._off = False
        self._lock = threading.Lock()

    @property
    def is_fenced_off(self) -> bool:
        """Return whether another process held the account at this one's last attempt."""
        return self._off

    def acquire(self) -> int:
        """Return this process's token, which is in force. Raises FencedOff when another process holds the account."""
        with self._lock:
            if self._token is None or not self._holds(self._token):
                self._token = take(self._store, self.account, self.owner)
                self._reconciled_at = None  # another process may have traded meanwhile
            self._off = False
            return self._token

    def mark_reconciled(self) -> None:
        """Note that the account was reconciled with its broker just now."""
        self._reconciled_at = time.monotonic()

    def seconds_since_reconciled(self) -> float | None:
        """Return seconds since the account was reconciled under this lease; None when it never was."""
        return None if self._reconciled_at is None else time.monotonic() - self._reconciled_at

    def _holds(self, token: int) -> bool:
        with self._store.read() as session:
            row = session.get(Submitter, self.account)
        if row is not None and row.token == token:
            return True
        if row is not None and row.owner == UNOWNED:
            return False
        self._off = True
        raise _fenced_off(self.account, token, row)
