"""The NetworkPolicies of deploy/kubernetes, worked out pod by pod: what each may reach, and what may reach it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.deploy.kubernetes import OVERLAYS, ROLES, rendered, workloads
from tests.deploy.kustomize import Object

PUBLIC = "public"
PRIVATE = "private"
# The cloud's own address, which gives out credentials to whatever asks from a node, and all private networks.
NEVER = {"169.254.0.0/16", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "100.64.0.0/10"}
Reached = set[tuple[str, int | str]]


def policies(name: str) -> list[Object]:
    return [each for each in rendered(name) if each["kind"] == "NetworkPolicy"]


def selected(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether a selector chooses a pod; an empty one chooses all."""
    assert set(selector) <= {"matchLabels", "matchExpressions"}
    if not selector.get("matchLabels", {}).items() <= labels.items():
        return False
    for rule in selector.get("matchExpressions", ()):
        assert rule["operator"] == "In"
        if labels.get(rule["key"]) not in rule["values"]:
            return False
    return True


def labels_of(name: str, component: str) -> dict[str, str]:
    return dict(workloads(name)[component]["spec"]["template"]["metadata"]["labels"])


def reached(found: Iterable[Object], name: str, component: str, way: str = "Egress") -> Reached:
    """Return (peer, port) of all that a pod may reach, or that may reach it (way: Ingress). Without a policy of that
    way for the pod it is everything, ("anything", "any")."""
    about = labels_of(name, component)
    mine = [
        each["spec"]
        for each in found
        if way in each["spec"]["policyTypes"] and selected(each["spec"]["podSelector"], about)
    ]
    if not mine:
        return {("anything", "any")}
    side = "to" if way == "Egress" else "from"
    rules = [rule for spec in mine for rule in spec.get(way.lower(), ())]
    return {
        (peer, port["port"])
        for rule in rules
        for each in rule[side]
        for peer in peers(name, each)
        for port in rule["ports"]
    }


def peers(name: str, rule: Mapping[str, Any]) -> set[str]:
    """Return the names of what a rule's peer stands for: components, `public`, `private`, or a namespace's."""
    if "ipBlock" in rule:
        block = rule["ipBlock"]
        if block["cidr"] != "0.0.0.0/0":
            assert block["cidr"] in NEVER
            return {PRIVATE}
        assert set(block["except"]) >= NEVER
        return {PUBLIC}
    if "namespaceSelector" in rule:
        space = rule["namespaceSelector"].get("matchLabels", {}).get("kubernetes.io/metadata.name", "any namespace")
        return {f"{space}/{'/'.join(rule.get('podSelector', {}).get('matchLabels', {})) or '*'}"}
    return {component for component in workloads(name) if selected(rule["podSelector"], labels_of(name, component))}


NAMES: Reached = {("kube-system/k8s-app", 53)}
STORES: Reached = {("postgres", 5432), ("redis", 6379)}
WEB: Reached = {(PUBLIC, 443)}
WITHOUT_REDIS = {"notify"}
MAY_REACH: dict[str, Reached] = {
    "research": NAMES | STORES | WEB,
    "trade": NAMES | STORES | WEB,
    "ops": NAMES | STORES | WEB,
    "api": NAMES | STORES | WEB,
    "beat": NAMES | STORES,
    "notify": NAMES | {("postgres", 5432), (PUBLIC, 443), (PUBLIC, 465), (PUBLIC, 587)},
    "migrate": NAMES | STORES,
    "postgres": NAMES,
    "redis": NAMES,
}


def test_each_reaches_its_own_and_nothing_else() -> None:
    found = policies("small")
    assert {each: reached(found, "small", each) for each in workloads("small")} == MAY_REACH


def test_the_stores_of_a_fleet_are_elsewhere() -> None:
    elsewhere: Reached = {(PRIVATE, 5432), (PRIVATE, 6379), (PRIVATE, 6380)}
    found = policies("fleet")
    for role in ROLES:
        stores = elsewhere if role not in WITHOUT_REDIS else {(PRIVATE, 5432)}
        assert reached(found, "fleet", role) == MAY_REACH[role] - STORES - {("postgres", 5432)} | stores


def test_only_research_reaches_the_models_only_trade_the_broker_and_only_notify_the_channels() -> None:
    """By policies of their own, in which to name their addresses."""
    for name in OVERLAYS:
        by_name = {each["metadata"]["name"]: each["spec"]["podSelector"] for each in policies(name)}
        for policy, role in (
            ("to-models", "research"),
            ("to-broker", "trade"),
            ("to-channels", "notify"),
            ("to-reports", "ops"),
        ):
            assert [each for each in workloads(name) if selected(by_name[policy], labels_of(name, each))] == [role]


def test_each_is_reached_by_its_own_and_nothing_else() -> None:
    found = policies("small")
    watched: Reached = {("monitoring/*", "metrics")}
    into = {each: reached(found, "small", each, "Ingress") for each in workloads("small")}
    assert into == {
        **dict.fromkeys(("research", "ops", "trade", "beat", "notify"), watched),
        "api": watched | {("any namespace/chordesk/api-client", "http")},
        "migrate": set(),
        "postgres": {(role, "postgres") for role in ROLES},
        "redis": {(role, "redis") for role in ROLES if role not in WITHOUT_REDIS},
    }
