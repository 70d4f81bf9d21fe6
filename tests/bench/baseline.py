"""The baseline: the shortest relay that one would write with websockets, a `send` a line. Not for use."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE

import uvloop
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

LIMIT = 64 * 1024 * 1024


async def relay(socket: ServerConnection) -> None:
    agent = await asyncio.create_subprocess_exec(*sys.argv[2:], stdin=PIPE, stdout=PIPE, limit=LIMIT)
    assert agent.stdin is not None
    assert agent.stdout is not None
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_to_client(agent.stdout, socket))
        try:
            async for message in socket:
                agent.stdin.write(message.encode() + b"\n" if isinstance(message, str) else message)
                await agent.stdin.drain()
        except ConnectionClosed:
            pass
        agent.stdin.close()


async def _to_client(lines: asyncio.StreamReader, socket: ServerConnection) -> None:
    try:
        async for line in lines:
            await socket.send(line[:-1], text=True)
    except ConnectionClosed:
        pass


async def main() -> None:
    async with serve(relay, "127.0.0.1", int(sys.argv[1]), compression=None, max_size=LIMIT) as server:
        await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
