"""A client for people: a conversation with an agent, without a word about how it is shown.

    connect.py ─ a channel to an agent ─► peer.py (JSON-RPC) ─► conversation.py ─► a `View`
                                                                    ├ updates.py    what the agent does
                                                                    ├ questions.py  what it asks
                                                                    └ lists.py      what its lists lead to

Read `view.py` first (what is shown and asked), then `conversation.py`. The command line brings two views:
a terminal and plain lines.
"""

from __future__ import annotations
