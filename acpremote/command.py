"""Serves a command: a server whose links get a process each. Read `server.py` next."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from .options import CommandOptions, ServerOptions, StderrMode, TransportOptions
from .server import Server, start_server
from .transport.guardian import Guardian
from .transport.process import ProcessChannel, check_command, spawn

__all__ = ["serve_command", "serve_stdio_command"]

logger = logging.getLogger(__name__)


async def serve_stdio_command(
    command_options: CommandOptions,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    mount_path: str = "/acp",
    bearer_token: str | None = None,
    options: TransportOptions | None = None,
    server_options: ServerOptions | None = None,
    supported_agent_families: Sequence[str] = (),
) -> Server:
    """Serves an agent that speaks ACP on its standard input and output: one process per link.

    Args:
        command_options: how the process is run.
        host: address to listen on; with `port`, `mount_path` and `bearer_token` a short form of the
            options of the same name, used when `server_options` is not given.
        port: 0 lets the system choose.
        mount_path: where the endpoint is; clients connect to it or to `{mount_path}/ws`.
        bearer_token: what clients must present; None asks for nothing.
        options: limits and timeouts of the connections.
        server_options: everything about listening.
        supported_agent_families: shown in the metadata.

    Returns:
        A server that is listening.

    Raises:
        ConfigError: the command does not exist, or the set-up is unsafe.
        ListenError: the address cannot be listened on.
    """
    check_command(command_options)
    remote_cwd = _absolute(command_options.cwd)
    transport = options or TransportOptions()
    listen = server_options or ServerOptions(
        host=host, port=port, mount_path=mount_path, bearer_token=bearer_token
    )
    guardian = Guardian()

    async def start_agent(link_id: str) -> ProcessChannel:
        agent = await spawn(
            command_options,
            max_size=transport.max_size,
            stall_timeout=transport.stall_timeout,
            guardian=guardian,
        )
        logger.info("link %s: started agent %d: %s", link_id, agent.pid, command_options.command[0])
        return agent

    server = await start_server(start_agent, listen, transport)
    server.on_closed(guardian.close)
    server.doorkeeper.remote_cwd = remote_cwd
    server.doorkeeper.supported_agent_families = supported_agent_families
    return server


async def serve_command(
    command: Sequence[str],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    mount_path: str = "/acp",
    bearer_token: str | None = None,
    options: TransportOptions | None = None,
    server_options: ServerOptions | None = None,
    supported_agent_families: Sequence[str] = (),
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    stderr_mode: StderrMode = "inherit",
    terminate_timeout: float | None = None,
) -> Server:
    """Serves the agent that `command` starts; see `serve_stdio_command` and `CommandOptions`."""
    command_options = CommandOptions(command=command, cwd=cwd, env=env or {}, stderr_mode=stderr_mode)
    if terminate_timeout is not None:
        command_options = replace(command_options, terminate_timeout=terminate_timeout)
    return await serve_stdio_command(
        command_options,
        host=host,
        port=port,
        mount_path=mount_path,
        bearer_token=bearer_token,
        options=options,
        server_options=server_options,
        supported_agent_families=supported_agent_families,
    )


def _absolute(path: str | os.PathLike[str] | None) -> str:
    return str(Path(path or "").absolute())
