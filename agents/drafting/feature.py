"""Lenses drafted from words: a run of one turn, and the command that shows the draft to a person."""

from chordesk.models.features import Feature, Shown

_AGENTS, _TASKS = "chordesk.agents.drafting", "chordesk.tasks.drafting"
FEATURE = Feature(
    name="drafting",
    modules=(_AGENTS, _TASKS),
    roles=(f"{_AGENTS}.drafter:ROLES",),
    prompts=(_AGENTS,),
    policies=(f"{_AGENTS}.policies",),
    workflows=(f"{_TASKS}.workflow:WORKFLOWS",),
    kinds=("lens_draft", "draft_lens"),
    subcommands={"lens": (f"{_TASKS}.commands",)},
    shown={"draft": Shown(f"{_TASKS}.workflow:draft_of", text=f"{_TASKS}.display:draft_text", kinds=("lens_draft",))},
    documents=("drafting.md",),
)
