"""An example package: a tool, three roles with a lens, a workflow with command, view and table, a market."""

from chordesk.plugins import Command, Feature, Keep, MarketEntry, View

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
    routes=("chordesk_range.routes:router",),
    views=(View("/checkups", "Check-ups", "of/range/checkups", part="Checkups", menu=True, key="u"),),
    pages=("chordesk_range",),
    tables=("chordesk_range.tables",),
    migrations="chordesk_range.migrations",
    keeps={"range_checkup": Keep(run="results", at="created_at", days="keep_days")},
    settings_schema="chordesk_range.settings:RangeSettings",
    markets={"echo": MarketEntry("chordesk_range.market", replays=True)},
)
