"""Outside accounts: what somebody holds at other brokers, which bounds the desk's sizes and is never traded."""

from chordesk.models.features import Command, Denial, Feature, HoldingsSource, Shown, View

_TOOLS, _TASKS = "chordesk.tools.holdings", "chordesk.tasks.holdings"
FEATURE = Feature(
    name="holdings",
    modules=("chordesk.models.holdings", _TOOLS, _TASKS),
    commands={
        "holdings": Command(f"{_TASKS}.commands", "Look", "Accounts at other brokers: import, show, forget them."),
    },
    shown={"holdings": Shown(f"{_TASKS}.brief:held_elsewhere", "report", template=f"{_TASKS}:holdings")},
    brief=(f"{_TASKS}.brief:brief_of_trader",),
    options={"research": (f"{_TASKS}.command_options:weakest",)},
    subcommands={"orders": (f"{_TASKS}.command_options",)},
    checks=(f"{_TASKS}.doctor_check:CHECK",),
    routes=(f"{_TASKS}.routes:router",),
    views=(View("/holdings", "Whole book", "of/holdings/holdings", part="Holdings", menu=True, key="w"),),
    pages=(_TASKS,),
    holdings={
        "ibkr-flex": HoldingsSource(
            f"{_TOOLS}.flex_service:read",
            "Interactive Brokers, Flex Web Service",
            credentials=("IBKR_FLEX_TOKEN", "IBKR_FLEX_QUERY"),
            options=("IBKR_FLEX_URL",),
        )
    },
    bounds=(f"{_TOOLS}.whole_book:bounds",),
    researched=(f"{_TOOLS}.portfolio_view:researched",),
    denials={
        "holdings_whole_book": Denial(
            "what would make a symbol or sector too large a share of own and outside holdings together",
            "`desk holdings what-if SYMBOL MONEY` shows what the whole leaves for it",
            f"{_TOOLS}.order_rule:whole_book_rule",
            settings=("book", "max_symbol_share", "max_sector_share"),
            facts=f"{_TOOLS}.order_rule:facts",
        )
    },
    documents=("holdings.md",),
    settings=("book",),
    settings_schema="chordesk.models.holdings.settings:HoldingsSettings",
    tables=("chordesk.models.holdings.tables",),
    migrations="chordesk.models.holdings.migrations",
)
