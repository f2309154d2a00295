"""A package that adds to the desk one of each: a tool, a role, a workflow with its command, a market, a broker
and a benchmark."""

from chordesk.plugins import BrokerEntry, Command, Feature, MarketEntry

FEATURE = Feature(
    name="toy",
    needs=">=0.2,<1",
    roles=("chordesk_toy.roles:ROLES",),
    tools={"chordesk_toy.tools:TOY_RANGE": ("toy", "risk")},
    prompts=("chordesk_toy",),
    policies=("chordesk_toy.policies",),
    workflows=("chordesk_toy.workflow:WORKFLOWS",),
    commands={"toy": Command("chordesk_toy.commands", "Toys", "Square numbers, add them up, and double the sum.")},
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
    benchmarks={"toy": "chordesk_toy.benchmark:BENCHMARK"},
)
