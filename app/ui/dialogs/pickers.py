"""Dialogs to choose a model or a drafter, with the known facts of each file before it is loaded."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input, Label, OptionList
from textual.widgets.option_list import Option

from app.flags.forged import drafter_for
from app.ui.chat.conversation_screen import ConversationScreen
from app.ui.chat.conversing import is_busy
from app.ui.chat.failures import localspec_error
from app.ui.dialogs.choice_lines import choice_lines
from app.ui.dialogs.choices import Choice, draft_choices, model_choices
from app.ui.drawing.dialog import Dialog
from app.ui.drawing.open_once import open_once
from app.ui.prompt.one_line import OneLineInput
from drafters.registry import AUTO
from models.errors import UsageError

_KEYS = "Enter selects, Escape closes"


class PickerScreen(Dialog[str | None]):
    """A dialog with a list. It returns the chosen name, or None if it was closed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Close", id="picker.close"),
        Binding("down", "move(1)", "Next", id="picker.down", priority=True, show=False),
        Binding("up", "move(-1)", "Previous", id="picker.up", priority=True, show=False),
    ]

    @dataclass
    class Listed(Message):
        """The choices, and the error of the search, if any."""

        choices: Sequence[Choice]
        problem: str = ""

    def __init__(self, title: str, hint: str, choices: partial[list[Choice]]) -> None:
        """Take the title, the placeholder of the input, and the function that finds the choices, which may be slow."""
        super().__init__()
        self._title = title
        self._hint = hint
        self._find = choices
        self._choices: Sequence[Choice] = ()

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        with Vertical(classes="dialog", id="picker"):
            yield Label(self._title, classes="title", markup=False)
            yield OneLineInput(placeholder=self._hint, id="name")
            yield OptionList(id="choices", markup=False)
            yield Label("Reading model files … Escape closes", classes="keys", id="picker-note", markup=False)

    def on_mount(self) -> None:
        """Look what there is."""
        self.look()

    @work(thread=True)
    def look(self) -> None:
        """Read the headers on a thread of its own: there may be hundreds of files."""
        try:
            listed = self.Listed(self._find())
        except Exception as error:  # one that left this thread would end the app
            listed = self.Listed((), localspec_error(error).title)
        self.post_message(listed)

    @on(Listed)
    def _listed(self, event: Listed) -> None:
        self._choices = event.choices
        self._narrow(self.query_one(Input).value)
        self.query_one("#picker-note", Label).update(f"{event.problem} Escape closes" if event.problem else _KEYS)

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._narrow(event.value)

    @on(Input.Submitted)
    def _entered(self, event: Input.Submitted) -> None:
        choices = self.query_one(OptionList)
        if choices.highlighted is not None:
            self.dismiss(choices.get_option_at_index(choices.highlighted).id)
        elif event.value.strip() and not choices.option_count:
            self.dismiss(event.value.strip())

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option.id)

    def action_move(self, lines: int) -> None:
        """Move the highlight while the cursor stays in the name."""
        choices = self.query_one(OptionList)
        if lines > 0:
            choices.action_cursor_down()
        else:
            choices.action_cursor_up()

    def _narrow(self, typed: str) -> None:
        """Show the choices that contain every typed word."""
        words = typed.lower().split()
        fit = [line for line in choice_lines(self._choices) if all(word in _searched(line.choice) for word in words)]
        listed = self.query_one(OptionList)
        listed.clear_options()
        listed.add_options(Option(line, id=line.choice.name, disabled=not line.choice.usable) for line in fit)
        listed.highlighted = next((place for place, line in enumerate(fit) if line.choice.usable), None)


def pick_model(screen: ConversationScreen) -> None:
    """Open the dialog of models."""
    picker = PickerScreen(
        "Models on this machine",
        "Part of a name, or the path of a GGUF file",
        partial(model_choices, screen.request.plan.model),
    )
    open_once(screen.app, picker, partial(screen.chosen, change_model))


def pick_draft(screen: ConversationScreen) -> None:
    """Open the dialog of drafters."""
    find = partial(draft_choices, screen.request.plan.model)
    picker = PickerScreen("Drafter", "Part of a name, or the path of a small GGUF file", find)
    open_once(screen.app, picker, partial(screen.chosen, change_draft))


def change_model(screen: ConversationScreen, name: str) -> None:
    """Load another target; the loaded one stays until the load succeeds."""
    if is_busy(screen):
        return
    drafter = screen.request.plan.drafter
    # A draft model fits one family of models: another target starts with what it has with no flag.
    usual = drafter.model or drafter.kind == AUTO
    plan = replace(screen.request.plan, model=name, drafter=drafter_for(name) if usual else drafter)
    screen.load(plan)


def change_draft(screen: ConversationScreen, name: str) -> None:
    """Load another drafter; the old one stays if that fails."""
    if is_busy(screen):
        return
    spec = drafter_for(screen.request.plan.model, name)
    screen.load(replace(screen.request.plan, drafter=spec), spec)


def change_strict(screen: ConversationScreen, *, strict: bool) -> None:
    """Load the model again, with or without `strict`."""
    if is_busy(screen):
        return
    if strict and screen.dialogue.settings.allow_rounding:
        raise UsageError("/strict on can't be combined with --allow-rounding.", hint="Restart without the flag.")
    screen.load(replace(screen.request.plan, strict=strict))


def _searched(choice: Choice) -> str:
    return f"{choice.name} {choice.detail}".lower()
