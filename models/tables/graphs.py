"""Tables of LangGraph graphs that runs play: where each of them is, so that another worker can go on with it."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import Column, LargeBinary
from sqlmodel import Field

from chordesk.models.tables.columns import DeskTable, Utc, utcnow


class GraphCheckpoint(DeskTable, table=True):
    """The latest checkpoint of a graph, or of a graph within one of its nodes.

    thread: name of the graph in its run. place: LangGraph's checkpoint namespace, empty for the graph itself.
    content: the checkpoint, as `form` says; metadata likewise. step_id and attempt: those that wrote it.
    """

    run_id: str = Field(foreign_key="run.id", primary_key=True)
    thread: str = Field(primary_key=True)
    place: str = Field(primary_key=True)
    checkpoint_id: str
    parent_id: str | None = None
    form: str
    content: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    about_form: str
    about: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    step_id: str = Field(foreign_key="step.id", index=True)
    attempt: int
    written_at: dt.datetime = Field(default_factory=utcnow, sa_type=Utc)


class GraphWrite(DeskTable, table=True):
    """What a node has written since a checkpoint, while others of the same step still run: after a loss it is not run
    again. task: LangGraph's id of the node's task."""

    run_id: str = Field(foreign_key="run.id", primary_key=True)
    thread: str = Field(primary_key=True)
    place: str = Field(primary_key=True)
    task: str = Field(primary_key=True)
    ordinal: int = Field(primary_key=True)
    checkpoint_id: str
    path: str = ""
    channel: str
    form: str
    content: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
