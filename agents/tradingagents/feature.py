"""TradingAgents and other graphs of LangGraph as durable work."""

from chordesk.models.features import Command, Feature

FEATURE = Feature(
    name="graphs",
    graph_roles={"tradingagents": "quick"},
    workflows=("chordesk.tasks.workflows.graph:WORKFLOWS",),
    commands={
        "graph": Command("chordesk.tasks.cli.graphs", "Run", "Run a LangGraph graph as durable work."),
        "tradingagents": Command("chordesk.tasks.cli.graphs", "Run", "Run TradingAgents on symbols as durable work."),
    },
    settings=("graphs", "graph_models"),
)
