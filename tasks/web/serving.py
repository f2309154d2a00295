"""The server: its socket, its parts, and an end that no reader of events can hold up."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import closing

import uvicorn

from models.settings import Settings
from models.store import require_current
from tasks.bootstrap import Desk, redis_url
from tasks.events.feed import Feed
from tasks.messenger import Messenger
from tasks.services import folders
from tasks.web.address import bind, require_safe
from tasks.web.app import create_app
from tasks.web.site import Site
from tasks.web.tokens import token_of

KEEP_ALIVE_SECONDS = 60
STOP_SECONDS = 2


class Server(uvicorn.Server):
    """Says when it answers, and ends the streams of events first: the rest of its end waits for what is still being
    answered."""

    def __init__(self, config: uvicorn.Config, feed: Feed, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._feed, self._announce = feed, announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._feed.close()
        await super().shutdown(sockets)


def serve(settings: Settings, port: int, announce: Callable[[str, str], None]) -> None:
    """Serves until SIGINT or SIGTERM. announce: told the URL, and where the token is, when it answers.

    Raises SettingError for an address that is not safe or a token's file that cannot be used, UsageError for an address
    that cannot be had, DatabaseDown and RedisDown when there is no desk here to serve.
    """
    require_safe(settings)
    address = redis_url(settings)
    require_current(settings.database)
    folders.prepare(settings.home)
    token = token_of(settings)
    desk = Desk(settings, "api")
    with closing(desk), bind(settings.api_host, port) as listening:
        site = Site(desk, Feed(desk.store, address, settings), Messenger(settings))
        config = uvicorn.Config(
            create_app(site, token), lifespan="off", http="httptools", ws="none", access_log=False, log_config=None,
            log_level="warning", proxy_headers=False, server_header=False, timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=STOP_SECONDS,
        )  # fmt: skip
        url = url_of(listening)
        Server(config, site.feed, lambda: announce(url, token.where)).run([listening])


def url_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
