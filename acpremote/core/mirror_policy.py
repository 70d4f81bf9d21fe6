"""The policies of a mirror, from its options: the same for the command and for `connect_acp`."""

from __future__ import annotations

from ..options import TransportOptions
from .ownership import OwnershipHint, RemoteOwnership
from .policy import PASS, Policies, Policy
from .unstable import UnstableGate

__all__ = ["mirror_policy"]


def mirror_policy(options: TransportOptions, remote_cwd: str | None) -> Policy:
    """Chooses the policies of one link; `remote_cwd` is the server's directory, None if it is not known."""
    policies: list[Policy] = []
    if not options.use_unstable_protocol:
        policies.append(UnstableGate())
    if options.host_ownership == "remote":
        policies.append(RemoteOwnership(remote_cwd))
    elif remote_cwd is not None:
        policies.append(OwnershipHint(remote_cwd))
    return Policies(*policies) if policies else PASS
