"""Actions of the editor's keys, by their names in `app.chat_input.keys`; False: the key may still be text."""

from collections.abc import Callable, Mapping
from functools import partial

from app.shell.exit_codes import INTERRUPTED
from app.ui.chat.clipboard import copied_note, keep_copy
from app.ui.editor.asking import PATIENT
from app.ui.editor.dialogs import EditHelpScreen, QuestionScreen
from app.ui.editor.file import ChangedOnDiskError, ProtectedError, VanishedError, open_file
from app.ui.editor.file_screen import FileScreen
from app.ui.editor.ghost import first_line, first_word
from app.ui.panel.panel import SpeculationPanel
from app.ui.panel.panel_lines import FOLDS, NOW
from models.errors import LocalspecError
from models.system.counted import counted

# The first answer is the one that Enter gives: it loses nothing.
_CHANGED = {
    "stay": "Keep editing",
    "over": "Overwrite it",
    "read": "Reload it and discard the changes made here",
}
_VANISHED = {"over": "Write it again", "stay": "Keep editing"}
_PROTECTED = {"stay": "Keep editing", "write": "Write to it anyway"}
_UNSAVED = {"save": "Save and leave", "lose": "Leave without saving", "stay": "Keep editing"}
Then = Callable[[], object]
Action = Callable[[FileScreen], bool]


def save(screen: FileScreen, then: Then = lambda: None, **over: bool) -> None:
    """Save the text and then call `then`; `over` holds the permissions of `TextFile.save` to overwrite."""
    try:
        screen.file = screen.file.save(screen.area.text, **over)
        screen.area.keep()
    except ChangedOnDiskError as error:
        answered = partial(_settle, screen, then, over)
        answers = _VANISHED if isinstance(error, VanishedError) else _CHANGED
        screen.app.push_screen(QuestionScreen(error.title, answers), answered)
        return
    except ProtectedError as error:
        allowed = partial(_force, screen, then, over)
        screen.app.push_screen(QuestionScreen(error.title, _PROTECTED), allowed)
        return
    except LocalspecError as error:
        screen.fail(error)
        return
    screen.completer.visited(*screen.here.noted)
    screen.tell(f"Saved {counted(len(screen.file.known or b''), 'byte')}.")
    then()


def leave(screen: FileScreen, code: int = 0) -> None:
    """Leave the editor, once it is settled what becomes of a changed text."""
    if not screen.is_changed:
        screen.app.exit(code)
        return
    question = f"{screen.file.path.name} has unsaved changes."
    screen.app.push_screen(QuestionScreen(question, _UNSAVED), partial(_part, screen, code))


def _force(screen: FileScreen, then: Then, over: Mapping[str, bool], answer: str | None) -> None:
    if answer == "write":
        save(screen, then, **over, over_protection=True)


def _settle(screen: FileScreen, then: Then, over: Mapping[str, bool], answer: str | None) -> None:
    if answer == "over":
        save(screen, then, **over, over_changes=True)
    elif answer == "read":
        _read_anew(screen)


def _read_anew(screen: FileScreen) -> None:
    try:
        file = open_file(screen.file.path)
    except LocalspecError as error:
        screen.fail(error)
        return
    cursor = screen.area.cursor_location
    screen.file = file
    screen.area.load_text(file.text)
    screen.go(*cursor)


def _part(screen: FileScreen, code: int, answer: str | None) -> None:
    if answer == "save":
        save(screen, partial(screen.app.exit, code))
    elif answer == "lose":
        screen.given_up = True
        screen.app.exit(code)


def _accept(screen: FileScreen, part: Callable[[str], str] = lambda ghost: ghost) -> bool:
    taken = screen.area.accept(part)
    if taken and not screen.area.ghost:
        # After an acceptance no key follows at once, and the next completion may be prefetched.
        screen.ask(at_once=True)
    return taken


def _accept_or_indent(screen: FileScreen) -> bool:
    if not _accept(screen):
        screen.area.indent()
    return True


def _dismiss(screen: FileScreen) -> bool:
    if screen.wanted.display:
        screen.close_line()
    else:
        screen.asking.call_off()
        screen.area.dismiss()
    screen.show_all()
    return True


def _ask(screen: FileScreen) -> bool:
    if screen.is_ready:
        screen.area.dismiss()
        # By the screen: it is still to hear of the key before this one, and would call this off, or ask for less.
        screen.ask(at_once=True, limits=PATIENT)
    return True


def _unasked(screen: FileScreen) -> bool:
    screen.unasked = not screen.unasked
    screen.tell("Completes whenever typing pauses." if screen.unasked else "Completes on request.")
    return True


def _interrupt(screen: FileScreen) -> bool:
    if text := screen.area.selected_text:
        screen.app.copy_to_clipboard(text)
        screen.app.notify(copied_note(text, "the selection", keep_copy(text)), markup=False)
    elif screen.leaving:
        leave(screen, INTERRUPTED)
    else:
        _dismiss(screen)
        screen.leaving = True
        screen.app.notify("Press Ctrl-C again to leave.", markup=False)
    return True


def _panel(screen: FileScreen) -> bool:
    """Open the panel, then all of its folds, then close it."""
    panel = screen.query_one(SpeculationPanel)
    if not screen.panel_shown:
        screen.panel_wanted = True
        panel.open_folds({NOW})
    elif panel.opened != set(FOLDS):
        panel.open_folds(FOLDS)
    else:
        screen.panel_wanted = False
    screen.lay_out()
    return True


def _does(action: Callable[[FileScreen], object]) -> Action:
    def done(screen: FileScreen) -> bool:
        action(screen)
        return True

    return done


def _in_text(action: Action) -> Action:
    """Return an action that does nothing to the text while the keys are for the line below it."""
    return lambda screen: screen.wanted.has_focus or action(screen)


ACTIONS: Mapping[str, Action] = {
    "accept": _in_text(_accept_or_indent),
    "accept_word": _in_text(partial(_accept, part=first_word)),
    "accept_line": _in_text(partial(_accept, part=first_line)),
    "dismiss": _dismiss,
    "ask": _ask,
    "unasked": _unasked,
    "unindent": _in_text(_does(lambda screen: screen.area.unindent())),
    "select_line": _does(lambda screen: screen.area.action_select_line()),
    "select_all": _does(lambda screen: screen.area.action_select_all()),
    "save": _does(save),
    "find": _does(lambda screen: screen.wanted.open(finds=True)),
    "line": _does(lambda screen: screen.wanted.open(finds=False)),
    "help": _does(lambda screen: screen.app.push_screen(EditHelpScreen(screen.bound, screen.area.limits))),
    "panel": _panel,
    "interrupt": _interrupt,
    "leave": _does(leave),
}
