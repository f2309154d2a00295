"""Interactive Brokers, by IB Gateway or Trader Workstation: its paper accounts, and its live ones under a mandate."""

from chordesk.models.features import Broker, Feature

_TOOLS, _TASKS = "chordesk.tools.ibkr", "chordesk.tasks.ibkr"
# The account that orders are for. It is no password, and is kept from logs and models all the same.
_KEYS = ("IBKR_ACCOUNT",)
# An order is in one of the Gateway's lists from the moment that it has it; what is on its way is there within minutes.
_KNOWS = 900.0
FEATURE = Feature(
    name="ibkr",
    modules=("chordesk.models.ibkr", _TOOLS, _TASKS),
    brokers={
        "ibkr-paper": Broker(
            f"{_TOOLS}.broker", play_money=True, credentials=_KEYS, options=False, knows_within=_KNOWS
        ),
        "ibkr-live": Broker(f"{_TOOLS}.broker", credentials=_KEYS, options=False, knows_within=_KNOWS),
    },
    checks=(f"{_TASKS}.doctor_check:CHECK",),
    documents=("ibkr.md",),
    tables=("chordesk.models.ibkr.tables",),
    migrations="chordesk.models.ibkr.migrations",
    settings_schema="chordesk.models.ibkr.settings:IbkrSettings",
)
