"""What a call to a remote agent raises when its link is gone."""

from __future__ import annotations

from acp import RequestError

from ..core.envelope import REQUEST_LOST
from ..ending import Ending, EndingKind
from ..errors import ChannelClosed

__all__ = ["LinkClosed", "lost"]


class LinkClosed(ChannelClosed, RequestError, ConnectionError):
    """Says that a link is closed: no answer will come.

    It is a `ChannelClosed` for callers that ask why. It is a `RequestError` so that an agent that passes
    calls on (`run_agent(connect_acp(url))`) answers its own client with the reason, and a `ConnectionError`
    because that is what the SDK raises for an agent that is gone.
    """

    def __init__(self, ending: Ending) -> None:
        Exception.__init__(self, f"no answer will come: {ending}")
        self.ending = ending
        self.code = REQUEST_LOST
        self.data = {"ending": ending.kind.value, "status": ending.status}


def lost(error: RequestError) -> LinkClosed | None:
    """Recognises the error with which a relay answers a request whose answer will never come."""
    data = error.data
    if error.code != REQUEST_LOST or not isinstance(data, dict):
        return None
    try:
        kind = EndingKind(data.get("ending"))
    except ValueError:
        return None
    status = data.get("status")
    reason = str(error).removeprefix("no answer will come: ")
    return LinkClosed(Ending(kind, reason, status if isinstance(status, int) else None))
