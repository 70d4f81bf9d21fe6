"""The ACP SDK's agents and clients at either end of a link.

The only package that imports the SDK's connections: `serve.py` stands before an agent of this process,
`remote.py` is an agent on another machine. Both speak through `transport.py`; read that first.
"""

from __future__ import annotations

from .connect import connect_acp, connect_remote_agent
from .remote import RemoteAgent, RemoteClientConnection
from .serve import AgentFactory, agent_factory, prove_factory, run_stdio_agent, serve_acp

__all__ = [
    "AgentFactory",
    "RemoteAgent",
    "RemoteClientConnection",
    "agent_factory",
    "connect_acp",
    "connect_remote_agent",
    "prove_factory",
    "run_stdio_agent",
    "serve_acp",
]
