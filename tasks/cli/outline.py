"""The outline of the command `desk`: its subcommands by module, in the order of `desk --help`, each with the first
sentence of its own help.

So that its help loads none of them. A module's commands are added under their own names, or under their group's.
"""

from __future__ import annotations

MODULES: dict[str, dict[str, str]] = {
    "setup.command": {
        "setup": "Choose the model and the market, try them with one turn, and write them into `.env`.",
    },
    "services.up": {
        "up": "Start Redis, the rulebook model, the workers, the schedule and Flower; Ctrl-C stops all of them.",
    },
    "start": {
        "screen": "Screen a universe, research the candidates, and let the trader decide.",
        "research": "Research the symbols you name, or the account's holdings; the run ends with their verdicts.",
        "analyze": (
            "Analyse symbols: chart, options, research, a synthesis by code, and a proposed put or covered call."
        ),
        "trade": "Let the trader decide on the verdicts of an earlier run.",
    },
    "board.episode": {
        "episode": (
            "Hold an episode: harvest every tool's signals, let the voices forecast questions by them, and tally."
        ),
    },
    "board.board": {
        "board": "Show a run's board: signals, questions, forecasts with their citations, voices, and the tally.",
    },
    "walk.backtest": {
        "backtest": (
            "Let the whole desk play past sessions on an account of its own, and compare it with the universe itself."
        ),
    },
    "graphs.graph": {
        "graph": (
            "Play a LangGraph graph as durable work: each of its model calls is a turn, and it goes on where it was."
        ),
    },
    "graphs.tradingagents": {
        "tradingagents": (
            "Play TradingAgents on symbols as durable work: a graph each on the run's market; its signal is a report."
        ),
    },
    "stop": {
        "stop": (
            "Stop runs: interrupt their turns, submit none of their orders, and wait until nothing of them runs "
            "any more."
        ),
    },
    "watch": {
        "watch": "Show a run's past events, then its live ones; without a run, all live events of the desk.",
    },
    "status": {
        "status": (
            "Show workers, app-servers, queues, running turns, parked models, the oldest step and the last sweep; "
            "exit code 1 when a part of the desk does not answer."
        ),
    },
    "board.scores": {
        "scores": "Show the scores of voices, tools, lenses, roles and verdicts over resolved questions.",
        "calibrate": (
            "Map verdicts' rating and confidence to the probability that they turned out to have, where there is "
            "enough."
        ),
    },
    "orders.approvals": {
        "approvals": "List what waits for a person: orders, and what models ask for in the middle of a turn.",
        "approve": "Let an order go to the broker, as it was previewed, or a model do what it asks for.",
        "deny": "Refuse an order or a model's request.",
    },
    "orders.halt": {
        "halt": (
            "Stop trading of every account at once: no order is submitted any more, those that wait are denied; "
            "open ones of this shell's broker are cancelled."
        ),
        "resume": "Let this shell's account trade again; others stay as they are.",
    },
    "orders.reconcile": {
        "reconcile": "Compare positions, open orders, fills and cash with the broker; exit code 1 when they differ.",
    },
    "orders.arm": {
        "arm": "Sign a mandate: let a broker with real money take orders, within limits, for some hours.",
        "disarm": "Take a mandate back, at once.",
        "mandate": "Show the mandate in force and what is left of it; exit code 1 when there is none.",
    },
    "services.demo": {
        "demo": (
            "Screen the S&P 500 on real prices, research, decide, analyse three, hold a round of voices; then stop "
            "everything."
        ),
    },
    "services.doctor": {
        "doctor": "Check everything the desk needs before it starts; exit code 1 when a check fails.",
    },
    "config": {
        "config": "Show every setting, its value, its owner and where it came from.",
    },
    "data.folders": {
        "data": "Own data: a folder of bars, headlines and chains.",
    },
    "services.page": {
        "page": "Open the page; over SSH only print its link.",
    },
    "services.api": {
        "api": "Serve the desk over HTTP: runs, threads, orders, approvals, stop, and live events.",
    },
    "notifications.notify": {
        "notify": "Notifications of people: send them, test the channels, show what was sent.",
    },
    "services.mcp": {
        "mcp": "Offer the desk's read tools over the Model Context Protocol; none submits an order.",
    },
    "services.processes": {
        "worker": "Run one worker in the foreground.",
        "ping": "Check that a worker of this host answers; exit code 1 when none does.",
        "beat": "Run the schedule in the foreground; a second one waits for the lock of the first.",
        "flower": "Run Flower on loopback: a web page about the queues, and their metrics.",
        "rulebook": "Serve the rulebook model on loopback: fixed rules behind a Responses API, no model.",
    },
    "runs": {
        "runs": "List runs and show their results.",
    },
    "documents.report": {
        "report": "Make a report of a run, a day or a symbol: HTML with its charts in it, markdown or JSON.",
    },
    "threads": {
        "threads": "Threads that roles keep from one run to the next.",
    },
    "questions.group": {
        "questions": "Questions that resolve: the desk's own, a person's, event markets'.",
    },
    "orders.orders": {
        "orders": "What was recommended, and what became of it.",
    },
    "orders.audit": {
        "audit": "The log of every order: append-only, hash-chained, anchored.",
    },
    "orders.risk": {
        "risk": "The rules that every order passes before it is sent.",
    },
    "retention.gc": {
        "gc": (
            "Delete what is older than the settings keep: runs, events, rollouts, pictures; never what an order or a "
            "score rests on. A desk at work does so by itself, and may go on meanwhile."
        ),
    },
    "retention.backup": {
        "backup": (
            "Back the desk up as of one point in time while it works: database, audit log, HALT file, pictures, "
            "rollouts."
        ),
        "restore": (
            "Restore a backup into an empty place and verify it; the desk there is halted until a person resumes it."
        ),
    },
    "services.db": {
        "db": "The database and its migrations.",
    },
}
