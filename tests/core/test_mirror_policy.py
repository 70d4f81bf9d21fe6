"""A mirror's options choose its policies."""

from __future__ import annotations

import pytest

from acpremote.core.envelope import peek
from acpremote.core.mirror_policy import mirror_policy
from acpremote.core.policy import PASS
from acpremote.core.side import Side
from acpremote.options import TransportOptions

ASK = b'{"id":1,"method":"elicitation/create"}'
NEW = b'{"id":1,"method":"session/new","params":{"cwd":"/editor"}}'


def verdict(
    options: TransportOptions, remote_cwd: str | None, side: Side, frame: bytes
) -> tuple[bytes | None, bool]:
    """What is passed on, and whether a person is told something."""
    policy, envelope = mirror_policy(options, remote_cwd), peek(frame)
    if not policy.concerns(bytes(envelope.method)):
        return frame, False
    judged = policy.judge(side, frame, envelope)
    return judged.forward, judged.note is not None


@pytest.mark.parametrize(("unstable", "passed"), [(True, ASK), (False, None)])
def test_the_unstable_routes_are_registered_on_demand(unstable: bool, passed: bytes | None) -> None:
    options = TransportOptions(use_unstable_protocol=unstable)
    assert verdict(options, None, Side.AGENT, ASK)[0] == passed


def test_nothing_is_judged_that_need_not_be() -> None:
    assert mirror_policy(TransportOptions(use_unstable_protocol=True), None) is PASS


@pytest.mark.parametrize("remote_cwd", ["/server", None])
def test_the_directory_is_the_owners(remote_cwd: str | None) -> None:
    remote = TransportOptions(host_ownership="remote", use_unstable_protocol=True)
    expected = NEW if remote_cwd is None else NEW.replace(b"/editor", b"/server")
    assert verdict(remote, remote_cwd, Side.CLIENT, NEW)[0] == expected


def test_a_different_directory_is_hinted_at() -> None:
    options = TransportOptions(use_unstable_protocol=True)
    assert verdict(options, "/server", Side.CLIENT, NEW) == (NEW, True)
    assert verdict(options, "/editor", Side.CLIENT, NEW) == (NEW, False)
