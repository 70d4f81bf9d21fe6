"""A conversation with an agent: one session at a time, its turns, and the person's commands.

    start ─ initialize, session/new ─► idle ──line──► turn ──answer──► idle ── /quit, end of input ──► over
                                                       └─ interrupt: session/cancel, questions cancelled

Lines that begin with `/` are commands: ours, or the agent's own, which travel as prompts.
"""

from __future__ import annotations

import webbrowser
from collections.abc import Callable, Mapping

import anyio

from ..components.frames import SelectionEvent
from ..components.menu import Chosen, Menu, MenuRow
from ..components.submission import ChoiceSubmission
from ..ending import Ending
from ..errors import AgentStartError, ChannelClosed, RemoteProtocolError
from ..transport.channel import Channel
from .agent import Agent, OpenedSession
from .lists import Lists, builtin_actions
from .peer import INVALID_PARAMS, METHOD_NOT_FOUND, AgentError, Peer, RequestRefused
from .questions import Questions
from .updates import Updates
from .view import Notice, Problem, Shown, Status, TurnEnded, TurnStarted, View

__all__ = ["COMMANDS", "Conversation"]

COMMANDS = {
    "help": "what can be typed here",
    "cancel": "stop the turn that is running",
    "mode": "choose the session's mode, or /mode ID",
    "load": "choose an earlier session, or /load ID",
    "new": "begin a new session",
    "choose": "choose from the latest list, or /choose NUMBER",
    "quit": "leave",
}
"""Our own commands, without the slash. They come before an agent's of the same name."""

_BUSY = Notice("A turn is running. Wait for it, or /cancel it.")


class Conversation:
    """Runs a conversation and shows it in a view.

    Args:
        view: Where it is shown and asked.
        cwd: The session's working directory, as the agent sees it.
        on_component_select: Told of every choice made in a list that an agent's message was.
        choice_submission: The host's answer to lists of its own.
        open_url: Opens an address in a browser and says whether it could.
    """

    def __init__(
        self,
        view: View,
        cwd: str,
        *,
        on_component_select: Callable[[SelectionEvent], object] | None = None,
        choice_submission: ChoiceSubmission | None = None,
        open_url: Callable[[str], bool] = webbrowser.open,
    ) -> None:
        self._view = view
        self._cwd = cwd
        self._on_select = on_component_select
        self._submission = choice_submission
        self._questions = Questions(view, open_url=open_url)
        self._updates = Updates()
        self._session: OpenedSession | None = None
        self._awaited_session: str | None = None
        self._status: Status | None = None
        self._turn: anyio.Event | None = None
        self._is_cancelled = False
        self._leave = anyio.Event()
        self._interrupted = anyio.Event()

    async def run(self, channel: Channel) -> Ending | None:
        """Talks until the person leaves (None) or the agent is gone (why).

        Raises:
            AgentStartError: the agent cannot be talked to.
        """
        peer = Peer(channel, self)
        self._agent = Agent(peer, self._view, self._cwd)
        ending: Ending | None = None
        failure: AgentStartError | None = None
        async with anyio.create_task_group() as self._tasks:

            async def receive() -> None:
                nonlocal ending
                ending = await peer.run()
                self._tasks.cancel_scope.cancel()

            self._tasks.start_soon(receive)
            self._tasks.start_soon(self._wait_leave)
            self._tasks.start_soon(self._cancel_interrupted)
            try:
                await self._talk()
            except AgentStartError as error:
                failure = error
            except ChannelClosed as closed:
                ending = closed.ending
            self._tasks.cancel_scope.cancel()
        self._show(*self._updates.end())
        if failure is not None:
            raise failure
        return None if self._leave.is_set() else ending

    async def _talk(self) -> None:
        await self._agent.initialize()
        try:
            await self._open(None)
        except AgentError as error:
            raise AgentStartError(f"the agent opened no session: {error}") from error
        name = self._agent.name or "The agent"
        self._show(Notice(f"{name} is ready. Type a message; /help lists the commands."))
        async for line in self._view.lines():
            await self._take_line(line.strip())
        self.leave()

    async def _wait_leave(self) -> None:
        await self._leave.wait()
        self._tasks.cancel_scope.cancel()

    def leave(self) -> None:
        """Ends the conversation."""
        self._leave.set()

    @property
    def is_busy(self) -> bool:
        """Whether a turn is running."""
        return self._turn is not None

    async def wait_idle(self) -> None:
        """Waits until no turn is running."""
        while self._turn is not None:
            await self._turn.wait()

    def interrupt(self) -> bool:
        """Cancels the running turn; false when there is none, or it was cancelled already."""
        if self._turn is None or self._is_cancelled or self._session is None:
            return False
        self._is_cancelled = True
        self._show(Notice("Cancelling."))
        self._interrupted.set()  # a key handler is no task: it can start none
        return True

    async def _cancel_interrupted(self) -> None:
        """Cancels turns when `interrupt` asks for it."""
        while True:
            await self._interrupted.wait()
            self._interrupted = anyio.Event()
            if self._session is not None:
                await self._cancel(self._session.id)

    async def _cancel(self, session_id: str) -> None:
        try:
            await self._agent.cancel(session_id)
        except ChannelClosed:
            return  # `run` says so
        # After the notification, so that an agent that asks again at once knows that it is over.
        self._questions.cancel_all()

    # What the agent does

    async def handle_request(self, method: str, params: object) -> object:
        """See `Handler.handle_request`."""
        match method:
            case "session/request_permission":
                if not self._is_ours(params):
                    raise RequestRefused(INVALID_PARAMS, "this is another session's")
                return await self._questions.permission(params, self._show_call)
            case "elicitation/create":
                return await self._questions.elicitation(params)
            case _:
                raise RequestRefused(METHOD_NOT_FOUND, f"this client has no {method}")

    def handle_notification(self, method: str, params: object) -> None:
        """See `Handler.handle_notification`."""
        if method == "elicitation/complete":
            self._questions.completed(params)
        elif method == "session/update" and isinstance(params, Mapping) and self._is_ours(params):
            self._show(*self._updates.take(params.get("update")))
            self._refresh()

    def _is_ours(self, params: object) -> bool:
        ours = self._session.id if self._session is not None else self._awaited_session
        return ours is None or (isinstance(params, Mapping) and params.get("sessionId") == ours)

    def _show_call(self, tool_call: object) -> None:
        members = dict(tool_call) if isinstance(tool_call, Mapping) else {}
        self._show(*self._updates.take({**members, "sessionUpdate": "tool_call_update"}))

    # Sessions

    async def _open(self, session_id: str | None) -> None:
        """Opens a session in place of the one that is open, which stays if that fails."""
        before = self._session, self._updates
        self._session, self._awaited_session, self._updates = None, session_id, Updates()
        try:
            self._session = await self._agent.open_session(session_id)
        except AgentError:
            self._session, self._updates = before
            raise
        self._lists = Lists(
            self._session.id,
            self._view,
            builtin_actions(self._view, self._set_mode),
            on_component_select=self._on_select,
            choice_submission=self._submission,
            send=self._send,
        )
        self._updates.mode = self._session.mode or self._updates.mode
        self._show(*self._updates.end())
        self._lists.add(self._updates.take_lists())
        self._refresh()

    def _refresh(self) -> None:
        """Tells the view what changed at the edge of the conversation."""
        updates, modes = self._updates, self._session.modes if self._session else {}
        mode = modes.get(updates.mode or "", updates.mode or "")
        status = Status(self._agent.name, mode, updates.title, updates.usage)
        if status != self._status:
            self._status = status
            self._show(status)
        self._view.set_completions({**updates.commands, **COMMANDS})

    def _show(self, *shown: Shown) -> None:
        for each in shown:
            self._view.show(each)

    # Turns

    async def _send(self, text: str) -> None:
        self._turn, self._is_cancelled = anyio.Event(), False
        self._show(TurnStarted(text))
        self._tasks.start_soon(self._run_turn, text, self._turn)

    async def _run_turn(self, text: str, turn: anyio.Event) -> None:
        if self._session is None:
            raise AssertionError("lines are taken only in a session")
        reason = "error"
        try:
            reason = await self._agent.prompt(self._session.id, text)
        except AgentError as error:
            self._show(*self._updates.end(), Problem(str(error)))
        except ChannelClosed:
            return  # `run` says so
        self._questions.cancel_all()
        self._show(*self._updates.end(), TurnEnded(reason))
        self._turn = None
        turn.set()
        lists = self._lists.add(self._updates.take_lists())
        if self._view.asks_lists:
            await self._lists.ask_all(lists)

    # What the person does

    async def _take_line(self, line: str) -> None:
        name, _, argument = line.removeprefix("/").partition(" ")
        if line.startswith("/") and name in COMMANDS:
            await self._command(name, argument.strip())
        elif line.startswith("/") and name not in self._updates.commands:
            self._show(Problem(f"There is no command /{name}; /help lists them."))
        elif line and self.is_busy:
            self._view.prefill(line)
            self._show(_BUSY)
        elif line:
            await self._send(line)

    async def _command(self, name: str, argument: str) -> None:
        match name:
            case "quit":
                self.leave()
            case "cancel":
                if not self.interrupt():
                    self._show(Notice("No turn is running."))
            case "help":
                self._show(Notice(self._help()))
            case _ if self.is_busy:
                self._show(_BUSY)
            case _:
                try:
                    await self._change(name, argument)
                except RemoteProtocolError as error:
                    self._show(Problem(str(error)))

    async def _change(self, name: str, argument: str) -> None:
        match name:
            case "mode":
                await self._choose_mode(argument)
            case "load":
                await self._load(argument)
            case "new":
                await self._open(None)
                self._show(Notice("A new session."))
            case "choose":
                await self._lists.choose(argument)

    def _help(self) -> str:
        theirs = {name: text for name, text in self._updates.commands.items() if name not in COMMANDS}
        lines = [f"/{name}  {text}" for name, text in {**COMMANDS, **theirs}.items()]
        return "\n".join(["Type a message, or:", *lines, "Ctrl-C cancels the turn; twice, it leaves."])

    async def _choose_mode(self, mode: str) -> None:
        modes = self._session.modes if self._session else {}
        if not modes:
            self._show(Notice("This agent has no modes."))
        elif mode:
            await self._set_mode(mode)
        else:
            rows = tuple(MenuRow(each, label) for each, label in modes.items())
            outcome = await self._view.choose(Menu("Which mode?", rows, self._updates.mode))
            if isinstance(outcome, Chosen):
                await self._set_mode(outcome.id)

    async def _set_mode(self, mode: str) -> None:
        session = self._session
        if session is None or mode not in session.modes:
            known = ", ".join(session.modes) if session else ""
            raise RemoteProtocolError(f"There is no mode {mode}; there are {known}.")
        await self._agent.set_mode(session.id, mode)
        self._updates.mode = mode
        self._show(Notice(f"Mode: {session.modes[mode]}"))
        self._refresh()

    async def _load(self, session_id: str) -> None:
        if not self._agent.can_load:
            self._show(Notice("This agent cannot load sessions."))
            return
        if not session_id and not self._agent.can_list:
            self._show(Notice("This agent does not list its sessions; /load ID loads one."))
            return
        chosen = session_id or await self._choose_session()
        if chosen is not None:
            await self._open(chosen)
            self._show(Notice("The session is loaded."))

    async def _choose_session(self) -> str | None:
        sessions = await self._agent.sessions()
        if self._session is not None:
            sessions.pop(self._session.id, None)
        if not sessions:
            self._show(Notice("There is no other session of this directory."))
            return None
        rows = tuple(MenuRow(each, title) for each, title in sessions.items())
        outcome = await self._view.choose(Menu("Which session?", rows))
        return outcome.id if isinstance(outcome, Chosen) else None
