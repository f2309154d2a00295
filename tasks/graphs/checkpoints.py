"""The checkpointer of a graph in the desk's database, written only while the step is held: the newest checkpoints of
the graph itself, and the latest of a graph within one of its nodes.

A checkpoint and the rows of the turns made since the one before are one transaction: what a node did is there with the
state that followed from it, or neither is. What a node has written is stored by itself only while others run beside it:
the next checkpoint has it. Elements of lists are parts of their own, each stored once under a number, and a checkpoint
has the runs of their numbers: a loop's messages, or as many digests, would else be written anew with each of its steps.
"""

from __future__ import annotations

import hashlib
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME
from sqlalchemy import delete, update
from sqlmodel import Session, col, select
from sqlmodel.sql.expression import SelectOfScalar

from chordesk.models.database.store import Store, insert_rows, transact
from chordesk.models.errors import GraphState, LeaseLost
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import GraphCheckpoint, GraphPart, GraphWrite
from chordesk.tasks.engine import graph
from chordesk.tasks.engine.steps import ClaimedStep
from chordesk.tasks.graphs.bridge import StepBridge

Digests = dict[str, list[str]]  # of each list's elements, by its channel
PART_BYTES = 200  # of an element on average, from which on a row of its own is less than writing it again
HISTORY = 200  # checkpoints of a graph that are kept at least
_TABLES = (GraphWrite, GraphPart, GraphCheckpoint)
_WITHIN = ":"  # in the place of a graph within a node: before the id of the node's task


class GraphReader(BaseCheckpointSaver[int]):
    """Reads the checkpoints of one graph of a run."""

    def __init__(self, store: Store, run_id: str, thread: str) -> None:
        super().__init__()
        self._store, self._run_id, self._thread = store, run_id, thread

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        place, wanted = _place(config), get_checkpoint_id(config)
        which = [GraphCheckpoint.checkpoint_id == wanted] if wanted else []
        with self._store.read() as session:
            row = session.exec(self._newest_first(place).where(*which).limit(1)).first()
            return self._read(session, row) if row is not None else None

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, the newest first: all of the graph itself, the latest of one within a node."""
        which = [GraphCheckpoint.checkpoint_id == wanted] if config and (wanted := get_checkpoint_id(config)) else []
        if before is not None and (end := get_checkpoint_id(before)):
            which.append(GraphCheckpoint.checkpoint_id < end)
        with self._store.read() as session:
            rows = session.exec(self._newest_first(_place(config or {})).where(*which)).all()
            found = (self._read(session, row) for row in rows)
            wanted_ones = (
                one for one in found if all(one.metadata.get(key) == value for key, value in (filter or {}).items())
            )
            chosen = [*itertools.islice(wanted_ones, limit)]
        yield from chosen

    def _newest_first(self, place: str) -> SelectOfScalar[GraphCheckpoint]:
        # LangGraph's ids are of their time.
        order = col(GraphCheckpoint.checkpoint_id).desc()
        return select(GraphCheckpoint).where(*self._at(GraphCheckpoint, place)).order_by(order)

    def _read(self, session: Session, row: GraphCheckpoint) -> CheckpointTuple:
        place = row.place
        writes = session.exec(
            select(GraphWrite)
            .where(*self._at(GraphWrite, place), GraphWrite.checkpoint_id == row.checkpoint_id)
            .order_by(col(GraphWrite.path), col(GraphWrite.task), col(GraphWrite.ordinal))
        ).all()
        parts = session.exec(select(GraphPart).where(*self._at(GraphPart, place))).all() if row.lists else ()
        load = self.serde.loads_typed
        checkpoint: Checkpoint = load((row.form, row.content))
        found = {part.number: part for part in parts}
        for channel, runs in row.lists.items():
            listed = [found[number] for number in numbers_of(runs)]
            checkpoint["channel_values"][channel] = [load((part.form, part.content)) for part in listed]
        return CheckpointTuple(
            config=self._config(place, row.checkpoint_id),
            checkpoint=checkpoint,
            metadata=load((row.about_form, row.about)),
            parent_config=self._config(place, row.parent_id) if row.parent_id else None,
            pending_writes=[(one.task, one.channel, load((one.form, one.content))) for one in writes],
        )

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self.get_tuple(config)

    async def alist(self, config: RunnableConfig | None, **given: Any) -> AsyncIterator[CheckpointTuple]:
        for found in self.list(config, **given):
            yield found

    def answers_given(self) -> dict[str, int]:
        """Return how many answers the nodes that wait for a person have had before, by the id of what they ask now."""
        which = col(GraphWrite.channel).in_((INTERRUPT, RESUME))
        own = (GraphWrite.run_id == self._run_id, GraphWrite.thread == self._thread)
        with self._store.read() as session:
            rows = session.exec(select(GraphWrite).where(*own, which)).all()
        answered: dict[tuple[str, str], int] = {}
        asked: list[tuple[tuple[str, str], str]] = []
        for row in rows:
            value, task = self.serde.loads_typed((row.form, row.content)), (row.place, row.task)
            if row.channel == RESUME:
                answered[task] = len(value) if isinstance(value, list) else 1
            else:
                asked += [(task, one.id) for one in value]
        found: dict[str, int] = {}
        for task, id_ in asked:
            found[id_] = max(found.get(id_, 0), answered.get(task, 0))
        return found

    def _at(self, table: Any, place: str) -> tuple[Any, ...]:
        return table.run_id == self._run_id, table.thread == self._thread, table.place == place

    def _config(self, place: str, checkpoint_id: str) -> RunnableConfig:
        return {"configurable": {"thread_id": self._thread, "checkpoint_ns": place, "checkpoint_id": checkpoint_id}}


class StepSaver(GraphReader):
    """Checkpointer of one graph of a run, for one attempt at a step.

    seconds: for how long a transaction is tried while the database is away. saved: called after each checkpoint of the
    graph itself, with its number.
    """

    def __init__(
        self, store: Store, step: ClaimedStep, thread: str, bridge: StepBridge, seconds: float,
        saved: Callable[[int], None],
    ) -> None:  # fmt: skip
        super().__init__(store, step.run_id, thread)
        self._step = step
        self._bridge, self._seconds, self._saved = bridge, seconds, saved
        self._running: set[Any] = set()
        self._unwritten: list[GraphWrite] = []
        self._lock = threading.Lock()
        # Whether the database may have writes, and rows of graphs within nodes: what an attempt before left is unknown.
        self._has_writes = self._has_within = True

    def begins(self, node: Any) -> None:
        """By an id of its own; what others have written before is stored first. Raises as `put` does."""
        with self._lock:
            self._running.add(node)
            rows, self._unwritten = self._unwritten, []
        if rows:
            self._store_writes(rows)

    def ends(self, node: Any) -> None:
        with self._lock:
            self._running.discard(node)

    def put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:  # fmt: skip
        """Raises LeaseLost, GraphState for a state that cannot be stored, and what ended the step's calls."""
        place, number = _place(config), metadata.get("step", 0)
        what = f"the state after step {number}"
        values = checkpoint["channel_values"]
        parts, digests = self._parts(place, values, what)
        rest = {name: value for name, value in values.items() if name not in digests}
        form, content = self._dumped({**checkpoint, "channel_values": rest}, what)
        about_form, about = self._dumped(get_checkpoint_metadata(config, metadata), "the metadata")
        row = GraphCheckpoint(
            run_id=self._step.run_id,
            thread=self._thread,
            place=place,
            checkpoint_id=checkpoint["id"],
            parent_id=config.get("configurable", {}).get("checkpoint_id"),
            form=form,
            content=content,
            about_form=about_form,
            about=about,
            step_id=self._step.id,
            attempt=self._step.attempt,
            written_at=utcnow(),
        )

        with self._lock:
            if not place:
                self._unwritten = []  # the checkpoint has them
            has_writes, has_within = self._has_writes or bool(place), self._has_within and not place
            self._has_within = self._has_within or bool(place)

        def write(session: Session) -> None:
            if has_writes:
                old = GraphWrite.checkpoint_id != checkpoint["id"]
                self._delete(session, GraphWrite, GraphWrite.place == place, old)
            if has_within and metadata.get("source") == "loop":
                # Of graphs within nodes that have ended with this step of the graph.
                for table in _TABLES:
                    self._delete(session, table, col(table.place).contains(_WITHIN))
            numbers = self._keep(session, place, parts)
            row.lists = {
                channel: runs_of([numbers[digest] for digest in listed]) for channel, listed in digests.items()
            }
            self._replace(session, row)
            if not place and number > 0 and number % HISTORY == 0:
                self._shorten(session)

        self._write(write)
        if not place:
            self._has_writes = False
            self._has_within = self._has_within and metadata.get("source") != "loop"
            self._saved(number)
        return self._config(place, checkpoint["id"])

    def _replace(self, session: Session, row: GraphCheckpoint) -> None:
        """Write a checkpoint once, however often it is put; a graph within a node keeps its latest alone."""
        if row.place:
            others = col(GraphCheckpoint.checkpoint_id) != row.checkpoint_id
            self._delete(session, GraphCheckpoint, GraphCheckpoint.place == row.place, others)
        same = (*self._at(GraphCheckpoint, row.place), col(GraphCheckpoint.checkpoint_id) == row.checkpoint_id)
        if session.connection().execute(update(GraphCheckpoint).where(*same).values(row.model_dump())).rowcount == 0:
            insert_rows(session, [row])

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a node has written while others of its step run or begin. Raises as `put` does."""
        if self._bridge.ended is not None and all(channel == ERROR for channel, _ in writes):
            return
        place, checkpoint_id = _place(config), config.get("configurable", {})["checkpoint_id"]
        last: dict[int, GraphWrite] = {}  # a node that asks several questions writes its answers so often
        for position, (channel, value) in enumerate(writes):
            ordinal = WRITES_IDX_MAP.get(channel, position)
            form, content = self._dumped(value, f"what a node wrote to {channel}")
            last[ordinal] = GraphWrite(
                run_id=self._step.run_id,
                thread=self._thread,
                place=place,
                task=task_id,
                ordinal=ordinal,
                checkpoint_id=checkpoint_id,
                path=task_path,
                channel=channel,
                form=form,
                content=content,
            )
        rows = [*last.values()]
        with self._lock:
            # What waits for a person is read from the database before it is asked.
            alone = not (place or self._running or any(row.channel == INTERRUPT for row in rows))
            if alone:
                self._unwritten += rows
        if not alone:
            self._store_writes(rows)

    def _store_writes(self, rows: Sequence[GraphWrite]) -> None:
        def write(session: Session) -> None:
            for row in rows:
                same = (GraphWrite.task == row.task, GraphWrite.ordinal == row.ordinal)
                self._delete(session, GraphWrite, GraphWrite.place == row.place, *same)
            insert_rows(session, rows)

        self._has_writes = True
        self._has_within = self._has_within or any(row.place for row in rows)
        self._write(write)

    def delete_thread(self, thread_id: str) -> None:
        self._write(self.forget)

    async def aput(self, *given: Any) -> RunnableConfig:
        return self.put(*given)

    async def aput_writes(self, *given: Any, **named: Any) -> None:
        self.put_writes(*given, **named)

    def forget(self, session: Session) -> None:
        for table in _TABLES:
            self._delete(session, table)

    def settle(self, session: Session) -> None:
        """Keep the history of a graph that has ended, without what a graph that goes on needs."""
        self._delete(session, GraphWrite)
        for table in _TABLES:
            self._delete(session, table, col(table.place).contains(_WITHIN))

    def _shorten(self, session: Session) -> None:
        """Delete all but the newest HISTORY checkpoints of the graph itself, and the parts that none of them has."""
        columns = select(GraphCheckpoint.checkpoint_id, GraphCheckpoint.lists)
        newest = columns.where(*self._at(GraphCheckpoint, "")).order_by(col(GraphCheckpoint.checkpoint_id).desc())
        rows = session.exec(newest.limit(HISTORY)).all()
        used = {number for _, lists in rows for runs in lists.values() for number in numbers_of(runs)}
        self._delete(session, GraphCheckpoint, GraphCheckpoint.place == "", GraphCheckpoint.checkpoint_id < rows[-1][0])
        self._drop(session, "", set(self._numbers(session, "").values()) - used)

    def _numbers(self, session: Session, place: str) -> dict[str, int]:
        """Of the parts that are stored, by digest."""
        return dict(
            session.execute(select(GraphPart.digest, GraphPart.number).where(*self._at(GraphPart, place))).all()
        )

    def _drop(self, session: Session, place: str, gone: Collection[int]) -> None:
        if gone:
            self._delete(session, GraphPart, GraphPart.place == place, col(GraphPart.number).in_(gone))

    def _parts(self, place: str, values: Mapping[str, Any], what: str) -> tuple[dict[str, GraphPart], Digests]:
        """Elements of lists by digest, and each list's digests; a list of small elements stays whole. Raises
        GraphState."""
        parts: dict[str, GraphPart] = {}
        digests: Digests = {}
        for channel, elements in values.items():
            if type(elements) is not list:
                continue
            dumped = [self._dumped(element, what) for element in elements]
            if sum(len(content) for _, content in dumped) < PART_BYTES * len(dumped):
                continue
            digests[channel] = []
            for form, content in dumped:
                digest = hashlib.blake2b(content, digest_size=16, person=form.encode()[:16]).hexdigest()
                digests[channel].append(digest)
                parts[digest] = GraphPart(
                    run_id=self._step.run_id, thread=self._thread, place=place, digest=digest, form=form,
                    content=content,
                )  # fmt: skip
        return parts, digests

    def _keep(self, session: Session, place: str, parts: Mapping[str, GraphPart]) -> dict[str, int]:
        """Store the parts that are new, and return the numbers of all; of a graph within a node, delete those that its
        checkpoint has no more."""
        present = self._numbers(session, place)
        if place:
            self._drop(session, place, {number for digest, number in present.items() if digest not in parts})
        fresh = [part for digest, part in parts.items() if digest not in present]
        for number, part in enumerate(fresh, start=max(present.values(), default=-1) + 1):
            part.number = number
        insert_rows(session, fresh)
        return present | {part.digest: part.number for part in fresh}

    def _delete(self, session: Session, table: type[Any], *which: Any) -> None:
        own = (table.run_id == self._step.run_id, table.thread == self._thread)
        session.connection().execute(delete(table).where(*own, *which))

    def _write(self, do: Callable[[Session], None]) -> None:
        """Write within a transaction of the step's owner, with the rows of the turns since the last one."""
        with self._bridge.record.written() as rows:
            self._bridge.require_going()

            def write(session: Session) -> None:
                graph.require_held(session, self._step)
                rows(session)
                do(session)

            try:
                transact(self._store, write, self._seconds)
            except LeaseLost as error:
                self._bridge.end(error)
                raise

    def _dumped(self, value: Any, what: str) -> tuple[str, bytes]:
        try:
            return self.serde.dumps_typed(value)
        except Exception as error:
            raise GraphState(f"{what} cannot be stored: {error}") from error


def runs_of(numbers: Sequence[int]) -> list[int]:
    """Return the first number and the length of each run of numbers that follow one another."""
    runs: list[int] = []
    for number in numbers:
        if runs and number == runs[-2] + runs[-1]:
            runs[-1] += 1
        else:
            runs += [number, 1]
    return runs


def numbers_of(runs: Sequence[int]) -> list[int]:
    return [first + at for first, length in zip(runs[::2], runs[1::2], strict=True) for at in range(length)]


def _place(config: RunnableConfig) -> str:
    return str(config.get("configurable", {}).get("checkpoint_ns", ""))
