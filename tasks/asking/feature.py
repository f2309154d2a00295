"""Questions in words about the desk, answered from its rows."""

from chordesk.models.features import Command, Feature, Keep, NoticeWords, Pass, View

_MODELS, _AGENTS, _TASKS = "chordesk.models.asking", "chordesk.agents.asking", "chordesk.tasks.asking"
_TOOLS = f"{_TASKS}.row_tools"
_CLERK = ("clerk",)
FEATURE = Feature(
    name="asking",
    modules=(_MODELS, _AGENTS, _TASKS),
    roles=(f"{_AGENTS}.clerk:ROLES",),
    tools={
        f"{_TOOLS}:DESK_STATUS": _CLERK,
        f"{_TOOLS}:WAITING_LIST": _CLERK,
        f"{_TOOLS}:CHANGES_LIST": _CLERK,
        f"{_TOOLS}:DESK_WHY": _CLERK,
        f"{_TOOLS}:ORDERS_LIST": _CLERK,
        f"{_TOOLS}:FILLS_LIST": _CLERK,
        f"{_TOOLS}:HOLDINGS_LIST": _CLERK,
        f"{_TOOLS}:EQUITY_GET": _CLERK,
        f"{_TOOLS}:GAINS_LIST": _CLERK,
        f"{_TOOLS}:VERDICTS_LIST": _CLERK,
        f"{_TOOLS}:THESES_LIST": _CLERK,
        f"{_TOOLS}:PLANS_LIST": _CLERK,
        f"{_TOOLS}:RUNS_LIST": _CLERK,
        f"{_TOOLS}:RUN_GET": _CLERK,
        f"{_TOOLS}:COSTS_GET": _CLERK,
        f"{_TOOLS}:SCORES_GET": _CLERK,
        f"{_TOOLS}:SCHEDULE_LIST": _CLERK,
        f"{_TOOLS}:ALERTS_LIST": _CLERK,
        f"{_TOOLS}:SETTINGS_GET": _CLERK,
    },
    prompts=(_AGENTS,),
    policies=(f"{_TASKS}.clerk_rules",),
    workflows=(f"{_TASKS}.clerk_runs:WORKFLOWS",),
    kinds=("ask", "answer"),
    asides=("ask",),
    commands={
        "ask": Command(f"{_TASKS}.commands", "Look", "Ask the desk: why, what changed, what it holds and costs."),
        "proposals": Command(f"{_TASKS}.proposal_commands", "Operate", "What was proposed, and waits for a yes or no."),
    },
    notice_kinds={
        "asking_answered": NoticeWords(
            "a question of the schedule or of an alert is answered",
            "A question is answered",
            "answered questions",
            f"{_TASKS}.wording:answered",
        )
    },
    answers=(f"{_TASKS}.lookup:answer",),
    proposals={
        **{kind: f"{_TASKS}.acts:{kind.upper()}" for kind in ("start", "stop", "halt", "approve", "deny")},
        "schedule": f"{_TASKS}.schedule_acts:SCHEDULE",
    },
    confirms=(f"{_TASKS}.confirming:People",),
    asks=(f"{_TASKS}.elsewhere:Phones",),
    passes={
        "proposals": Pass(f"{_TASKS}.confirming:finish_left", seconds=10),
        "questions": Pass(f"{_TASKS}.elsewhere:open_asked", seconds=5),
    },
    routes=(f"{_TASKS}.routes:router", f"{_TASKS}.routes:asks_router", f"{_TASKS}.routes:proposals_router"),
    scopes={"asks": "start", "proposals": "read"},
    views=(View("/ask", "Ask", "of/asking/ask", part="Ask", menu=True, key="k", words="Ask the desk"),),
    pages=(_TASKS,),
    documents=("asking.md",),
    settings_schema=f"{_MODELS}.settings:AskingSettings",
    tables=(f"{_MODELS}.tables", f"{_MODELS}.proposals"),
    migrations=f"{_MODELS}.migrations",
    keeps={
        "asking_entry": Keep(at="created_at", days="days"),
        "asking_proposal": Keep(at="created_at", days="days"),
    },
)
