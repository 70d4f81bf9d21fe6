"""The journal loses nothing, repeats nothing, keeps the order and its bounds."""

from __future__ import annotations

import pytest

from acpremote.core import control
from acpremote.core.journal import ACK_FRAMES, BATCH_BYTES, Inbox, Journal, Message, Outbox
from acpremote.ending import Ending, EndingKind
from acpremote.errors import RemoteProtocolError

WINDOW = 64 * 1024
BIG = 1024 * 1024
DONE = Ending(EndingKind.DONE, "all said")
FAILED = Ending(EndingKind.AGENT_FAILED, "the agent exited with status 3", 3)


def outbox(window: int = 16 * BIG, max_size: int = 64 * BIG) -> Outbox:
    return Outbox(window=window, max_size=max_size)


def inbox(window: int = 16 * BIG, max_size: int = 64 * BIG) -> Inbox:
    return Inbox(window=window, max_size=max_size)


def numbered(first: int, last: int) -> list[bytes]:
    return [b'{"n":%d}' % number for number in range(first, last + 1)]


def frames(messages: list[Message]) -> list[bytes]:
    return [frame for message in messages if message.is_text for frame in message.data.split(b"\n")]


def ack(number: int) -> tuple[bool, bytes]:
    return False, control.encode(control.Ack(n=number))


def test_one_batch_is_one_message() -> None:
    box = outbox()
    box.queue(numbered(1, 600))
    assert box.take(BIG) == [Message(True, b"\n".join(numbered(1, 600)))]
    assert box.take(BIG) == []


def test_what_waits_for_credit_is_told() -> None:
    box = outbox(window=100)
    box.queue([b"x" * 60])
    box.queue([b"y" * 60])
    assert box.is_waiting
    assert box.take(BIG) == [Message(True, b"x" * 60)]
    assert box.is_waiting
    box.acknowledge(1)
    assert box.take(BIG) == [Message(True, b"y" * 60)]
    assert not box.is_waiting


def test_frames_behind_a_batch_that_is_full_follow_in_the_next() -> None:
    big = b'"%b"' % (b"x" * BATCH_BYTES)
    box = outbox()
    box.queue([b"1", big])
    assert frames(box.take(BIG)) == [b"1", big]


def test_a_batch_stops_at_its_limit_and_a_larger_frame_travels_alone() -> None:
    big = b'"%b"' % (b"x" * BATCH_BYTES)
    box = outbox()
    box.queue([*numbered(1, 3), big, *numbered(5, 50_000)])
    messages = box.take(64 * BIG)
    assert frames(messages) == [*numbered(1, 3), big, *numbered(5, 50_000)]
    assert [len(message.data) for message in messages if len(message.data) > BATCH_BYTES] == [len(big)]
    assert len(messages) == 2 + -(-len(b"\n".join(numbered(5, 50_000))) // BATCH_BYTES)


def test_no_batch_is_larger_than_the_peer_accepts() -> None:
    box = outbox(max_size=1024)
    box.queue(numbered(1, 1000))
    assert max(len(message.data) for message in box.take(BIG)) <= 1024


def test_small_batches_that_wait_are_joined() -> None:
    box = outbox()
    for number in range(1, 1001):
        box.queue(numbered(number, number))
    messages = box.take(BIG)
    assert len(messages) < 5
    assert frames(messages) == numbered(1, 1000)


def test_credit_bounds_what_is_in_flight_and_an_ack_gives_more() -> None:
    box = outbox(window=WINDOW)
    box.queue(numbered(1, 20_000))
    first = box.take(64 * BIG)
    assert sum(len(message.data) + 1 for message in first) <= WINDOW
    assert box.take(BIG) == []
    box.acknowledge(box.sent)
    assert frames(box.take(BIG))[0] == numbered(len(frames(first)) + 1, len(frames(first)) + 1)[0]


def test_a_frame_larger_than_the_window_goes_alone() -> None:
    large = b"x" * (2 * WINDOW)
    box = outbox(window=WINDOW)
    box.queue([b"{}", large, b"[]"])
    assert frames(box.take(BIG)) == [b"{}"]
    box.acknowledge(1)
    assert frames(box.take(BIG)) == [large]
    assert box.take(BIG) == []
    box.acknowledge(2)
    assert frames(box.take(BIG)) == [b"[]"]


def test_a_turn_of_the_writer_is_limited() -> None:
    box = outbox()
    box.queue([b"x" * 1000 for _ in range(10_000)])
    assert len(box.take(BIG)) == 5
    assert box.take(0) == []


@pytest.mark.parametrize("received", [0, 1, 299, 300, 301, 599, 600, 601, 1200])
def test_a_resume_sends_exactly_what_was_not_received(received: int) -> None:
    box = outbox()
    for first in (1, 301, 601):
        box.queue(numbered(first, first + 299 if first < 601 else 1200))
        box.take(BIG)
    box.resume(received)
    assert frames(box.take(BIG)) == numbered(received + 1, 1200)
    assert box.size == sum(len(frame) + 1 for frame in numbered(received + 1, 1200))
    box.acknowledge(1200)
    assert (box.size, box.is_delivered) == (0, True)


def test_what_was_never_sent_cannot_be_received() -> None:
    box = outbox()
    box.queue(numbered(1, 10))
    with pytest.raises(RemoteProtocolError, match="up to 1 "):
        box.acknowledge(1)
    box.take(BIG)
    box.acknowledge(4)
    for absurd in (3, 11):
        with pytest.raises(RemoteProtocolError):
            box.resume(absurd)
    assert box.take(BIG) == []  # a refused resume changed nothing
    box.resume(4)
    assert frames(box.take(BIG)) == numbered(5, 10)


def test_an_end_follows_everything_and_is_acknowledged_itself() -> None:
    box, peer = outbox(), inbox()
    box.queue(numbered(1, 3))
    box.end(DONE)
    text, end = box.take(BIG)
    journal = Journal(peer, outbox())
    journal.arrived([text, end])
    assert (peer.take(), peer.ending) == (numbered(1, 3), DONE)
    assert journal.pending(BIG) == [Message(*ack(4))]
    box.acknowledge(3)
    assert not box.is_delivered
    box.resume(3)
    assert box.take(BIG) == [end]
    box.acknowledge(4)
    assert box.is_delivered


def test_an_end_whose_frames_were_not_taken_comes_again_after_a_resume() -> None:
    box = inbox()
    for _ in range(2):
        box.arrived(b"{}")
        box.ended(DONE)
        assert box.ending is None
        box.discard()
    assert box.taken == 0
    box.ended(DONE)
    box.discard()
    assert (box.ending, box.taken) == (DONE, 1)


def test_a_peer_that_ended_takes_nothing_more_but_our_end() -> None:
    journal = Journal(inbox(), outbox(window=WINDOW))
    journal.outbox.queue(numbered(1, 20_000))
    journal.pending(BIG)
    journal.arrived([(False, b'{"type":"end","kind":"done"}')])
    journal.arrived([ack(1)])  # of what it had taken before
    journal.outbox.queue(numbered(1, 3))
    assert (journal.outbox.size, journal.outbox.is_delivered) == (0, True)
    journal.outbox.end(FAILED)
    assert journal.outbox.is_delivered  # it need not arrive
    said, (is_text, end) = journal.pending(BIG)
    assert said == Message(*ack(1))
    assert not is_text
    assert control.parse(end) == control.End.from_ending(FAILED)
    journal.resume(journal.outbox.sent)
    with pytest.raises(RemoteProtocolError):
        journal.resume(journal.outbox.sent + 1)


def test_an_ack_is_due_after_256_frames() -> None:
    journal = Journal(inbox(), outbox())
    journal.arrived([(True, b"\n".join(numbered(1, ACK_FRAMES - 1)))])
    journal.inbox.take()
    assert journal.pending(BIG) == []
    assert journal.pending(BIG, ack_now=True) == [Message(*ack(ACK_FRAMES - 1))]
    assert journal.pending(BIG, ack_now=True) == []
    journal.arrived([(True, b"\n".join(numbered(1, ACK_FRAMES)))])
    assert journal.pending(BIG) == []  # arrived is not taken
    journal.inbox.take()
    assert journal.pending(BIG) == [Message(*ack(2 * ACK_FRAMES - 1))]


@pytest.mark.parametrize(("window", "size"), [(16 * BIG, BATCH_BYTES), (WINDOW, WINDOW // 4)])
def test_an_ack_is_due_after_so_many_bytes(window: int, size: int) -> None:
    journal = Journal(inbox(window), outbox())
    journal.arrived([(True, b"x" * (size // 2)), (True, b"x" * (size // 2 - 1))])
    journal.inbox.take()
    assert not journal.inbox.is_ack_due
    journal.arrived([(True, b"x")])
    journal.inbox.take()
    assert journal.inbox.is_ack_due


def test_more_than_was_granted_breaks_the_rules() -> None:
    box = inbox(WINDOW)
    box.arrived(b"x" * (WINDOW - 2))
    box.arrived(b"{}")
    with pytest.raises(RemoteProtocolError, match="granted"):
        box.arrived(b"{}")
    assert [len(frame) for frame in box.take()] == [WINDOW - 2, 2]
    box.arrived(b"x" * 2 * WINDOW)  # alone it may be larger


def test_a_frame_over_the_limit_ends_the_link_by_name() -> None:
    box = inbox(max_size=1024)
    box.arrived(b"\n".join([b"x" * 1024] * 3))
    with pytest.raises(RemoteProtocolError, match="1024") as caught:
        box.arrived(b"{}\n" + b"x" * 1025)
    assert caught.value.kind is EndingKind.TOO_BIG


def test_a_flood_of_unread_frames_is_taken_in_pieces() -> None:
    box = inbox()
    box.arrived(b"\n".join([b"x" * 99] * 2000))
    for _ in range(9):
        box.arrived(b"\n".join([b"x" * 99] * 2000))
    assert len(box.take()) == 4000


@pytest.mark.parametrize("after", [(True, b"{}"), (False, b'{"type":"end","kind":"done"}')])
def test_nothing_follows_an_end(after: tuple[bool, bytes]) -> None:
    journal = Journal(inbox(), outbox())
    journal.arrived([(False, b'{"type":"end","kind":"done"}')])
    with pytest.raises(RemoteProtocolError):
        journal.arrived([after])


@pytest.mark.parametrize("message", [control.Hello(window=1024, max_size=1024), control.Refused()])
def test_a_link_that_is_open_is_not_opened_again(message: control.Control) -> None:
    with pytest.raises(RemoteProtocolError, match="on a link that is open"):
        Journal(inbox(), outbox()).arrived([(False, control.encode(message))])


def test_a_control_message_from_a_later_version_is_ignored() -> None:
    journal = Journal(inbox(), outbox())
    journal.arrived([(False, b'{"type":"later"}')])
    assert not journal.has_carried
    journal.arrived([(True, b"{}")])
    assert journal.inbox.take() == [b"{}"]
    assert journal.has_carried


def journals() -> tuple[Journal, Journal]:
    return Journal(inbox(), outbox()), Journal(inbox(), outbox())


def test_a_resume_brings_both_ends_to_the_same_count() -> None:
    client, server = journals()
    client.outbox.queue(numbered(1, 9))
    server.outbox.queue(numbered(1, 700))
    server.arrived(client.pending(BIG))
    client.arrived(server.pending(BIG))
    client.inbox.take()  # the server's frames were taken; the client's arrived and were not
    client.resume(server.readmit(*client.redial()))
    assert server.pending(BIG) == []
    assert frames(client.pending(BIG)) == numbered(1, 9)
    assert server.inbox.take() == []
    assert server.outbox.is_delivered


def test_a_hello_that_came_late_or_again_disturbs_nobody() -> None:
    client, server = journals()
    server.outbox.queue(numbered(1, 3))
    first, second = client.redial(), client.redial()
    client.resume(server.readmit(*second))
    sent = server.pending(BIG)
    for late in (first, second):
        with pytest.raises(RemoteProtocolError, match="came after"):
            server.readmit(*late)
    client.arrived(sent)
    assert client.inbox.take() == numbered(1, 3)


def test_an_end_is_seen_before_what_came_before_it_was_taken() -> None:
    inbox = Inbox(window=1000, max_size=1000)
    inbox.arrived(b"{}")
    seen: list[object] = [inbox.has_end, inbox.announced]
    done = Ending(EndingKind.DONE)
    inbox.ended(done)
    seen += [inbox.has_end, inbox.announced, inbox.ending, inbox.take(), inbox.ending]
    assert seen == [False, None, True, done, None, [b"{}"], done]


def test_many_frames_in_one_message_over_the_bound_of_a_batch_are_refused() -> None:
    box = inbox()
    box.arrived(b"x" * (BATCH_BYTES + 1))
    with pytest.raises(RemoteProtocolError, match="a batch over"):
        box.arrived(b"{}\n" * (BATCH_BYTES // 3 + 1))
