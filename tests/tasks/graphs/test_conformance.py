"""LangGraph's own suite of checkpointers, on the savers of a step: one a graph, as the desk makes them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.conformance import checkpointer_test, validate

from chordesk.models.database.store import Store
from chordesk.tasks.engine.steps import ClaimedStep
from chordesk.tasks.graphs.checkpoints import StepSaver
from tests.tasks.graphs.test_saver import saver_of, step, store  # noqa: F401

pytestmark = pytest.mark.process  # one of the two databases is a server's, which is asked for by name


class GraphSavers(BaseCheckpointSaver[int]):
    """A saver for each graph. A neighbour of each node runs on: what a node alone writes waits for its checkpoint."""

    def __init__(self, make: Callable[[str], StepSaver]) -> None:
        super().__init__()
        self._make, self._made = make, dict[str, StepSaver]()

    def _of(self, thread: str) -> StepSaver:
        if thread not in self._made:
            self._made[thread] = self._make(thread)
            self._made[thread].begins("neighbour")
        return self._made[thread]

    async def aput(self, config: RunnableConfig, *given: Any) -> RunnableConfig:
        return await self._of(config["configurable"]["thread_id"]).aput(config, *given)

    async def aput_writes(self, config: RunnableConfig, *given: Any, **named: Any) -> None:
        await self._of(config["configurable"]["thread_id"]).aput_writes(config, *given, **named)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await self._of(config["configurable"]["thread_id"]).aget_tuple(config)

    async def alist(self, config: RunnableConfig | None, **given: Any) -> AsyncIterator[CheckpointTuple]:
        for thread in [config["configurable"]["thread_id"]] if config else self._made:
            async for found in self._of(thread).alist(config, **given):
                yield found

    async def adelete_thread(self, thread_id: str) -> None:
        self._of(thread_id).delete_thread(thread_id)


# It has no others: a run that goes on copies what it needs, and a graph's history ends with its run.
OPTIONAL = {"delete_for_runs", "copy_thread", "prune"}


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
async def test_the_savers_of_a_step_pass_the_suite(store: Store, step: ClaimedStep) -> None:  # noqa: F811
    @checkpointer_test(name="StepSaver", skip_capabilities=OPTIONAL)
    async def savers() -> AsyncGenerator[BaseCheckpointSaver[int], None]:
        yield GraphSavers(lambda thread: saver_of(store, step, thread=thread))

    report = await validate(savers)
    assert {name: one.failures for name, one in report.results.items() if not one.passed and name not in OPTIONAL} == {}
    assert report.passed_all_base()
