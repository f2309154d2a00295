"""An example package: a tool, a role, a workflow with its command, and a market. Its modules load where used."""

from chordesk.plugins import Command, Feature, MarketEntry

FEATURE = Feature(
    name="range",
    needs=">=0.2,<1",
    roles=("chordesk_range.roles:ROLES",),
    tools={"chordesk_range.tools:RANGE_GET": ("liquidity", "risk")},
    prompts=("chordesk_range",),
    policies=("chordesk_range.policies",),
    workflows=("chordesk_range.workflow:WORKFLOWS",),
    commands={"checkup": Command("chordesk_range.commands", "Run", "Ask the liquidity role about one symbol.")},
    markets={"echo": MarketEntry("chordesk_range.market", replays=True)},
)
