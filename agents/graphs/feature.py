"""TradingAgents and other graphs of LangGraph as durable work."""

from chordesk.models.features import Command, Feature, GraphRole

FEATURE = Feature(
    name="graphs",
    aliases=("langchain", "langgraph", "tradingagents"),
    modules=(
        "chordesk.agents.graphs",
        "chordesk.langchain",
        "chordesk.tasks.graphs",
    ),
    graph_roles={
        "tradingagents": GraphRole(
            after="quick",
            step="chordesk.tasks.graphs.tradingagents.ticker_opening:ticker_step",
            requires="chordesk.agents.graphs.tradingagents.project:require_playable",
        )
    },
    workflows=("chordesk.tasks.graphs.workflow:WORKFLOWS",),
    kinds=("graph",),
    commands={
        "graph": Command("chordesk.tasks.graphs.commands", "Run", "Run a LangGraph graph as durable work."),
        "tradingagents": Command(
            "chordesk.tasks.graphs.commands", "Run", "Run TradingAgents on symbols as durable work."
        ),
    },
    documents=(
        "langchain.md",
        "tradingagents.md",
    ),
    settings=("graphs", "graph_models"),
)
