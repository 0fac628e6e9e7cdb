"""Dialogs of settings: all of them with explanation, value and origin, and one to change."""

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.style import Style
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Label, OptionList, Static
from textual.widgets.option_list import Option

from app.config.places import user_file
from app.config.run_settings import RunSetting, origin_words, run_settings, setting_words
from app.config.words import value_text
from app.shell.safe_text import one_line, shown
from app.ui.drawing.dialog import Dialog
from app.ui.drawing.named_lines import BOLD, DIM, NamedLines
from app.ui.prompt.one_line import OneLineInput
from models.errors import LocalspecError

Keep = Callable[[RunSetting, str], str]
"""Saves a setting, an empty text for the default; returns what came of it. Raises LocalspecError."""
_KEYS = "Enter changes a setting, Escape closes"
_SAVES = "Enter saves, Escape closes"
_IN_A_TABLE = "key"
"""Setting that is a table of its own in a file."""
_NONE = "none"
_DEFAULT = "(default)"


class SettingsScreen(Dialog[None]):
    """The settings of `run`, narrowed by what is typed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "Close", id="settings.close"),
        Binding("down", "move('cursor_down')", "Next", id="settings.down", priority=True, show=False),
        Binding("up", "move('cursor_up')", "Previous", id="settings.up", priority=True, show=False),
        Binding("pagedown", "move('page_down')", "Page down", id="settings.page_down", priority=True, show=False),
        Binding("pageup", "move('page_up')", "Page up", id="settings.page_up", priority=True, show=False),
    ]

    def __init__(self, keep: Keep) -> None:
        """Take what saves a setting."""
        super().__init__()
        self._keep = keep
        self._settings: Sequence[RunSetting] = ()

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        with Vertical(classes="dialog", id="settings"):
            yield Label("Settings", classes="title", markup=False)
            yield OneLineInput(placeholder="Part of a name or of an explanation", id="words")
            yield OptionList(id="listed", markup=False)
            yield Static(_KEYS, classes="keys", id="settings-note", markup=False)

    def on_mount(self) -> None:
        """List the settings."""
        self._look(_KEYS)

    def action_move(self, motion: str) -> None:
        """Move the highlight while the cursor stays in the words."""
        getattr(self.query_one(OptionList), f"action_{motion}")()

    @on(Input.Changed)
    def _typed(self) -> None:
        self._narrow(first=True)

    @on(Input.Submitted)
    def _entered(self) -> None:
        listed = self.query_one(OptionList)
        if listed.highlighted is not None:
            self._change(str(listed.get_option_at_index(listed.highlighted).id))

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        self._change(str(event.option.id))

    def _change(self, key: str) -> None:
        setting = next(one for one in self._settings if one.key == key)
        if key == _IN_A_TABLE:
            self._say(f"Keys are set in the table [keys] of {user_file()}. F1 in the chat lists their names.")
        else:
            self.app.push_screen(SettingScreen(setting, self._keep), self._changed)

    def _changed(self, said: str | None) -> None:
        if said is not None:
            self._look(said)

    def _look(self, note: str) -> None:
        """Read the settings as they are now."""
        try:
            self._settings = run_settings()
        except LocalspecError as error:
            note = " ".join(filter(None, (error.title, error.hint)))
        self._narrow()
        self._say(note)

    def _say(self, text: str) -> None:
        self.query_one("#settings-note", Static).update(shown(text))

    def _narrow(self, *, first: bool = False) -> None:
        """List the settings that contain every typed word; the highlighted one stays so, unless `first` is wanted."""
        words = self.query_one(Input).value.lower().split()
        listed = self.query_one(OptionList)
        before = None if first or listed.highlighted is None else listed.get_option_at_index(listed.highlighted).id
        options = list(_options([one for one in self._settings if _has(one, words)]))
        listed.clear_options()
        listed.add_options(options)
        places = [n for n, option in enumerate(options) if not option.disabled]
        same = next((n for n in places if options[n].id == before), None)
        listed.highlighted = same if same is not None else next(iter(places), None)


class SettingScreen(Dialog[str | None]):
    """One setting to change. It returns what came of it, or None if it was closed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Close", id="setting.close")]
    DEFAULT_CSS = """
    SettingScreen {
        & Input { margin: 1 0 0 0; }
        & #problem { color: $text-error; }
    }
    """

    def __init__(self, setting: RunSetting, keep: Keep) -> None:
        """Take a setting, and what saves it."""
        super().__init__()
        self._setting = setting
        self._keep = keep

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        one = self._setting
        with Vertical(classes="dialog", id="setting"):
            yield Label(one.key, classes="title", markup=False)
            yield Static(shown(one.help), markup=False)
            yield Static(shown(_standing(one)), classes="keys", markup=False)
            yield Static(f"It is saved in {one_line(str(user_file()))}.", classes="keys", markup=False)
            if one.choices:
                values = [*one.choices, _DEFAULT]
                yield OptionList(*(Option(value, id=value) for value in values), id="values", markup=False)
            else:
                yield OneLineInput(_written(one), placeholder="empty: the default", id="value")
            yield Static("", id="problem", markup=False)
            yield Static(_SAVES, classes="keys", markup=False)

    def on_mount(self) -> None:
        """Begin at the value of now."""
        if self._setting.choices:
            values = self.query_one(OptionList)
            values.highlighted = [*self._setting.choices, _DEFAULT].index(setting_words(self._setting.value))
            values.focus()
        else:
            self.query_one(Input).focus()

    @on(Input.Submitted)
    def _entered(self, event: Input.Submitted) -> None:
        self._save(event.value.strip())

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        self._save("" if event.option.id == _DEFAULT else str(event.option.id))

    def _save(self, text: str) -> None:
        """Save a value and close; a refused one stays to be mended."""
        try:
            said = self._keep(self._setting, text)
        except LocalspecError as error:
            parts = (error.title, error.cause, error.hint)
            self.query_one("#problem", Static).update(shown("\n".join(part for part in parts if part)))
        else:
            self.dismiss(said)


def _options(settings: Sequence[RunSetting]) -> Iterator[Option]:
    """Yield the settings below the names of their sections."""
    names = tuple(cell_len(one.key) for one in settings)
    section = ""
    for one in settings:
        if one.section != section:
            yield Option(Content.assemble("\n" * bool(section), (one.section, "bold $accent")), disabled=True)
            section = one.section
        value = f"{one_line(setting_words(one.value)) or _NONE} · {origin_words(one)}"
        style = Style.null() if one.origin == "built-in" else BOLD
        yield Option(NamedLines(one.key, BOLD, ((value, style), (one_line(one.help), DIM)), names), id=one.key)


def _has(setting: RunSetting, words: Sequence[str]) -> bool:
    searched = " ".join((setting.key, setting.help, setting_words(setting.value), origin_words(setting))).lower()
    return all(word in searched for word in words)


def _standing(setting: RunSetting) -> str:
    """Return the value of now with its origin, the default, and what wins over the file."""
    now = f"Now {setting_words(setting.value) or _NONE} ({origin_words(setting)})."
    default = f"Default: {setting_words(setting.default) or _NONE}."
    variable = f"The variable {setting.variable} wins over the file." if setting.variable else ""
    return " ".join(filter(None, (now, default, variable)))


def _written(setting: RunSetting) -> str:
    """Return the value of now as it is typed."""
    if setting.multiple:
        return value_text(setting.value) if setting.value else ""
    return setting_words(setting.value)
