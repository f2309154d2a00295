"""A package that adds one of each thing that a feature may bring."""

from chordesk.plugins import (
    BrokerEntry,
    Command,
    Denial,
    Feature,
    GraphRole,
    HoldingsSource,
    Keep,
    MarketEntry,
    MessengerEntry,
    NoticeWords,
    Pass,
    Program,
    RuntimeEntry,
    Shown,
    View,
)

FEATURE = Feature(
    name="toy",
    needs=">=0.2,<1",
    aliases=("toys",),
    roles=("chordesk_toy.roles:ROLES",),
    graph_roles={
        "toy_graph": GraphRole("quick", "chordesk_toy.hooks:play", requires="chordesk_toy.hooks:require_playable")
    },
    tools={"chordesk_toy.tools:TOY_RANGE": ("toy", "risk")},
    lenses={"toy": "names that are toys", "steady": "chordesk_toy:lenses/steady.md"},
    prompts=("chordesk_toy",),
    policies=("chordesk_toy.policies",),
    workflows=("chordesk_toy.workflow:WORKFLOWS",),
    kinds=("toy", "toys"),
    commands={"toy": Command("chordesk_toy.commands", "Toys", "Square numbers, add them up, and double the sum.")},
    turn_counts={"screen": ("chordesk_toy.hooks:turns_of_screen",)},
    brief=("chordesk_toy.hooks:brief",),
    shown={"toys": Shown("chordesk_toy.hooks:total_of", "run", text="chordesk_toy.hooks:total_text", kinds=("toy",))},
    lineage=("chordesk_toy.hooks:toy_lineage",),
    options={"stop": ("chordesk_toy.hooks:stop_toy",)},
    subcommands={"runs": ("chordesk_toy.run_commands",)},
    event_kinds={"toy.added": "payload.total: a run of toys was added up"},
    notice_kinds={"toy_added": NoticeWords("a run of toys came to a total", "Toys were added up", "sums of toys")},
    denials={"toy_shy": Denial("a symbol that begins with ZZ", "trade another", "chordesk_toy.hooks:shy", exits=True)},
    bounds=("chordesk_toy.hooks:small",),
    researched=("chordesk_toy.hooks:kept_toys",),
    checks=("chordesk_toy.hooks:CHECK",),
    preflight=("chordesk_toy.hooks:find_toys",),
    programs=(Program("toy", ("runs", "toys"), "toys"),),
    messengers={"toy": MessengerEntry("toy_post", "chordesk_toy.messenger:build", "toy post")},
    answers=("chordesk_toy.hooks:toy_answer",),
    asks=("chordesk_toy.proposing:ToyAsks",),
    proposals={"toy": "chordesk_toy.proposing:TOY"},
    confirms=("chordesk_toy.proposing:ToyConfirms",),
    passes={"toy_tidy": Pass("chordesk_toy.hooks:tidy", seconds=10)},
    routes=("chordesk_toy.routes:router",),
    views=(View("/toys", "Toys", "of/toy/toys", menu=True, key="q"), View("/toys/lost", "Lost", "of/toy/lost")),
    pages=("chordesk_toy",),
    markets={"toy": MarketEntry("chordesk_toy.market", replays=True)},
    brokers={
        "toy": BrokerEntry(
            "chordesk_toy.broker",
            play_money=True,
            credentials=("TOY_BROKER_KEY",),
            takes={"market": ("day",), "limit": ("day", "gtc"), "stop": ("gtc",)},
            options=False,
        )
    },
    holdings={
        "toy_savings": HoldingsSource(
            "chordesk_toy.savings:read", "Toy savings", credentials=("TOY_READ_KEY",), options=("TOY_SAVED",)
        )
    },
    runtimes={
        "toyish": RuntimeEntry("chordesk_toy", "pip install chordesk-toy", "chordesk_toy.runtime:build"),
    },
    wraps=("chordesk_toy.runtime:ToyWrap",),
    benchmarks={"toy": "chordesk_toy.benchmark:BENCHMARK"},
    tables=("chordesk_toy.tables",),
    migrations="chordesk_toy.migrations",
    keeps={"toy_note": Keep(run="results", at="created_at", days="note_days")},
    settings_schema="chordesk_toy.settings:ToySettings",
)
