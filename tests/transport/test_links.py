"""Who may have a link back: its rightful client, and nobody who only tries."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from acpremote.core import control
from acpremote.core.control import Ack, Hello
from acpremote.ending import Ending, EndingKind
from acpremote.errors import ChannelClosed
from acpremote.options import ServerOptions

from .linking import OPTIONS, Far, Raw, World, raw_client, world

pytestmark = pytest.mark.anyio

NEW = Hello(window=1 << 20, max_size=1 << 20)
NOTE = b'{"jsonrpc":"2.0","method":"u"}'
ASK = b'{"jsonrpc":"2.0","id":1,"method":"session/prompt"}'
DONE = Ending(EndingKind.DONE, "done")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def linked(w: World, frame: bytes = NOTE) -> AsyncIterator[tuple[Raw, control.Welcome]]:
    """A hand-made client whose link has carried one frame, taken and acknowledged."""
    number = len(w.agents)
    async with raw_client(w.proxy.url) as raw:
        welcome = await raw.greet(NEW)
        raw.write(True, frame)
        assert await (await w.agent(number)).receive() == [frame]
        assert await raw.hear_control() == Ack(n=1)
        yield raw, welcome


def resume(welcome: control.Welcome, **changes: object) -> Hello:
    fields = {"link": welcome.link, "secret": welcome.secret, "received": 0, "attempt": 1, **changes}
    return Hello(window=1 << 20, max_size=1 << 20, **fields)  # type: ignore[arg-type]


async def check_undisturbed(w: World, raw: Raw, number: int = 0) -> None:
    """The rightful client goes on over its old socket, in both directions."""
    raw.write(True, b'{"jsonrpc":"2.0","method":"still"}')
    assert await w.agents[number].receive() == [b'{"jsonrpc":"2.0","method":"still"}']
    await w.agents[number].send([NOTE])
    while (heard := await raw.hear()) != (True, NOTE):
        assert control.parse(heard[1]) == Ack(n=2)


async def refusal(w: World, hello: Hello) -> tuple[control.Control | None, Ending]:
    async with raw_client(w.proxy.url) as other:
        other.say(hello)
        return await other.hear_control(), await other.hear_ending()


Change = Callable[[control.Welcome, control.Welcome], Hello]


@pytest.mark.parametrize(
    "forged",
    [
        lambda mine, other: resume(mine, secret="guessed"),
        lambda mine, other: resume(mine, secret=None),
        lambda mine, other: resume(mine, secret="\u00e9" * 40),
        lambda mine, other: resume(mine, secret=other.secret),
        lambda mine, other: resume(mine, link=other.link),
        lambda mine, other: resume(mine, link="unknown"),
        lambda mine, other: resume(mine, received=1),  # nothing was ever sent to it
        lambda mine, other: resume(mine, received=2**53 - 1),
        lambda mine, other: resume(mine, attempt=0),
    ],
    ids=["guessed", "none", "not-ascii", "others", "others-link", "unknown", "ahead", "absurd", "late"],
)
async def test_a_forged_hello_is_refused_and_the_rightful_client_undisturbed(forged: Change) -> None:
    async with world() as w, linked(w) as (raw, mine), linked(w) as (_, other):
        said, ending = await refusal(w, forged(mine, other))
        assert said == control.Refused(reason="no such link")
        assert (ending.kind, ending.reason) == (EndingKind.NO_SUCH_LINK, "no such link")
        await check_undisturbed(w, raw)


async def test_a_replayed_hello_is_refused_and_the_rightful_client_undisturbed() -> None:
    async with world() as w:
        async with linked(w) as (first, welcome):
            first.socket.abort()
        hello = resume(welcome)
        async with raw_client(w.proxy.url) as raw:
            assert (await raw.greet(hello)).received == 1
            for _ in range(2):
                said, ending = await refusal(w, hello)
                assert isinstance(said, control.Refused)
                assert ending.kind is EndingKind.NO_SUCH_LINK
            await check_undisturbed(w, raw)


async def test_a_resume_replaces_the_old_socket_and_is_final_for_whoever_held_it() -> None:
    async with world() as w, linked(w) as (old, welcome), raw_client(w.proxy.url) as new:
        again = await new.greet(resume(welcome))
        assert (again.link, again.secret, again.received) == (welcome.link, None, 1)
        assert (await old.hear_ending()).kind is EndingKind.REPLACED
        await check_undisturbed(w, new)


async def test_our_client_that_was_replaced_does_not_take_the_link_back() -> None:
    async with world() as w, w.client() as remote:
        channel = remote.channel
        await channel.send([NOTE])
        await w.agent()
        await w.wait(lambda: channel.journal.outbox.is_delivered)  # type: ignore[attr-defined]
        link = w.links[0]
        async with raw_client(w.proxy.url) as thief:
            hello = Hello(window=4096, max_size=4096, link=link.id, secret=link.secret, attempt=99)
            await thief.greet(hello)
            with anyio.fail_after(5), pytest.raises(ChannelClosed) as caught:
                await channel.receive()
            assert caught.value.ending.kind is EndingKind.REPLACED
            assert w.proxy.accepted == 2


@pytest.mark.parametrize(
    "first",
    [
        (True, NOTE),
        (False, b'{"type":"ack","n":0}'),
        (False, b"junk"),
        (False, b'{"type":"hello","window":-1,"max_size":4096}'),
    ],
)
async def test_whoever_does_not_say_hello_is_shown_out(first: tuple[bool, bytes]) -> None:
    async with world() as w, raw_client(w.proxy.url) as raw:
        raw.write(False, b'{"type":"of-a-later-version"}')
        raw.write(*first)
        assert (await raw.hear_ending()).kind is EndingKind.PROTOCOL
        assert not w.links
        assert not w.agents


async def test_whoever_says_nothing_is_shown_out_in_time() -> None:
    async with world(dataclasses.replace(OPTIONS, open_timeout=0.3)) as w, raw_client(w.proxy.url) as raw:
        assert (await raw.hear_ending()).kind is EndingKind.PROTOCOL
        await w.wait(lambda: w.server.doorkeeper.arriving == 0)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ((False, b'{"type":"ack","n":5}'), EndingKind.PROTOCOL),
        ((False, b"junk"), EndingKind.PROTOCOL),
        ((False, control.encode(NEW)), EndingKind.PROTOCOL),
        ((True, b'"' + b"x" * (1 << 20) + b'"'), EndingKind.TOO_BIG),
        ((True, b"\xff"), EndingKind.NOT_UTF8),
    ],
    ids=["ack", "junk", "hello", "big", "utf8"],
)
async def test_a_broken_rule_ends_the_link_at_once(message: tuple[bool, bytes], kind: EndingKind) -> None:
    async with world(dataclasses.replace(OPTIONS, max_size=1 << 20)) as w, linked(w) as (raw, welcome):
        raw.write(*message)
        assert (await raw.hear_ending()).kind is kind
        await w.wait(lambda: not w.server.link_count)
        with pytest.raises(ChannelClosed):
            await w.agents[0].receive()
        said, _ = await refusal(w, resume(welcome))
        assert isinstance(said, control.Refused)


async def test_unknown_control_messages_are_ignored() -> None:
    async with world() as w, linked(w) as (raw, _):
        raw.write(False, b'{"type":"of-a-later-version","n":-1}')
        await check_undisturbed(w, raw)


@pytest.mark.parametrize("offered", [["acp.v1"], [], ["other"]])
async def test_a_stock_client_gets_one_frame_a_message_and_no_control(offered: list[str]) -> None:
    names = [Subprotocol(name) for name in offered] or None
    async with world() as w, connect(w.proxy.url, subprotocols=names) as stock:
        assert stock.response is not None
        assert "Acpremote-Link" not in stock.response.headers
        await stock.send(ASK.decode())
        agent = await w.agent()
        assert await agent.receive() == [ASK]
        await agent.send([NOTE, NOTE, b'{"jsonrpc":"2.0","id":1,"result":null}'])
        assert [await stock.recv() for _ in range(2)] == [NOTE.decode()] * 2


async def test_a_link_that_never_carried_a_frame_has_no_grace() -> None:
    async with world() as w:
        async with raw_client(w.proxy.url) as raw:
            await raw.greet(NEW)
            assert w.server.link_count == 1
            raw.socket.abort()
        await w.wait(lambda: w.server.link_count == 0)


async def test_the_agent_is_gone_after_the_grace() -> None:
    async with world(dataclasses.replace(OPTIONS, grace=0.4)) as w:
        async with linked(w) as (raw, welcome):
            assert welcome.grace == 0.4
            raw.socket.abort()
        await w.wait(lambda: w.links[0].detached_at is not None)
        with pytest.raises(ChannelClosed) as caught, anyio.fail_after(5):
            await w.agents[0].receive()
        assert caught.value.ending == Ending(EndingKind.LOST, "the client did not come back within 0.4 s")
        await w.wait(lambda: not w.links)


async def test_the_agent_is_gone_at_once_when_the_client_says_goodbye() -> None:
    async with world() as w, linked(w) as (raw, _):
        raw.say(control.End(kind="internal", reason="the editor was closed"))
        with pytest.raises(ChannelClosed) as caught:
            await w.agents[0].receive()
        assert caught.value.ending == Ending(EndingKind.CLIENT_LEFT, "the editor was closed")
        assert await raw.hear_control() == Ack(n=2)


async def test_without_grace_a_cut_is_the_end() -> None:
    async with world(dataclasses.replace(OPTIONS, grace=0)) as w, w.client() as remote:
        await remote.channel.send([NOTE])
        agent = await w.agent()
        assert await agent.receive() == [NOTE]
        w.proxy.cut()
        for channel in (agent, remote.channel):
            with anyio.fail_after(5), pytest.raises(ChannelClosed) as caught:
                await channel.receive()
            assert caught.value.ending.kind is EndingKind.LOST
        assert w.proxy.accepted == 1


async def test_a_client_that_takes_nothing_is_ended_by_name() -> None:
    options = dataclasses.replace(OPTIONS, window=65536, stall_timeout=0.5)
    async with world(options) as w, linked(w) as (raw, _):
        agent = Far(w.agents[0])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.collect)
            with contextlib.suppress(ChannelClosed), anyio.fail_after(10):
                while True:
                    await agent.send(b'{"method":"u","x":"%b"}' % (b"x" * 60_000))
            assert (await agent.wait_ended()).kind is EndingKind.STALLED
        assert (await raw.hear())[0]
        assert (await raw.hear_ending()).reason == "the other end took nothing for 0.5 s"


async def test_a_client_that_is_away_does_not_stall() -> None:
    options = dataclasses.replace(OPTIONS, window=65536, stall_timeout=0.2)
    async with world(options) as w:
        async with linked(w) as (raw, welcome):
            raw.socket.abort()
        await w.wait(lambda: not w.links[0].is_attached)
        agent = Far(w.agents[0])
        big = b'{"method":"u","x":"%b"}' % (b"x" * 60_000)
        with anyio.move_on_after(1):
            for _ in range(100):
                await agent.send(big)
        async with raw_client(w.proxy.url) as back:
            await back.greet(resume(welcome))
            assert await back.hear() == (True, big)


FULL = ServerOptions(max_connections=1)


async def check_no_room(w: World) -> None:
    with pytest.raises(InvalidStatus) as caught:
        await connect(w.proxy.url)
    assert caught.value.response.status_code == 503


async def test_a_link_with_an_open_request_keeps_its_place_while_its_client_is_away() -> None:
    async with world(server_options=FULL) as w:
        async with linked(w, ASK) as (raw, welcome):
            await check_no_room(w)
            raw.socket.abort()
        await w.wait(lambda: not w.links[0].is_attached)
        await check_no_room(w)
        async with raw_client(w.proxy.url) as newcomer:  # might be its client coming back: let in, and told
            newcomer.say(NEW)
            assert "--max-connections" in (await newcomer.hear_ending()).reason
        async with raw_client(w.proxy.url) as back:
            await back.greet(resume(welcome))
            await check_undisturbed(w, back)


async def test_an_open_question_of_the_agent_keeps_the_place_too() -> None:
    async with world(server_options=FULL) as w:
        async with linked(w) as (raw, _):
            await w.agents[0].send([b'{"jsonrpc":"2.0","id":"p","method":"session/request_permission"}'])
            await raw.hear()
            raw.socket.abort()
        await w.wait(lambda: not w.links[0].is_attached)
        await check_no_room(w)


@pytest.mark.parametrize("newcomer", ["plain", "link"])
async def test_an_idle_link_gives_its_place_to_a_newcomer(newcomer: str) -> None:
    async with world(server_options=FULL) as w:
        async with linked(w) as (raw, welcome):
            raw.socket.abort()
        await w.wait(lambda: not w.links[0].is_attached)
        async with raw_client(w.proxy.url, ["acp.v1"] if newcomer == "plain" else OFFER) as other:
            if newcomer == "link":
                await other.greet(NEW)
            other.write(True, NOTE)
            assert await (await w.agent(1)).receive() == [NOTE]
            with pytest.raises(ChannelClosed) as caught:
                await w.agents[0].receive()
            assert "newcomer" in caught.value.ending.reason
            assert w.server.link_count == 1
            said, _ = await refusal(w, resume(welcome)) if newcomer == "link" else (control.Refused(), None)
            assert isinstance(said, control.Refused)


OFFER = ("acp.v1", "acpremote.link.v1")


async def test_a_client_whose_dead_socket_still_counts_may_come_back() -> None:
    async with (
        world(server_options=FULL) as w,
        linked(w, ASK) as (_, welcome),
        raw_client(w.proxy.url) as back,
    ):
        await back.greet(resume(welcome))
        await check_undisturbed(w, back)


async def test_a_shutdown_ends_every_link_attached_or_not() -> None:
    async with world() as w, linked(w, ASK) as (raw, _), linked(w, ASK) as (other, _):
        other.socket.abort()
        await w.wait(lambda: not w.links[1].is_attached)
        with anyio.fail_after(8):
            await w.server.aclose()
        is_text, said = await raw.hear()
        assert is_text
        assert json.loads(said)["error"]["data"]["ending"] == "shutdown"
        end = await raw.hear_control()
        assert isinstance(end, control.End)
        assert end.kind == "shutdown"
        for agent in w.agents:
            with pytest.raises(ChannelClosed) as caught:
                await agent.receive()
            assert caught.value.ending.kind is EndingKind.SHUTDOWN


async def test_journals_together_are_bounded_and_senders_wait() -> None:
    options = dataclasses.replace(OPTIONS, window=4 << 20)
    async with world(options) as w:
        budget = w.server._registry._budget
        budget.limit = 1 << 20
        async with linked(w) as (raw, _), linked(w) as (other, _):
            raw.socket.abort()
            await w.wait(lambda: not w.links[0].is_attached)
            sent = [0, 0]

            async def flood(number: int) -> None:
                for _ in range(200):
                    await w.agents[number].send([b'{"method":"u","x":"%b"}' % (b"x" * 50_000)])
                    sent[number] += 1

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(flood, 0)
                await w.wait(lambda: budget.is_spent)
                tasks.start_soon(flood, 1)
                got = 0
                while got < 200:  # the one that is there goes on, however little the other leaves it
                    got += (await other.hear())[1].count(b"\n") + 1
                    other.say(Ack(n=got))
                assert budget.used < (4 << 20)
                assert sent[0] < 100
                tasks.cancel_scope.cancel()
        await w.server.aclose()
        assert budget.used == 0
