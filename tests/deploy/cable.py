"""A cable between a client and an endpoint, to be cut by a test."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


class Cable:
    """Carries every connection to its port on to another port of this machine."""

    def __init__(self, listener: socket.socket, target: int) -> None:
        self.port: int = listener.getsockname()[1]
        self.connections = 0
        self._listener = listener
        self._target = target
        self._sockets: list[socket.socket] = []

    def accept(self) -> None:
        """Carries until the listener is closed."""
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self._target), 20)
                except ConnectionRefusedError:
                    near.close()
                    continue
                far.settimeout(None)
                self._sockets += [near, far]
                self.connections += 1
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=_carry, args=pair, daemon=True).start()

    def cut(self) -> None:
        """Ends every connection, as a network does that goes away; the next ones work."""
        sockets, self._sockets = self._sockets, []
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def _carry(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def cable(target: int) -> Iterator[Cable]:
    listener = socket.create_server(("127.0.0.1", 0))
    laid = Cable(listener, target)
    thread = threading.Thread(target=laid.accept, daemon=True)
    thread.start()
    try:
        yield laid
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        laid.cut()
        thread.join(10)
