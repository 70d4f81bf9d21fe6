"""A cut connection is invisible to both sides: nothing is lost, repeated or out of order."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from acpremote.ending import Ending, EndingKind
from acpremote.errors import ChannelClosed
from acpremote.transport.redial import Remote

from .cutting import Fate
from .linking import OPTIONS, Far, World, world

pytestmark = pytest.mark.anyio

DONE = Ending(EndingKind.DONE, "done")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def update(number: int, size: int = 0) -> bytes:
    return b'{"jsonrpc":"2.0","method":"u","params":{"n":%d,"x":"%b"}}' % (number, b"x" * size)


def updates(first: int, last: int, size: int = 0) -> list[bytes]:
    return [update(number, size) for number in range(first, last + 1)]


@dataclasses.dataclass
class Pair:
    """One link in use: its client, its agent, and everything each has received."""

    world: World
    remote: Remote
    client: Far
    agent: Far


@asynccontextmanager
async def pair(w: World) -> AsyncIterator[Pair]:
    """A link over which one frame has gone each way."""
    async with w.client() as remote, anyio.create_task_group() as tasks:
        client = Far(remote.channel)
        tasks.start_soon(client.collect)
        await client.send(update(0))
        agent = Far(await w.agent(len(w.agents)))
        tasks.start_soon(agent.collect)
        await agent.wait_for(1)
        await agent.send(update(0))
        await client.wait_for(1)
        yield Pair(w, remote, client, agent)
        await remote.channel.aclose(DONE)
        await agent.wait_ended()
        tasks.cancel_scope.cancel()


async def check(p: Pair, last: int, size: int = 0) -> None:
    """Both ends got exactly the updates up to `last`."""
    assert await p.client.wait_for(last + 1) == updates(0, 0) + updates(1, last, size)
    assert await p.agent.wait_for(last + 1) == updates(0, 0) + updates(1, last, size)


async def test_what_is_sent_during_a_cut_arrives_after_it() -> None:
    async with world() as w, pair(w) as p:
        w.proxy.refuses = True
        w.proxy.cut()
        for number in range(1, 500):
            await p.client.send(update(number))
            await p.agent.send(update(number))
        w.proxy.refuses = False
        await check(p, 499)
        assert len(w.agents) == 1


async def test_a_half_open_connection_is_left_for_a_new_one() -> None:
    options = dataclasses.replace(OPTIONS, ping_interval=0.2, ping_timeout=0.2)
    async with world(options) as w, pair(w) as p:
        w.proxy.stall()
        for number in range(1, 100):
            await p.client.send(update(number))
            await p.agent.send(update(number))
        await check(p, 99)
        assert w.proxy.accepted >= 2


@pytest.mark.parametrize("seed", range(6))
async def test_random_cuts_lose_and_repeat_nothing(seed: int) -> None:
    """Bytes until the cut are dealt out at random, in both directions: inside the handshake's answer,
    inside a hello or welcome, between frames, inside one."""
    dice = random.Random(seed)
    async with world() as w, pair(w) as p:
        for _ in range(30):
            up, down = (dice.choice([None, dice.randrange(1, 300), dice.randrange(1, 60_000)]) for _ in "ab")
            w.proxy.fates.append(Fate(up, down))
        w.proxy.cut()

        async def send(far: Far) -> None:
            number = 1
            while number <= 3000:
                count = min(dice.choice([1, 1, 7, 300]), 3001 - number)
                await far.send(*updates(number, number + count - 1, 50))
                number += count
                await anyio.sleep(0)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send, p.client)
            tasks.start_soon(send, p.agent)
        await check(p, 3000, 50)


@pytest.mark.parametrize("end", ["client", "agent"])
async def test_a_cut_in_the_middle_of_a_large_frame(end: str) -> None:
    async with world() as w, pair(w) as p:
        w.proxy.fates += [Fate(up=2_000_000), Fate(down=3_000_000)]
        w.proxy.cut()
        sender, receiver = (p.client, p.agent) if end == "client" else (p.agent, p.client)
        await sender.send(update(1, 10_000_000), update(2))
        assert await receiver.wait_for(3) == [update(0), update(1, 10_000_000), update(2)]


@pytest.mark.parametrize(
    "fates",
    [
        [Fate(up=20)],  # in the middle of the hello
        [Fate(up=20), Fate(up=1), Fate(up=100)],
        [Fate(down=1)],  # between the welcome and its arrival
        [Fate(down=1), Fate(down=40), Fate(down=2)],  # again and again within one resume
        [Fate(down=40), Fate(up=20), Fate(down=1), Fate(up=300, down=300)],
    ],
)
async def test_a_cut_in_the_middle_of_a_resume(fates: list[Fate]) -> None:
    async with world() as w, pair(w) as p:
        w.proxy.fates += fates
        w.proxy.cut()
        await p.client.send(*updates(1, 50))
        await p.agent.send(*updates(1, 50))
        await check(p, 50)
        assert w.proxy.accepted >= 2 + len(fates)


async def test_a_cut_while_the_journal_is_full() -> None:
    options = dataclasses.replace(OPTIONS, window=65536)
    async with world(options) as w, pair(w) as p:
        w.proxy.refuses = True
        w.proxy.cut()
        await w.wait(lambda: not w.links[0].is_attached)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(p.agent.send, *updates(1, 3000, 1000))
            tasks.start_soon(p.client.send, *updates(1, 3000, 1000))
            await w.wait(lambda: w.links[0].journal.outbox.size > 65536)
            w.proxy.refuses = False
        await check(p, 3000, 1000)


async def test_a_sender_waits_while_the_window_is_used_up_and_memory_stays_bounded() -> None:
    options = dataclasses.replace(OPTIONS, window=65536)
    async with world(options) as w, w.client() as remote, anyio.create_task_group() as tasks:
        await remote.channel.send([update(0)])
        agent = Far(await w.agent())
        sent = 0

        async def flood() -> None:
            nonlocal sent
            for number in range(1, 5000):
                await agent.send(update(number, 1000))
                sent += 1

        tasks.start_soon(flood)  # the client takes nothing
        await w.wait(lambda: w.links[0].journal.outbox.size > 65536)
        level = sent
        await anyio.sleep(0.3)
        outbox = w.links[0].journal.outbox
        assert outbox.size < 65536 + 1024 * 1024 + 2000  # the window, and one batch of the agent's channel
        assert sent - level < 1200
        client = Far(remote.channel)
        tasks.start_soon(client.collect)
        assert await client.wait_for(4999) == updates(1, 4999, 1000)
        tasks.cancel_scope.cancel()


async def test_both_ends_may_be_full_at_once() -> None:
    options = dataclasses.replace(OPTIONS, window=65536)
    async with world(options) as w, pair(w) as p, anyio.create_task_group() as tasks:
        tasks.start_soon(p.agent.send, *updates(1, 5000, 1000))
        tasks.start_soon(p.client.send, *updates(1, 5000, 1000))
        await check(p, 5000, 1000)


async def test_a_question_that_was_open_is_still_open_after_the_cut() -> None:
    question = b'{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{}}'
    answer = b'{"jsonrpc":"2.0","id":7,"result":{"outcome":"selected"}}'
    async with world() as w, pair(w) as p:
        await p.agent.send(question)
        assert (await p.client.wait_for(2))[1] == question
        w.proxy.cut()
        await w.wait(lambda: w.proxy.accepted == 2 and w.links[0].is_attached)
        await p.client.send(answer)
        assert (await p.agent.wait_for(2))[1] == answer


async def test_the_agents_last_words_and_its_end_arrive_after_the_cut() -> None:
    request = b'{"jsonrpc":"2.0","id":1,"method":"session/prompt"}'
    failed = Ending(EndingKind.AGENT_FAILED, "exit status 3", 3)
    async with world() as w, w.client() as remote, anyio.create_task_group() as tasks:
        client = Far(remote.channel)
        tasks.start_soon(client.collect)
        await client.send(request)
        agent = Far(await w.agent())
        assert await agent.channel.receive() == [request]
        w.proxy.refuses = True
        w.proxy.cut()
        await w.wait(lambda: not w.links[0].is_attached)
        await agent.send(update(1))
        await agent.channel.aclose(failed)
        await w.wait(lambda: w.links[0]._is_leaving)
        w.proxy.refuses = False
        assert await client.wait_ended() == failed
        assert client.got[0] == update(1)
        assert json.loads(client.got[1])["error"]["data"] == {"ending": "agent_failed", "status": 3}
        await w.wait(lambda: not w.links)  # the server learnt that the end arrived


async def test_a_client_that_has_left_is_told_so_although_the_connection_was_cut_then() -> None:
    """The server has taken the goodbye, its ack is lost: coming back for it finds the link still there."""
    async with world() as w, w.client() as remote:
        await remote.channel.send([update(0)])
        agent = Far(await w.agent())
        assert await agent.channel.receive() == [update(0)]
        await w.wait(lambda: remote.channel.journal.outbox.is_delivered)  # type: ignore[attr-defined]
        w.proxy.fates.append(Fate(down=0))
        w.proxy.cut()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(remote.channel.aclose, DONE)
            with pytest.raises(ChannelClosed):
                await agent.channel.receive()
        assert remote.judge(DONE) == DONE
        assert agent.ending is None


async def test_nothing_is_left_of_a_link_that_ended_in_order() -> None:
    async with world() as w:
        async with pair(w) as p:
            secret = p
            assert secret.world.links
        await w.wait(lambda: not w.links and not w.server.link_count)
        assert w.server._registry._budget.used == 0


async def test_a_goodbye_during_a_cut_is_delivered_as_soon_as_the_server_is_back() -> None:
    async with world() as w, w.client() as remote, anyio.create_task_group() as tasks:
        await remote.channel.send([update(0)])
        agent = Far(await w.agent())
        tasks.start_soon(agent.collect)
        await agent.wait_for(1)
        w.proxy.refuses = True
        w.proxy.cut()
        await remote.channel.send([update(1)])
        tasks.start_soon(remote.channel.aclose, DONE)
        await w.wait(lambda: w.proxy.accepted >= 3)
        w.proxy.refuses = False
        assert (await agent.wait_ended()).kind is EndingKind.CLIENT_LEFT
        assert agent.got == updates(0, 1)
    assert remote.judge(DONE) == DONE


async def test_a_goodbye_that_cannot_be_delivered_is_none() -> None:
    async with world() as w, w.client() as remote:
        await remote.channel.send([update(0)])
        await w.agent()
        w.proxy.refuses = True
        w.proxy.cut()
        channel = remote.channel
        channel.goodbye_timeout = 0.3  # type: ignore[attr-defined]
        with anyio.fail_after(5):
            await channel.aclose(DONE)
    assert remote.judge(DONE).kind is EndingKind.LOST


PORTAL = b"HTTP/1.1 302 Found\r\nLocation: http://portal.example/\r\nContent-Length: 0\r\n\r\n"
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
UNAUTHORIZED = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
OTHER_SERVER = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: x\r\n\r\n"
)


async def test_what_answers_instead_of_the_server_for_a_while_is_no_reason_to_give_up() -> None:
    async with world() as w, pair(w) as p:
        w.proxy.answers += [PORTAL, b"220 welcome to the mail server\r\n", BUSY, OTHER_SERVER]
        w.proxy.cut()
        await p.client.send(update(1))
        await p.agent.send(update(1))
        await check(p, 1)
        assert w.proxy.accepted == 6


async def test_a_server_that_does_not_let_us_in_any_more_is_the_end() -> None:
    async with world() as w, w.client() as remote:
        await remote.channel.send([update(0)])
        await w.agent()
        w.proxy.answers.append(UNAUTHORIZED)
        w.proxy.cut()
        with anyio.fail_after(10), pytest.raises(ChannelClosed, match=r"gone for good.*401") as caught:
            await remote.channel.receive()
        assert caught.value.ending.kind is EndingKind.LOST


async def test_a_batch_travels_as_one_message() -> None:
    async with world() as w, w.client() as remote:
        frames = updates(1, 600)
        await remote.channel.send(frames)
        assert await (await w.agent()).receive() == frames
        before = w.proxy.up
        await remote.channel.send(frames)
        assert await w.agents[0].receive() == frames
        size = len(b"\n".join(frames))
        assert w.proxy.up - before < size + 100
