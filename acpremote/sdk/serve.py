"""In-process agents behind an endpoint: `serve_acp`.

An agent here has the same endpoint, data path, limits and endings as a command's: only its channel is
another, a pair in memory with an SDK connection on the far end.
"""

from __future__ import annotations

import inspect
import logging
import os
import traceback
from collections.abc import Callable, Sequence
from typing import TypeAlias

import anyio
from acp import Agent, Client
from acp.core import AgentSideConnection

from ..core.relay import Relay
from ..ending import Ending, EndingKind
from ..errors import AgentStartError, ConfigError
from ..options import ServerOptions, TransportOptions
from ..pump import Link
from ..server import AgentSource, Server, start_server
from ..transport.channel import Channel, memory_channels
from ..transport.stdio import open_stdio
from .agent_thread import AgentThread, ThreadedChannel
from .transport import ChannelTransport

__all__ = ["AgentFactory", "agent_factory", "prove_factory", "run_stdio_agent", "serve_acp"]

logger = logging.getLogger(__name__)

CLOSE_TIMEOUT = 2.0
"""Seconds that the agent's running methods have to end after they were cancelled."""

_CLOSED = Ending(EndingKind.DONE, "the agent closed the connection")

AgentFactory: TypeAlias = Callable[[Client], Agent]
"""Makes the agent of one link; is given the connection to that link's client."""


def _is_agent(value: object) -> bool:
    methods = (getattr(value, name, None) for name in ("initialize", "prompt"))
    return not inspect.isclass(value) and all(callable(method) for method in methods)


def agent_factory(agent: Agent | AgentFactory) -> AgentFactory:
    """Makes a factory of what `serve_acp` takes: an agent, which all links share, or a factory or class.

    A factory that takes no positional argument is called without the connection.

    Raises:
        ConfigError: it is neither, as far as can be told without calling it.
    """
    if _is_agent(agent):
        return lambda connection: agent  # type: ignore[return-value]  # just checked
    if not callable(agent):
        raise ConfigError(
            f"{type(agent).__name__} is no ACP agent: it has no methods 'initialize' and 'prompt', "
            "and it is no factory that could be called for one"
        )
    takes_connection = _takes_connection(agent)
    _check_factory(agent, takes_connection)

    def make(connection: Client) -> Agent:
        made = agent(connection) if takes_connection else agent()  # type: ignore[call-arg]
        if not _is_agent(made):
            raise TypeError(f"what was called returned a {type(made).__name__}, which is no ACP agent")
        return made

    return make


def _check_factory(factory: Callable[..., object], takes_connection: bool) -> None:
    """Refuses a class without an agent's methods, and what needs other arguments than a factory is given."""
    name = getattr(factory, "__qualname__", type(factory).__name__)
    if inspect.isclass(factory) and not _makes_agents(factory):
        raise ConfigError(f"the class {name} has no methods 'initialize' and 'prompt': it is no ACP agent")
    try:
        inspect.signature(factory).bind(*([None] if takes_connection else []))
    except TypeError as error:
        given = "a connection" if takes_connection else "nothing"
        raise ConfigError(f"{name} is no factory of agents: it is given {given}, and {error}") from None
    except ValueError:  # a builtin that does not tell
        return


def _makes_agents(kind: type) -> bool:
    methods = (getattr(kind, name, None) for name in ("initialize", "prompt"))
    return all(callable(method) for method in methods) or hasattr(kind, "__getattr__")


def _takes_connection(factory: Callable[..., object]) -> bool:
    """Whether a factory or class wants the connection: whether it has a positional parameter of its own."""
    if inspect.isclass(factory):
        owner = next(each for each in factory.__mro__ if "__init__" in vars(each))
        if owner is object or getattr(owner, "_is_protocol", False):  # as a class without `__init__` has it
            return False
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):  # a builtin that does not tell
        return True
    return any(each.kind not in (each.KEYWORD_ONLY, each.VAR_KEYWORD) for each in parameters)


class AgentChannel:
    """The channel of an agent that runs in this process."""

    def __init__(self, factory: AgentFactory) -> None:
        """Makes and connects the agent.

        Raises:
            AgentStartError: the factory failed.
        """
        self._far, near = memory_channels()
        self.receive = self._far.receive
        self.send = self._far.send
        try:
            # Routes of the unstable protocol (`session/fork` and others) are those that the agent has.
            self._connection = AgentSideConnection(
                factory, ChannelTransport(near, _CLOSED), use_unstable_protocol=True
            )
        except Exception as error:  # the factory's own code
            raise AgentStartError(f"the agent could not be made: {_described(error)}") from error

    async def aclose(self, ending: Ending) -> None:
        """See `Channel.aclose`. Methods of the agent that still run are cancelled."""
        await self._far.aclose(ending)
        with anyio.move_on_after(CLOSE_TIMEOUT) as scope:
            await self._connection.close()
        if scope.cancelled_caught:
            logger.warning("a method of the agent did not end within %g s of being cancelled", CLOSE_TIMEOUT)

    def abort(self) -> None:
        """See `Channel.abort`."""
        self._far.abort()


def _described(error: Exception) -> str:
    """What went wrong in a factory, and where; clients are told too, so without the path of the file."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({os.path.basename(place.filename)} line {place.lineno})"


async def prove_factory(agent: Agent | AgentFactory) -> None:
    """Calls a factory as a link would and closes the agent: what makes none fails now, not at the first link.

    An agent and a class are only looked at.

    Raises:
        ConfigError: `agent` is no agent, and no factory of one.
        AgentStartError: the factory failed.
    """
    factory = agent_factory(agent)
    if not (_is_agent(agent) or inspect.isclass(agent)):
        await AgentChannel(factory).aclose(_CLOSED)


async def serve_acp(
    agent: Agent | AgentFactory,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    mount_path: str = "/acp",
    bearer_token: str | None = None,
    options: TransportOptions | None = None,
    server_options: ServerOptions | None = None,
    supported_agent_families: Sequence[str] = (),
    cwd: str | os.PathLike[str] | None = None,
    own_thread: bool = False,
) -> Server:
    """Serves an agent that runs in this process.

    Every link has a connection of its own, and with a factory an agent of its own. When a link ends, the
    agent's methods that still run for it are cancelled.

    The agent runs in the caller's event loop. Code of it that blocks stops the server with it, pings
    included; clients see nothing of that while it is shorter than their ping timeout. With `own_thread` all
    agents of this server run in one event loop in another thread: blocking code then stops only the
    other agents, and connections, pings, the health check and a shutdown go on.

    Args:
        agent: an agent that all links share, or what makes one for a connection: a factory or a class.
        host: address to listen on; with `port`, `mount_path` and `bearer_token` a short form of the
            options of the same name, used when `server_options` is not given.
        port: 0 lets the system choose.
        mount_path: where the endpoint is; clients connect to it or to `{mount_path}/ws`.
        bearer_token: what clients must present; None asks for nothing.
        options: limits and timeouts of the connections.
        server_options: everything about listening.
        supported_agent_families: shown in the metadata.
        cwd: the directory that clients are told as the agent's; this process's by default.
        own_thread: runs the agents in an event loop of their own.

    Returns:
        A server that is listening.

    Raises:
        ConfigError: `agent` is no agent, or the set-up is unsafe.
        ListenError: the address cannot be listened on.
    """
    factory = agent_factory(agent)
    listen = server_options or ServerOptions(
        host=host, port=port, mount_path=mount_path, bearer_token=bearer_token
    )
    thread = AgentThread() if own_thread else None
    try:
        server = await start_server(_source(factory, thread), listen, options)
    except BaseException:
        if thread is not None:
            thread.stop()
        raise
    if thread is not None:
        server.on_closed(thread.stop)
    server.doorkeeper.remote_cwd = _absolute(cwd)
    server.doorkeeper.supported_agent_families = supported_agent_families
    return server


async def run_stdio_agent(agent: Agent | AgentFactory, *, options: TransportOptions | None = None) -> Ending:
    """Runs an agent on our standard input and output, as an editor starts it, until either side is done.

    It is the same link as a served agent's. Open replies are waited for after the input has ended.

    Raises:
        ConfigError: `agent` is no agent.
        AgentStartError: the factory failed.
    """
    factory = agent_factory(agent)
    options = options or TransportOptions()
    stdio = await open_stdio(options.max_size, options.stall_timeout)
    channel = AgentChannel(factory)
    link = Link("stdio", stdio, channel, Relay(drains=True), drain_timeout=options.drain_timeout)
    return await link.run()


def _absolute(path: str | os.PathLike[str] | None) -> str:
    return os.path.abspath(path or "")


def _source(factory: AgentFactory, thread: AgentThread | None) -> AgentSource:
    async def connect() -> AgentChannel:
        try:
            return AgentChannel(factory)
        except AgentStartError:
            logger.exception("the agent could not be made")
            raise

    async def open_agent(link_id: str) -> Channel:
        if thread is None:
            return await connect()
        return ThreadedChannel(thread, await thread.call(connect))

    return open_agent
