"""Real endpoints for the browser: `acpremote expose`, and a proxy that cuts, encrypts and adds a prefix."""

from __future__ import annotations

import contextlib
import re
import selectors
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

BIN = Path(sys.executable).parent
AGENT = (sys.executable, str(Path(__file__).with_name("agent.py")))
DEMO = (str(BIN / "acpremote"), "demo", "--agent")


@dataclass
class Endpoint:
    """A running server: its port, its log so far."""

    process: subprocess.Popen[str]
    port: int
    log: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"


@contextlib.contextmanager
def expose(
    *arguments: str, agent: Sequence[str] = AGENT, port: int = 0, env: Mapping[str, str] | None = None
) -> Iterator[Endpoint]:
    """Runs `acpremote expose` until the end of the block."""
    command = [str(BIN / "acpremote"), "expose", "--port", str(port), *arguments, "--", *agent]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as process:
        assert process.stderr is not None
        log: list[str] = []
        for line in process.stderr:
            log.append(line)
            if found := re.search(r"listening on wss?://.*:(\d+)/", line):
                break
        else:
            raise AssertionError("".join(log))
        drain = threading.Thread(target=log.extend, args=(process.stderr,))
        drain.start()
        try:
            yield Endpoint(process, int(found[1]), log)
        finally:
            process.terminate()
            process.wait(15)
            drain.join(15)


class Proxy:
    """Forwards connections to the port `target`; `cut` ends them all, `closed` refuses new ones.

    With a context it speaks TLS; with a prefix it takes that off the path of each connection's request, as
    reverse proxies are told to; with a host it puts that into the Host header, as they do unless told; it may
    forget about upgrades, as they do too. One thread for each connection: the tests open few.
    """

    def __init__(
        self,
        target: int = 0,
        *,
        tls: ssl.SSLContext | None = None,
        prefix: str = "",
        host: str = "",
        upgrades: bool = True,
    ) -> None:
        self.target = target
        self._tls = tls
        self._prefix = prefix.encode()
        self._host = host.encode()
        self._upgrades = upgrades
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self.closed = False
        self.connections = 0
        self.port = self._listener.getsockname()[1]
        scheme = "https" if tls else "http"
        self.url = f"{scheme}://127.0.0.1:{self.port}{prefix}/"

    def __enter__(self) -> Proxy:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(15)

    def cut(self) -> None:
        """Ends every connection at once, as a network that goes away does, but noticeably."""
        for each in list(self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _start(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.closed:
                client.close()
            else:
                self.connections += 1
                self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            if self._tls is not None:
                client = self._tls.wrap_socket(client, server_side=True)
            stack.callback(client.close)
            server = stack.enter_context(socket.create_connection(("127.0.0.1", self.target)))
            self._sockets |= {client, server}
            stack.callback(self._sockets.difference_update, {client, server})
            head = client.recv(65536)
            server.sendall(self._changed(head))
            self._forward(client, server)

    def _changed(self, head: bytes) -> bytes:
        if self._prefix:
            head = head.replace(b" " + self._prefix + b"/", b" /", 1)
        if self._host:
            head = re.sub(rb"(?i)\r\nhost: [^\r]*", b"\r\nHost: " + self._host, head, count=1)
        return head if self._upgrades else re.sub(rb"(?i)\r\nupgrade: [^\r]*", b"", head)

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        other = {client: server, server: client}
        with selectors.DefaultSelector() as selector:
            for each in other:
                selector.register(each, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    source = key.fileobj
                    assert isinstance(source, socket.socket)
                    data = source.recv(65536)
                    if not data:
                        return
                    other[source].sendall(data)
                    while isinstance(source, ssl.SSLSocket) and source.pending():
                        other[source].sendall(source.recv(65536))
