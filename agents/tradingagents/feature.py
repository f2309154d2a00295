"""TradingAgents and other graphs of LangGraph as durable work."""

from chordesk.models.features import Command, Feature

FEATURE = Feature(
    name="graphs",
    graph_roles={"tradingagents": "quick"},
    workflows=("chordesk.tasks.workflows.graph:WORKFLOWS",),
    commands={
        "graph": Command(
            "chordesk.tasks.cli.graphs",
            "Run",
            "Play a LangGraph graph as durable work: each of its model calls is a turn, and it goes on where it was.",
        ),
        "tradingagents": Command(
            "chordesk.tasks.cli.graphs",
            "Run",
            "Play TradingAgents on symbols as durable work: a graph each on the run's market; its signal is a report.",
        ),
    },
    settings=("graphs", "graph_models"),
)
