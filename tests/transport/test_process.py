"""An agent is started whole or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import uuid
from collections.abc import Iterator

import anyio
import pytest
import uvloop

from acpremote.ending import Ending, EndingKind
from acpremote.errors import AgentStartError
from acpremote.options import CommandOptions
from acpremote.transport.guardian import Guardian
from acpremote.transport.process import spawn
from tests.running import processes_with


@contextlib.contextmanager
def free_descriptors(count: int) -> Iterator[None]:
    """Leaves so many descriptors to this process."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, limit[1]))
    taken = []
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(0))
        for _ in range(count):
            os.close(taken.pop())
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)


@pytest.mark.parametrize(
    "new_loop", [uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"]
)
def test_however_few_descriptors_are_left_nothing_is_left_half_started(new_loop: type) -> None:
    marker = f"marker-{uuid.uuid4()}"
    options = CommandOptions(command=["sleep", "1000"], env={"MARKER": marker}, terminate_timeout=0)

    async def start(free: int, guardian: Guardian) -> bool:
        with free_descriptors(free):
            try:
                agent = await spawn(options, max_size=1024, stall_timeout=1, guardian=guardian)
            except AgentStartError:
                return False
        agent.abort()
        await agent.aclose(Ending(EndingKind.DONE))
        await anyio.sleep(0)  # the event loop closes its transports in its next turn
        return True

    def count(guardian: Guardian) -> int:
        return len(os.listdir("/proc/self/fd")) - (guardian._process is not None)

    async def main() -> list[bool]:
        outcomes = []
        first, guardian = Guardian(), Guardian()
        await start(100, first)  # the event loop keeps a descriptor of its own from now on
        first.close()
        for free in range(18):
            before = count(guardian)
            outcomes.append(await start(free, guardian))
            assert count(guardian) == before, free
            assert not processes_with(marker)
        guardian.close()
        return outcomes

    with asyncio.Runner(loop_factory=new_loop) as runner:
        outcomes = runner.run(main())
    assert outcomes[0] is False
    assert outcomes[-1] is True
    assert outcomes == sorted(outcomes)


class ForkFails(Guardian):
    """What happens where no further process may be started (a control group's limit)."""

    def watch(self, group: int) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_agent_without_its_guardian_is_not_left_behind() -> None:
    marker = f"marker-{uuid.uuid4()}"
    options = CommandOptions(command=["sleep", "1000"], env={"MARKER": marker})
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(
        AgentStartError, match="could not be started: sleep: Resource temporarily unavailable"
    ):
        await spawn(options, max_size=1024, stall_timeout=1, guardian=ForkFails())
    assert not processes_with(marker)
    assert len(os.listdir("/proc/self/fd")) == before
