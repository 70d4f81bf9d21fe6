"""Metrics of one server, for Prometheus, at an address of their own.

Needs the extra `acpremote[metrics]`; imported only where metrics are asked for. The page is served from a
thread of the library's own, so that a scrape holds up no link. It tells numbers only, never what is said or
who says it, and asks for no token: give it an address that only your Prometheus can reach.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from wsgiref.simple_server import WSGIServer

from .ending import Ending, EndingKind
from .errors import ConfigError, ListenError

try:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server
except ImportError:
    raise ConfigError("metrics need the extra acpremote[metrics]: pip install 'acpremote[metrics]'") from None

__all__ = ["Metrics"]

_ROUND_TRIPS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10)
_SIDES = ("client", "agent")


class Metrics:
    """What is counted, and the page that shows it."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._links = Gauge("acpremote_links", "Links that exist, detached ones included", registry=registry)
        self._detached = Gauge(
            "acpremote_links_detached", "Links whose client is away and may come back", registry=registry
        )
        starts = Counter("acpremote_agent_starts", "Agents that were to be started", registry=registry)
        self.agent_started: Callable[[], None] = starts.inc
        """Counts an agent that is being started."""
        endings = Counter("acpremote_links_ended", "Links that ended, and why", ["ending"], registry=registry)
        self._endings = {kind: endings.labels(kind.value) for kind in EndingKind}
        frames = Counter("acpremote_frames", "Messages sent to a side", ["to"], registry=registry)
        self._frames = {side: frames.labels(side) for side in _SIDES}
        sizes = Counter("acpremote_frame_bytes", "Bytes of the messages", ["to"], registry=registry)
        self._bytes = {side: sizes.labels(side) for side in _SIDES}
        times = Histogram(
            "acpremote_round_trip_seconds",
            "From a ping to its pong",
            buckets=_ROUND_TRIPS,
            registry=registry,
        )
        self.round_trip: Callable[[float], None] = times.observe
        """Takes in the seconds between a ping and its pong."""
        self._resumes = Counter(
            "acpremote_resumes", "Links resumed over another connection", registry=registry
        )
        self._replayed = Counter(
            "acpremote_replayed_frames", "Messages sent once more after a resume", registry=registry
        )
        self._refusals = Counter(
            "acpremote_refusals", "Requests refused, by HTTP status", ["status"], registry=registry
        )
        self._server: tuple[WSGIServer, threading.Thread] | None = None
        self.address = ""
        """Where the page is, with the real port."""

    def watch(self, *, links: Callable[[], int], detached: Callable[[], int]) -> None:
        """Says how to find out how many links there are; called from another thread."""
        self._links.set_function(links)
        self._detached.set_function(detached)

    def listen(self, address: str) -> None:
        """Serves the page at `HOST:PORT`, or on the loopback interface at `PORT`; port 0 chooses one.

        Raises:
            ConfigError: this is no address.
            ListenError: it cannot be listened on.
        """
        host, _, port = address.rpartition(":")
        if not port.isascii() or not port.isdigit() or int(port) > 65535:
            raise ConfigError(f"metrics need HOST:PORT or PORT to listen on, not {address!r}")
        host = host.strip("[]") or "127.0.0.1"
        try:
            self._server = start_http_server(int(port), host, self._registry)
        except OSError as error:
            why = error.strerror or error
            raise ListenError(f"cannot listen on {host} port {port} for metrics: {why}") from error
        name = f"[{host}]" if ":" in host else host
        self.address = f"http://{name}:{self._server[0].server_port}/metrics"

    def close(self) -> None:
        """Stops serving the page. Idempotent."""
        if self._server is None:
            return
        (server, thread), self._server = self._server, None
        server.shutdown()
        server.server_close()
        thread.join()

    # -- what a link tells: an observer as `pump.py` wants it -------------------------------------------

    def sent(self, side: str, lines: bytes, count: int) -> None:
        """Counts frames, joined by LF, on their way to `side`."""
        self._frames[side].inc(count)
        self._bytes[side].inc(len(lines) - count + 1)

    def noted(self, text: str) -> None:
        """See `Observer`; `resumed` counts."""

    def ended(self, ending: Ending) -> None:
        """Counts the end of a link."""
        self._endings[ending.kind].inc()

    # -- what the server tells --------------------------------------------------------------------------

    def resumed(self, replayed: int) -> None:
        """Counts a resume and the frames that are sent once more for it."""
        self._resumes.inc()
        self._replayed.inc(replayed)

    def refused(self, status: int) -> None:
        """Counts a request that was refused with this HTTP status."""
        self._refusals.labels(str(status)).inc()
