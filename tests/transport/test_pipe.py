"""Lines over pipes whose other end does not behave."""

from __future__ import annotations

import asyncio
import os

import pytest
import uvloop

from acpremote.errors import ChannelClosed
from acpremote.transport.pipe import READ_HIGH_WATER, LineReader, LineWriter

LOOPS = pytest.mark.parametrize(
    "new_loop", [uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"]
)


def is_quiet(reader: LineReader) -> bool:
    """A function, because mypy takes a property for a constant."""
    return reader.is_quiet


def _write_all(descriptor: int, data: bytes) -> None:
    with os.fdopen(descriptor, "wb") as pipe:
        pipe.write(data)


async def _writer(descriptor: int, stall_timeout: float = 10) -> LineWriter:
    writer = LineWriter("the agent", stall_timeout)
    await asyncio.get_running_loop().connect_write_pipe(lambda: writer, os.fdopen(descriptor, "wb", 0))
    return writer


@LOOPS
def test_what_still_waits_in_the_pipe_is_not_quiet(new_loop: type) -> None:
    """Between the turns of a busy loop the reader has nothing, although the agent wrote more."""

    async def main() -> None:
        theirs, ours = os.pipe()
        reader = LineReader("the agent", 2000)
        pipe = os.fdopen(theirs, "rb", 0)
        await asyncio.get_running_loop().connect_read_pipe(lambda: reader, pipe)
        assert is_quiet(reader)
        written = 0
        os.set_blocking(ours, False)
        while True:
            try:
                written += os.write(ours, b'{"method":"%b"}\n' % (b"x" * 1000) * 16)
            except BlockingIOError:
                if reader.bytes_received > READ_HIGH_WATER / 2 and written > reader.bytes_received:
                    break
                await asyncio.sleep(0)
        await reader.receive()
        assert not is_quiet(reader)
        while reader.bytes_received < written:
            await reader.receive()
        if not is_quiet(reader):
            await reader.receive()
        assert is_quiet(reader)
        os.close(ours)
        with pytest.raises(ChannelClosed):
            await reader.receive()
        assert is_quiet(reader)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


@LOOPS
@pytest.mark.parametrize("stall_timeout", [0.05, 10], ids=["it stalls", "it closes"])
def test_the_last_words_to_a_reader_that_takes_none_end_all_the_same(
    new_loop: type, stall_timeout: float
) -> None:
    async def main() -> None:
        ours, theirs = os.pipe()
        writer = await _writer(theirs, stall_timeout)
        await writer.send([b"x" * 500_000])
        if stall_timeout > 1:
            asyncio.get_running_loop().call_later(0.05, os.close, ours)
        await writer.finish(5)
        await writer.closed.wait()
        writer.abort()
        with pytest.raises(ChannelClosed):
            await writer.send([b"{}"])
        if stall_timeout <= 1:
            os.close(ours)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


@LOOPS
def test_a_flood_without_a_frame_gives_the_loop_its_turns(new_loop: type) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        theirs, ours = os.pipe()
        reader = LineReader("the agent", 1000)
        await loop.connect_read_pipe(lambda: reader, os.fdopen(theirs, "rb", 0))
        wrote = loop.run_in_executor(None, _write_all, ours, b"\n" * 8_000_000)
        seen, most = 0, 0
        while reader.ending is None:
            await asyncio.sleep(0)
            most, seen = max(most, reader.bytes_received - seen), reader.bytes_received
        await wrote
        assert seen == 8_000_000
        assert most <= 2 * 256_000

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())
