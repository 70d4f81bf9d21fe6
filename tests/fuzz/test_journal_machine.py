"""Any interleaving of sends, acks, cuts, stalls and resumes: each end gets exactly what the other sent.

The network of this model is as bad as a real one: it loses everything that is on its way when it is cut, the
server does not notice a cut, and the hello of a try that was given up may arrive after the next one's.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

from acpremote.core.journal import Inbox, Journal, Message, Outbox
from acpremote.ending import Ending, EndingKind
from acpremote.errors import RemoteProtocolError

WINDOW = 4096
MAX_SIZE = 8192
DONE = Ending(EndingKind.DONE, "said everything")
TURN = 2048


@dataclass(eq=False)
class Wire:
    """One socket: what is on its way to each end, by name of the end."""

    hello: tuple[int, int]
    welcome: int | None = None
    to: dict[str, deque[Message]] = field(default_factory=lambda: {"client": deque(), "server": deque()})
    is_cut: bool = False


class End:
    """One end of the link, and what a test knows of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.journal = Journal(
            Inbox(window=WINDOW, max_size=MAX_SIZE), Outbox(window=WINDOW, max_size=MAX_SIZE)
        )
        self.wire: Wire | None = None
        self.sent: list[bytes] = []
        self.got: list[bytes] = []
        self.has_ended = False

    @property
    def peer(self) -> str:
        return "client" if self.name == "server" else "server"

    def send(self, sizes: list[int]) -> None:
        frames = [b"%d:" % (len(self.sent) + index) + b"x" * size for index, size in enumerate(sizes)]
        self.sent += frames
        self.journal.outbox.queue(frames)

    def end(self) -> None:
        self.has_ended = True
        self.journal.outbox.end(DONE)

    def flush(self, *, timer: bool = False) -> None:
        if self.wire is not None:
            messages = self.journal.pending(TURN, ack_now=timer)
            if not self.wire.is_cut:
                self.wire.to[self.peer] += messages

    def deliver(self, count: int) -> None:
        if self.wire is not None:
            waiting = self.wire.to[self.name]
            self.journal.arrived([waiting.popleft() for _ in range(min(count, len(waiting)))])

    def take(self) -> None:
        self.got += self.journal.inbox.take()


class LinkMachine(RuleBasedStateMachine):
    """The client dials, the server admits; everything else happens at any time."""

    wires = Bundle("wires")

    def __init__(self) -> None:
        super().__init__()
        self.client, self.server = End("client"), End("server")
        wire = Wire(hello=(0, 0), welcome=0)
        self.client.wire = self.server.wire = wire
        self.dialled = wire

    ends = st.sampled_from(["client", "server"])

    def at(self, name: str) -> End:
        return self.client if name == "client" else self.server

    @rule(name=ends, sizes=st.lists(st.integers(0, 300) | st.sampled_from([1500, 5000]), max_size=20))
    def send(self, name: str, sizes: list[int]) -> None:
        if sizes and not self.at(name).has_ended:
            self.at(name).send(sizes)

    @rule(name=ends)
    def end(self, name: str) -> None:
        if not self.at(name).has_ended and len(self.at(name).sent) > 10:
            self.at(name).end()

    @rule(name=ends, timer=st.booleans())
    def flush(self, name: str, timer: bool) -> None:
        self.at(name).flush(timer=timer)

    @rule(name=ends, count=st.integers(1, 5))
    def deliver(self, name: str, count: int) -> None:
        self.at(name).deliver(count)

    @rule(name=ends)
    def take(self, name: str) -> None:
        self.at(name).take()

    @rule(name=ends, sizes=st.lists(st.integers(0, 300), min_size=1, max_size=5), taken=st.booleans())
    def send_and_let_arrive(self, name: str, sizes: list[int], taken: bool) -> None:
        """The usual case; of single steps alone it would be rare."""
        end, peer = self.at(name), self.at(self.at(name).peer)
        if not end.has_ended:
            end.send(sizes)
        end.flush()
        peer.deliver(1000)
        if taken:
            peer.take()

    @rule()
    def cut(self) -> None:
        self.dialled.is_cut = True
        for waiting in self.dialled.to.values():
            waiting.clear()

    @rule(target=wires)
    def dial(self) -> Wire:
        self.client.wire = None
        self.dialled = Wire(hello=self.client.journal.redial())
        return self.dialled

    @rule(wire=wires)
    def admit(self, wire: Wire) -> None:
        """Any hello that was ever sent, again and in any order."""
        try:
            welcome = self.server.journal.readmit(*wire.hello)
        except RemoteProtocolError:
            return
        wire.welcome = welcome
        self.server.wire = wire

    @precondition(lambda self: self.client.wire is None)
    @rule()
    def welcome(self) -> None:
        wire = self.dialled
        if wire.welcome is not None and not wire.is_cut:
            self.client.wire = wire
            self.client.journal.resume(wire.welcome)

    @rule(received=st.integers(0, 2**53 - 1))
    def an_absurd_hello_changes_nothing(self, received: int) -> None:
        outbox = self.server.journal.outbox
        if not outbox.acknowledged <= received <= outbox.sent:
            with pytest.raises(RemoteProtocolError):
                self.server.journal.readmit(received, 10**6)

    @invariant()
    def nothing_is_lost_repeated_or_out_of_order(self) -> None:
        for end in (self.client, self.server):
            assert end.got == self.at(end.peer).sent[: len(end.got)]

    @invariant()
    def memory_is_bounded(self) -> None:
        for end in (self.client, self.server):
            inbox = end.journal.inbox
            size = sum(len(data) for data in inbox._unread)
            assert size == inbox._unread_size
            assert size <= WINDOW or len(inbox._unread) == 1
            outbox = end.journal.outbox
            flight = sum(batch.size for batch in outbox._sent)
            assert flight == outbox._in_flight
            assert flight <= WINDOW or len(outbox._sent) == 1
            assert outbox.size == flight + sum(batch.size for batch in outbox._waiting)

    def talk(self) -> None:
        """Lets everything that can arrive do so."""
        for _ in range(10 * (2 + len(self.client.sent) + len(self.server.sent))):
            for end in (self.client, self.server):
                end.flush(timer=True)
                end.deliver(1000)
                end.take()
            if all(end.journal.outbox.is_delivered for end in (self.client, self.server)):
                break

    def teardown(self) -> None:
        """After all of that, one connection that holds is enough; then one end says goodbye."""
        self.admit(self.dial())
        self.welcome()
        self.talk()
        if not (self.client.has_ended or self.server.has_ended):
            for end in (self.client, self.server):
                assert end.got == self.at(end.peer).sent
                assert end.journal.outbox.size == 0
            self.client.end()
            self.talk()
        for end in (self.client, self.server):
            # When both said goodbye at once, neither waits for what the other still had to say.
            if self.at(end.peer).has_ended and not end.has_ended:
                assert end.got == self.at(end.peer).sent
                assert end.journal.inbox.ending == DONE
            assert end.journal.outbox.is_delivered


LinkMachine.TestCase.settings = settings(
    max_examples=150,
    stateful_step_count=60,
    deadline=None,
    phases=[Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
TestAnyInterleaving = LinkMachine.TestCase
