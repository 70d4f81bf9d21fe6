"""A WebSocket client of bare sockets: it hides nothing that a well-behaved library would hide."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
TIMEOUT = 20.0


class Closed(Exception):
    """The peer closed; `code` is 1006 without a close frame."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code} {reason}")
        self.code = code
        self.reason = reason


def masked(opcode: int, payload: bytes, *, fin: bool = True) -> bytes:
    """One client frame on the wire."""
    size = len(payload)
    head = bytes([opcode | (0x80 if fin else 0)])
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 65536:
        head += b"\xfe" + struct.pack("!H", size)
    else:
        head += b"\xff" + struct.pack("!Q", size)
    return head + bytes(4) + payload  # a mask of zeros changes nothing


class RawClient:
    """One connection, after its opening handshake."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.buffer = b""
        self.answer_pings = True
        self.pings = 0

    def read_exactly(self, size: int) -> bytes:
        while len(self.buffer) < size:
            piece = self.sock.recv(max(65536, size - len(self.buffer)))
            if not piece:
                raise Closed(1006, "end of stream")
            self.buffer += piece
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        return data

    def receive_frame(self) -> tuple[int, bytes]:
        first, second = self.read_exactly(2)
        size = second & 127
        if size == 126:
            (size,) = struct.unpack("!H", self.read_exactly(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", self.read_exactly(8))
        assert first & 0x80, "the server does not fragment"
        return first & 15, self.read_exactly(size)

    def receive(self) -> bytes:
        """The next text message; pings are answered, a close raises `Closed`."""
        while True:
            opcode, payload = self.receive_frame()
            if opcode == TEXT:
                return payload
            if opcode == PING:
                self.pings += 1
                if self.answer_pings:
                    self.send_frame(PONG, payload)
            elif opcode == CLOSE:
                code = struct.unpack("!H", payload[:2])[0] if payload else 1005
                with contextlib.suppress(OSError):
                    self.send_frame(CLOSE, payload)
                raise Closed(code, payload[2:].decode())
            else:
                assert opcode == PONG, f"unexpected opcode {opcode}"

    def receive_json(self) -> Any:
        return json.loads(self.receive())

    def send_frame(self, opcode: int, payload: bytes) -> None:
        self.sock.sendall(masked(opcode, payload))

    def send(self, *frames: bytes) -> None:
        """Sends text messages in one segment."""
        self.sock.sendall(b"".join(masked(TEXT, frame) for frame in frames))

    def send_json(self, *messages: object) -> None:
        self.send(*(json.dumps(message).encode() for message in messages))

    def rest(self) -> tuple[list[bytes], Closed]:
        """Everything until the close."""
        frames = []
        try:
            while True:
                frames.append(self.receive())
        except Closed as closed:
            return frames, closed

    def close(self, code: int = 1000) -> Closed:
        """A clean close, waited for."""
        self.send_frame(CLOSE, struct.pack("!H", code))
        return self.rest()[1]

    def reset(self) -> None:
        """A TCP reset instead of a close."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


def request_head(
    path: str = "/acp/ws", headers: tuple[tuple[str, str], ...] = (), host: str = "localhost"
) -> bytes:
    """The opening handshake as bytes."""
    key = base64.b64encode(os.urandom(16)).decode()
    lines = [
        f"GET {path} HTTP/1.1",
        f"Host: {host}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {key}",
        *(f"{name}: {value}" for name, value in headers),
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def read_head(sock: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """A response's status, headers (names in lower case) and what followed them."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = sock.recv(65536)
        if not piece:
            raise Closed(1006, "end of stream in the response")
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return int(first.split()[1]), headers, rest


@contextlib.contextmanager
def connect(
    port: int,
    path: str = "/acp/ws",
    *,
    headers: tuple[tuple[str, str], ...] = (),
    first: bytes = b"",
    receive_buffer: int | None = None,
) -> Iterator[RawClient]:
    """Connects; `first` is sent in the same segment as the handshake."""
    with socket.socket() as sock:
        sock.settimeout(TIMEOUT)
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.connect(("127.0.0.1", port))
        sock.sendall(request_head(path, headers) + first)
        status, _, rest = read_head(sock)
        assert status == 101, status
        client = RawClient(sock)
        client.buffer = rest
        yield client


def wait_until(condition: Any, within: float = 10.0) -> None:
    """A bounded poll for what has no event."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"not within {within} s"
        time.sleep(0.01)
