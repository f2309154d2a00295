"""Questions in words about the desk, answered from its rows."""

from chordesk.models.features import Command, Feature, Keep, View

_MODELS, _TASKS = "chordesk.models.asking", "chordesk.tasks.asking"
FEATURE = Feature(
    name="asking",
    modules=(_MODELS, _TASKS),
    commands={
        "ask": Command(f"{_TASKS}.commands", "Look", "Ask the desk: why, what changed, what it holds and costs.")
    },
    answers=(f"{_TASKS}.lookup:answer",),
    routes=(f"{_TASKS}.routes:router",),
    views=(View("/ask", "Ask", "of/asking/ask", part="Ask", menu=True, key="k"),),
    pages=(_TASKS,),
    documents=("asking.md",),
    settings_schema=f"{_MODELS}.settings:AskingSettings",
    tables=(f"{_MODELS}.tables",),
    migrations=f"{_MODELS}.migrations",
    keeps={"asking_entry": Keep(at="created_at", days="days")},
)
