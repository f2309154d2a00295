"""The fence: one row an account says who may submit for it. Tokens only grow, so an older holder is off for good."""

from __future__ import annotations

import threading
import time

from sqlalchemy.exc import IntegrityError
from sqlmodel import Session

from models.columns import utcnow
from models.errors import FencedOff
from models.order_tables import Submitter
from models.store import Store

NOBODY = ""  # owner of an account that was given back: whoever comes next may take it


def take(store: Store, account: str, owner: str) -> int:
    """Make `owner` the only one who may submit for the account; its token, one more than the last."""
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
            row = Submitter(account=account, token=0, owner=NOBODY)
            session.add(row)
    except IntegrityError:  # another process made it a moment ago
        row = None
    return row or session.get_one(Submitter, account, with_for_update=True, populate_existing=True)


def require(session: Session, account: str, token: int) -> None:
    """Raises FencedOff when another token than this is in force.

    Called in the transaction that moves an order to `submitting`: the lock on the row lets nobody take the account
    between the question and the commit.
    """
    row = session.get(Submitter, account, with_for_update={"read": True}, populate_existing=True)
    if row is None or row.token != token:
        raise _off(account, token, row)


def _off(account: str, token: int, row: Submitter | None) -> FencedOff:
    now = f"{row.token}, taken by {row.owner or 'nobody'} at {row.taken_at:%Y-%m-%d %H:%M:%S} UTC" if row else "none"
    return FencedOff(f"token {token} of account {account} is no longer in force; the one that is: {now}")


def give_back(session: Session, account: str, token: int | None = None) -> None:
    """Let whoever comes next take the account; the present holder has to take it anew. token: give back that one only,
    and leave the account alone when another is in force."""
    row = session.get(Submitter, account, with_for_update=True, populate_existing=True)
    if row is not None and token in (None, row.token):
        row.token, row.owner, row.taken_at = row.token + 1, NOBODY, utcnow()
        session.add(row)


class Seat:
    """A process's place at the fence. It is taken with the first order, once: who was fenced off sits down again only
    when the account was given back."""

    def __init__(self, store: Store, account: str, owner: str) -> None:
        self.account = account
        self.owner = owner
        self._store = store
        self._token: int | None = None
        self._compared: float | None = None
        self._off = False
        self._lock = threading.Lock()

    @property
    def is_off(self) -> bool:
        """Whether the account was another process's when this one last asked for it."""
        return self._off

    def hold(self) -> int:
        """The token in force, which is this process's. Raises FencedOff when it is another's."""
        with self._lock:
            if self._token is None or not self._holds(self._token):
                self._token = take(self._store, self.account, self.owner)
                self._compared = None  # somebody else may have traded meanwhile
            self._off = False
            return self._token

    def compared(self) -> None:
        """Note that the account was compared with its broker just now."""
        self._compared = time.monotonic()

    def since_compared(self) -> float | None:
        """Seconds since the account was compared from this seat; None when it never was."""
        return None if self._compared is None else time.monotonic() - self._compared

    def _holds(self, token: int) -> bool:
        with self._store.read() as session:
            row = session.get(Submitter, self.account)
        if row is not None and row.token == token:
            return True
        if row is not None and row.owner == NOBODY:
            return False
        self._off = True
        raise _off(self.account, token, row)
