"""TradingAgents and other graphs of LangGraph as durable work."""

from chordesk.models.features import Command, Feature, GraphRole

FEATURE = Feature(
    name="graphs",
    aliases=("langchain", "langgraph", "tradingagents"),
    modules=(
        "chordesk.agents.langchain",
        "chordesk.agents.tradingagents",
        "chordesk.langchain",
        "chordesk.tasks.cli.graphs",
        "chordesk.tasks.workflows.graph",
        "chordesk.tasks.workflows.graphs",
        "chordesk.tasks.workflows.tradingagents",
    ),
    graph_roles={
        "tradingagents": GraphRole(
            after="quick",
            step="chordesk.tasks.workflows.tradingagents.opening:ticker_step",
            requires="chordesk.agents.tradingagents.project:require_playable",
        )
    },
    workflows=("chordesk.tasks.workflows.graph:WORKFLOWS",),
    commands={
        "graph": Command("chordesk.tasks.cli.graphs", "Run", "Run a LangGraph graph as durable work."),
        "tradingagents": Command("chordesk.tasks.cli.graphs", "Run", "Run TradingAgents on symbols as durable work."),
    },
    settings=("graphs", "graph_models"),
)
