"""Alerts and watch lists: what a person wants to be told of, or to have looked at, when it happens."""

from chordesk.models.features import Command, Feature, Keep, NoticeWords, Pass, View

_MODELS, _TASKS = "chordesk.models.alerts", "chordesk.tasks.alerts"
FEATURE = Feature(
    name="alerts",
    modules=(_MODELS, "chordesk.tools.alerts", _TASKS),
    commands={
        "alerts": Command(f"{_TASKS}.commands", "Operate", "Be told, or have a run started, when something happens."),
        "watchlist": Command(f"{_TASKS}.watchlist_commands", "Operate", "Named lists of symbols, for alerts."),
    },
    notice_kinds={
        "alerts_fired": NoticeWords(
            "an alert has fired", "An alert has fired", "alerts that fired", f"{_TASKS}.wording:fired"
        ),
        "alerts_unseen": NoticeWords(
            "an alert has seen no data in three sessions",
            "An alert sees no data",
            "alerts without data",
            f"{_TASKS}.wording:unseen",
        ),
    },
    passes={"alerts": Pass(f"{_TASKS}.alert_pass:look_around")},
    routes=(f"{_TASKS}.routes:router",),
    proposals={"alert": f"{_TASKS}.proposing:ALERT", "watchlist": f"{_TASKS}.proposing:WATCHLIST"},
    answers=(f"{_TASKS}.answering:answer",),
    scope="start",
    views=(View("/alerts", "Alerts", "of/alerts/alerts", part="Alerts", menu=True, key="n", point="Alert at a price"),),
    pages=(_TASKS,),
    documents=("alerts.md",),
    settings_schema=f"{_MODELS}.settings:AlertsSettings",
    tables=(f"{_MODELS}.tables",),
    migrations=f"{_MODELS}.migrations",
    checks=(f"{_TASKS}.checks:CHECK",),
    keeps={
        "alerts_firing": Keep(at="created_at", days="firing_days"),
        # Of what has left a list or the account. No state goes before its firings, of which it counts the slots.
        "alerts_state": Keep(at="looked_at", days="firing_days"),
    },
)
