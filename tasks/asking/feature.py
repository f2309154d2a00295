"""Questions in words about the desk, answered from its rows."""

from chordesk.models.features import Command, Feature, View

_TASKS = "chordesk.tasks.asking"
FEATURE = Feature(
    name="asking",
    modules=(_TASKS,),
    commands={
        "ask": Command(f"{_TASKS}.commands", "Look", "Ask the desk: why, what changed, what it holds and costs.")
    },
    answers=(f"{_TASKS}.lookup:answer",),
    routes=(f"{_TASKS}.routes:router",),
    views=(View("/ask", "Ask", "of/asking/ask", part="Ask", menu=True, key="k"),),
    pages=(_TASKS,),
    documents=("asking.md",),
)
