"""The complete stack of a desk: checks before the start, migrations before the workers, and workers that answer."""

from __future__ import annotations

import os
from collections.abc import Callable

from chordesk.models.database import store
from chordesk.models.database.blobs import FolderBlobs
from chordesk.models.settings import Settings
from chordesk.tasks import redis_clients
from chordesk.tasks.bootstrap import redis_url, require_runtimes
from chordesk.tasks.documents.places import require_place
from chordesk.tasks.notifications import channels, checking
from chordesk.tasks.services.plan import Plan
from chordesk.tasks.services.stack import Stack
from chordesk.tasks.telemetry.emit import Telemetry
from chordesk.tasks.worker.app import node_name
from chordesk.tasks.worker.sockets import ask_all
from chordesk.tools.market.factory import build_market, require_chains

REDIS_SECONDS = 5.0


def desk_stack(plan: Plan, notify: Callable[[str], None]) -> Stack:
    """Return the stack of a whole plan. Enter it to start; its exit stops all. Raises DeskError when no worker could
    work. notify: takes a line about what is late."""
    require_able(plan.settings)

    def late() -> list[str]:
        well = {health.node for health in ask_all(plan.settings.home) if health.well}
        return [each.name for each in plan.desk if each.node is not None and node_name(each.node) not in well]

    def migrate() -> None:
        # Ours answers already; one that the user named may be down, and workers would wait for it for ever.
        redis_clients.wait_ready(redis_url(plan.settings), REDIS_SECONDS)
        store.upgrade(plan.settings.database)

    return Stack(plan, before_desk=migrate, late_workers=late, notify=notify)


def require_able(settings: Settings) -> None:
    """Raise the DeskError that every worker would fail with: SettingError for telemetry, the places of blobs and of
    reports, and the roles, SettingError or NotConfigured for the market, BinaryMissing, LoginMissing or CodexError for
    the model; and SettingError for channels of notifications."""
    Telemetry(settings, lambda: "up").check()
    if settings.blob_url is not None:
        FolderBlobs(settings.blob_url)
    if settings.report_url is not None:
        require_place(settings.report_url)
    build_market(settings)
    require_chains(settings, os.environ)
    require_runtimes(settings)
    if channels.is_set(settings):
        checking.services_apart(settings)
