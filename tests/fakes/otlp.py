"""The far side of OTLP/HTTP: a collector on loopback that decodes what it is sent and keeps it."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import partial
from http.server import ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.fakes.serving import PromptHandler
from tests.patience import PATIENCE

PROTOBUF = "application/x-protobuf"


@dataclass(frozen=True, slots=True)
class Seen:
    """A span as it came in; ids are hex digits, parent is empty for a root. service: the instance that sent it."""

    service: str
    trace: str
    id: str
    parent: str
    name: str
    about: dict[str, object]
    failed: bool
    start: int
    end: int


class Collector:
    """Listens while the block lasts. url: a bare address, as one sets it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: list[Seen] = []
        self.refused: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        serve = partial(self._server.serve_forever, poll_interval=0.02)
        self._thread = threading.Thread(target=serve, name="otlp", daemon=True)

    def spans(self, trace: str | None = None) -> list[Seen]:
        """All spans, or those of one trace."""
        with self._lock:
            return [span for span in self._spans if trace in (None, span.trace)]

    def take(self, path: str, kind: str, body: bytes) -> bool:
        """Keep a request, and return whether it follows the protocol."""
        if path != "/v1/traces" or kind != PROTOBUF:
            self.refused.append(f"{path} {kind}")
            return False
        request = ExportTraceServiceRequest.FromString(body)
        found = [
            _seen(span, dict(map(_pair, resource.resource.attributes)))
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        with self._lock:
            self._spans += found
        return True

    def __enter__(self) -> Collector:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(PATIENCE)


def _handler(collector: Collector) -> type[PromptHandler]:
    class Handler(PromptHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            taken = collector.take(self.path, self.headers["content-type"], body)
            answer = ExportTraceServiceResponse().SerializeToString() if taken else b""
            self.send_response(200 if taken else 400)
            self.send_header("content-type", PROTOBUF)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    return Handler


def _seen(span: Span, resource: dict[str, object]) -> Seen:
    return Seen(
        service=str(resource["service.instance.id"]),
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        name=span.name,
        about=dict(map(_pair, span.attributes)),
        failed=span.status.code == 2,
        start=span.start_time_unix_nano,
        end=span.end_time_unix_nano,
    )


def _pair(one: KeyValue) -> tuple[str, object]:
    return one.key, getattr(one.value, str(one.value.WhichOneof("value")))
