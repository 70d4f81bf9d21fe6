"""Fills in a form with a person: field by field, then a review from which every field can be changed.

ACP demands the review: nothing is sent before the person saw all of it. Declining and cancelling are one key
away at every field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..components.bridge import CANCEL, DECLINE, FormQuestion
from ..components.forms import FieldKind, FieldValue, FormField
from ..components.menu import Chosen, Menu, MenuOutcome, MenuRow, Unchosen
from .view import Asked, Notice, TextQuestion, View

__all__ = ["fill_form", "refusal_of"]

Result = Mapping[str, object]


class _Left(Exception):
    """The person left the form."""

    def __init__(self, outcome: Unchosen) -> None:
        super().__init__(outcome.value)
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class _Nothing:
    """A field left out."""


_NOTHING: Final = _Nothing()


def refusal_of(outcome: Unchosen) -> Result:
    """The result for leaving a question without an answer."""
    return DECLINE if outcome is Unchosen.DECLINED else CANCEL


async def fill_form(question: FormQuestion, view: View) -> Result:
    """Asks for every field and returns the elicitation's result."""
    view.show(Notice(_heading(question)))
    filling = _Filling(question, view)
    try:
        if question.form.unfillable:
            await filling.explain()
        for field in question.form.fields:
            if field.kind is not FieldKind.UNSUPPORTED:
                await filling.ask(field)
        await filling.review()
    except _Left as left:
        view.show(Asked(question.message, left.outcome.value))
        return refusal_of(left.outcome)
    view.show(Asked(question.message, "sent"))
    return question.accept(filling.values)


def _heading(question: FormQuestion) -> str:
    parts = [question.message, question.form.title, question.form.description]
    return "\n".join(part for part in parts if part)


class _Filling:
    def __init__(self, question: FormQuestion, view: View) -> None:
        self._question = question
        self._view = view
        self.values: dict[str, FieldValue] = {}

    async def explain(self) -> None:
        """A form with a required field of an unknown kind can only be declined or cancelled."""
        names = ", ".join(field.title for field in self._question.form.unfillable)
        prompt = f"This client cannot fill in: {names}. The form can be declined or cancelled."
        outcome = await self._view.choose(Menu(prompt, (MenuRow("decline", "Decline"),)))
        raise _Left(Unchosen.DECLINED if isinstance(outcome, Chosen) else outcome)

    async def ask(self, field: FormField) -> None:
        """Asks for one field, beginning with what it has."""
        current = self.values.get(field.name, field.default)
        match field.kind:
            case FieldKind.BOOLEAN:
                value = await self._boolean(field, current)
            case FieldKind.CHOICE:
                value = await self._choice(field, current)
            case FieldKind.CHOICES:
                value = await self._choices(field, current)
            case _:
                value = await self._text(field, current)
        if isinstance(value, _Nothing):
            self.values.pop(field.name, None)
        else:
            self.values[field.name] = value

    async def review(self) -> None:
        """Shows everything until the person sends it."""
        fields = [field for field in self._question.form.fields if field.kind is not FieldKind.UNSUPPORTED]
        while True:
            problems = self._question.form.problems(self.values)
            rows = [MenuRow(f"f{number}", self._told(field)) for number, field in enumerate(fields)]
            if not problems:
                rows.insert(0, MenuRow("send", "Send this"))
            if not rows:
                raise _Left(Unchosen.DECLINED)  # nothing to fill in that could be sent
            faults = [f"{name}: {problem}" for name, problem in problems.items()]
            prompt = "\n".join(["Is this right? Choose a line to change it.", *faults])
            outcome = self._or_left(await self._view.choose(Menu(prompt, tuple(rows), decline="decline")))
            if outcome == "send":
                return
            await self.ask(fields[int(outcome[1:])])

    def _told(self, field: FormField) -> str:
        if field.name not in self.values:
            return f"{field.title}: (left out)"
        value = self.values[field.name]
        labels = {option.value: option.label for option in field.options}
        if isinstance(value, bool):
            return f"{field.title}: {'yes' if value else 'no'}"
        items = value if isinstance(value, list) else [value]
        return f"{field.title}: {', '.join(labels.get(str(item), str(item)) for item in items)}"

    def _or_left(self, outcome: MenuOutcome) -> str:
        if isinstance(outcome, Chosen):
            return outcome.id
        raise _Left(outcome)

    def _menu(self, field: FormField, rows: list[MenuRow], highlighted: str | None = None) -> Menu:
        skip = None if field.required else "leave out"
        return Menu(_prompt(field), tuple(rows), highlighted, decline="decline", skip=skip)

    async def _boolean(self, field: FormField, current: object) -> FieldValue | _Nothing:
        highlighted = None if current is None else ("yes" if current is True else "no")
        menu = self._menu(field, [MenuRow("yes", "Yes"), MenuRow("no", "No")], highlighted)
        outcome = await self._view.choose(menu)
        return _NOTHING if outcome is Unchosen.SKIPPED else self._or_left(outcome) == "yes"

    async def _choice(self, field: FormField, current: object) -> FieldValue | _Nothing:
        rows = [
            MenuRow(f"o{number}", option.label, option.description)
            for number, option in enumerate(field.options)
        ]
        numbers = {option.value: f"o{number}" for number, option in enumerate(field.options)}
        highlighted = numbers.get(current) if isinstance(current, str) else None
        outcome = await self._view.choose(self._menu(field, rows, highlighted))
        if outcome is Unchosen.SKIPPED:
            return _NOTHING
        return field.options[int(self._or_left(outcome)[1:])].value

    async def _choices(self, field: FormField, current: object) -> FieldValue | _Nothing:
        picked = set(current) if isinstance(current, list) else set()
        at = "done"
        while True:
            value = [option.value for option in field.options if option.value in picked]
            problem = field.problem(value)
            rows = [
                MenuRow(f"o{number}", f"{_box(option.value in picked)} {option.label}", option.description)
                for number, option in enumerate(field.options)
            ]
            rows.insert(0, MenuRow("done", "Done" if problem is None else f"Done ({problem})"))
            outcome = await self._view.choose(self._menu(field, rows, at))
            if outcome is Unchosen.SKIPPED:
                return _NOTHING
            at = self._or_left(outcome)
            if at != "done":
                picked ^= {field.options[int(at[1:])].value}
            elif problem is None:
                return value

    async def _text(self, field: FormField, current: object) -> FieldValue | _Nothing:
        def check(text: str) -> str | None:
            if not text and not field.required:
                return None
            try:
                field.read(text)
            except ValueError as error:
                return str(error)
            return None

        default = "" if current is None else str(current)
        text = await self._view.ask_text(TextQuestion(_prompt(field), field.hint, default, check))
        if not isinstance(text, str):
            raise _Left(text)
        return field.read(text) if text or field.required else _NOTHING


def _prompt(field: FormField) -> str:
    return f"{field.title}\n{field.description}" if field.description else field.title


def _box(is_picked: bool) -> str:
    return "[x]" if is_picked else "[ ]"
