"""An example package: a tool, three roles with a lens, a workflow with its command, a market. Each loads where used."""

from chordesk.plugins import Command, Feature, MarketEntry

FEATURE = Feature(
    name="range",
    needs=">=0.2,<1",
    roles=("chordesk_range.roles:ROLES",),
    tools={"chordesk_range.tools:RANGE_GET": ("liquidity", "range_note", "risk", "screener_calm")},
    lenses={"calm": "names that move little"},
    prompts=("chordesk_range",),
    policies=("chordesk_range.policies",),
    workflows=("chordesk_range.workflow:WORKFLOWS",),
    commands={"checkup": Command("chordesk_range.commands", "Run", "Ask for a note on one symbol's range.")},
    markets={"echo": MarketEntry("chordesk_range.market", replays=True)},
)
