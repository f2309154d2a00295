"""TradingAgents and other graphs of LangGraph as durable work."""

from chordesk.models.features import Command, Feature, GraphRole, Shown

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
    shown={
        "graphs": Shown(
            "chordesk.tasks.graphs.run_view:graph_rows",
            "run",
            text="chordesk.tasks.graphs.run_display:graphs_report",
            missing="chordesk.tasks.graphs.run_view:unfinished",
            template="chordesk.tasks.graphs:graphs",
            page="of/graphs/graphs:GraphsPart",
            kinds=("graph",),
        )
    },
    commands={
        "graph": Command("chordesk.tasks.graphs.commands", "Run", "Run a LangGraph graph as durable work."),
        "tradingagents": Command(
            "chordesk.tasks.graphs.commands", "Run", "Run TradingAgents on symbols as durable work."
        ),
    },
    pages=("chordesk.tasks.graphs",),
    documents=(
        "langchain.md",
        "tradingagents.md",
    ),
    settings=("graphs", "graph_models"),
)
