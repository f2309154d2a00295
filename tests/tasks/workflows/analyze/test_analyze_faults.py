"""Analyses that are disturbed by a model that refuses or fails, or by a budget that is used up."""

from __future__ import annotations

from typing import Any

import pytest
from sqlmodel import select

from chordesk.models.analysis import AnalysisRequest
from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.models.states import RUN_FINAL, RunState
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Analysis, Decision, Run
from chordesk.tasks.worker.app import create_app
from chordesk.tasks.workflows.analyze import open_analysis
from tests.fakes.chat import FakeChat
from tests.fakes.responses import Refusal, Status
from tests.parts import of_feature
from tests.stack import processes, wait_for
from tests.tasks.worker.steps import get_run
from tests.tasks.workflows.analyze.test_analyze import OPTIONS, SELECTED

PUTS = AnalysisRequest(research=False, across_earnings=True)
MODEL = "litellm:openai/gpt-5.5"


def rows(store: Store, table: Any, run: Run) -> list[Any]:
    with store.read() as session:
        return list(session.exec(select(table).where(table.run_id == run.id)).all())


def ended(settings: Settings) -> tuple[Store, Run]:
    """Analyse a symbol with these settings of the run, and return its end."""
    app = create_app(settings, "asks")
    try:
        run = open_analysis(app, [SELECTED], PUTS)
        store = Store(settings.database)
        wait_for(lambda: get_run(store, run.id).state in RUN_FINAL, "the run ends")
        return store, get_run(store, run.id)
    finally:
        app.desk.close()


@pytest.mark.long
def test_an_analysis_goes_as_far_as_its_turns_do() -> None:
    """A text that fails leaves analysis and order as they are; an analyst that refuses, or that a budget skips, leaves
    the analysis incomplete and without an order."""
    with (
        FakeChat(lambda body: Status(401)) as model,
        processes(
            **OPTIONS,
            **of_feature("tests.agents.litellm.kit:environment")(model.url),
            DESK_ROLE_MODELS=f"synthesis={MODEL}",
        ) as desk,
    ):
        desk.rulebook()
        desk.workers("research", "ops", "trade")
        store, run = ended(desk.settings)
        (analysis,) = rows(store, Analysis, run)
        assert (run.state, analysis.recommendation, analysis.headline) == (RunState.PARTIAL, "select", None)
        assert [order.state for order in rows(store, Order, run)] == ["previewed"]
        assert any("describe synthesis HAL: unauthorized" in note for note in run.notes), run.notes
        store.close()

        model.policy = lambda body: Refusal("I cannot help with options.")
        roles = f"options={MODEL};synthesis={MODEL}"
        store, run = ended(desk.settings.model_copy(update={"role_models": roles}))
        (analysis,) = rows(store, Analysis, run)
        assert (run.state, analysis.recommendation) == (RunState.DONE, "incomplete")
        assert analysis.reasons == ["options: refused (I cannot help with options.)"]
        assert rows(store, Decision, run) == []
        store.close()

        store, run = ended(desk.settings.model_copy(update={"budget_run_tokens": 1}))
        (analysis,) = rows(store, Analysis, run)
        assert (run.state, analysis.recommendation) == (RunState.PARTIAL, "incomplete")
        assert "skipped (budget: the run has used " in analysis.reasons[0]
        assert rows(store, Decision, run) == []
        store.close()
