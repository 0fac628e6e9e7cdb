"""Actions on the conversation: send, stop, edit, branch, undo, resume, replay, copy."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from app.chat_input.input_text import with_files
from app.chat_input.mentions import Expanded
from app.engine.decoding.request import Question
from app.history.figures import figures
from app.history.recorder import start_recorder
from app.history.records import Entry
from app.history.resume import Resumed, find_resumed
from app.ui.chat.clipboard import copied_note, keep_copy
from app.ui.chat.conversation_screen import ConversationScreen, Waiting
from app.ui.dialogs.sessions import SessionScreen
from app.ui.drawing.open_once import open_once
from app.ui.panel.replay import ReplayScreen
from app.wording.report import empty_answer_note
from app.wording.short_names import short_drafter
from models.errors import UsageError
from models.system.counted import counted

_RUNNING = "An answer is being generated. Escape stops it."
_LOADING = "A model or a drafter is loading. Escape cancels it."
_HELD = "\N{NO-BREAK SPACE}"
_FIRST = "The model is still loading. Try again when it is ready."
_WAITING = "A message is waiting for the model to load. Send the next one after its answer."


def say(screen: ConversationScreen, text: str, pasted: Sequence[str] = ()) -> None:
    """Ask the model; while it loads the message waits, while it answers the message stays in the prompt.

    A name after "@" in what was typed, and not in what was `pasted`, sends that file along. Raises UsageError for one
    that can't be sent; the message is then in the prompt again.
    """
    if can_not_say(screen):
        screen.prompt.restore()
        return
    try:
        message = with_files(text, pasted)
    except UsageError:
        screen.prompt.restore()
        raise
    instead_of, screen.editing = screen.editing, None
    if screen.busy or screen.ready is None:
        screen.waiting = Waiting(message, instead_of)
        screen.note("The message is sent when the model is loaded.")
        return
    for file in message.files:
        amount = f"{counted(file.lines, 'line')}, {counted(file.characters, 'character')}"
        screen.note(f"Sent {file.title}: {amount}.")
    ask(screen, message, instead_of)


def can_not_say(screen: ConversationScreen) -> bool:
    """Return whether another message must be answered first; the user is notified."""
    if is_held := screen.busy == "answering" or screen.waiting is not None:
        notify(screen, _RUNNING if screen.waiting is None else _WAITING)
    return is_held


def ask(screen: ConversationScreen, message: Expanded, instead_of: int | None) -> None:
    """Send a message to the model, as a new one or in place of an earlier one."""
    start(screen, screen.dialogue.ask(message.text, instead_of, message.typed))


def start(screen: ConversationScreen, question: Question) -> None:
    """Start the answer to a question."""
    entry = screen.dialogue.record.growing
    assert entry is not None, "a question expects an answer"
    # After the assertion: a busy screen without a running answer would never become idle.
    screen.busy = "answering"
    screen.flow.begin()
    show_branch(screen)
    screen.transcript.begin_answer(entry, divides=not question.raw)
    screen.link.answer(question)


def show_branch(screen: ConversationScreen) -> None:
    """Show the messages of the current branch."""
    branch, shown = screen.dialogue.record.branch(), screen.transcript.message_keys()
    same = 0
    while same < min(len(branch), len(shown)) and branch[same].id == shown[same]:
        same += 1
    if same < len(shown):
        screen.transcript.truncate(shown[same])
    for entry in branch[same:]:
        add_entry(screen, entry)


def add_entry(screen: ConversationScreen, entry: Entry) -> None:
    """Show an earlier message of the conversation."""
    if entry.answer is None:
        screen.transcript.add_user(entry.id, entry.text)
        return
    rounds = screen.dialogue.rounds(entry)
    lengths, marks = rounds.marks() if rounds else ((), ())
    answer = replace(entry.answer, drafter=short_drafter(entry.answer.drafter))
    footer = " · ".join(filter(None, [figures(answer), alternatives_text(screen, entry.id)]))
    divides = answer.divides
    screen.transcript.add_answer(entry.id, entry.text, footer, lengths, marks, divides=divides)


def alternatives_text(screen: ConversationScreen, key: int) -> str:
    """Return which of several answers to one message an entry is, and how to see the others; "" for the only one."""
    others = [entry.id for entry in screen.dialogue.alternatives(key)]
    if len(others) < 2 or key not in others:
        return ""
    place = f"answer {others.index(key) + 1} of {len(others)}"
    # No line ends within it.
    return f"{place.replace(' ', _HELD)} (Alt-Left, Alt-Right)"


def remove_empty_answer(screen: ConversationScreen, *, noted: bool = False) -> None:
    """Take back a message whose answer has no text: its typed text returns to the prompt.

    A regenerated message keeps its earlier answer. With `noted` a note says so.
    """
    branch = screen.dialogue.record.branch()
    gone = {*screen.transcript.message_keys()} - {entry.id for entry in branch}
    entries = screen.dialogue.record.entries.values()
    typed = next((entry for entry in entries if entry.id in gone and entry.role == "user"), None)
    if typed is not None and not screen.prompt.text:
        screen.prompt.replace_text(typed.as_typed)
        # Where it took the place of a message, that one is on the branch again.
        screen.editing = next((entry.id for entry in branch if entry.parent == typed.parent), None)
    elif typed is not None and screen.editing is None:
        screen.prompt.put_before(typed.as_typed)
    show_branch(screen)
    if noted:
        screen.note(empty_answer_note(again=typed is None))


def take_back(screen: ConversationScreen) -> None:
    """Return a message that waits for a model to the prompt, before the text there.

    While an earlier message is edited, it is reached with Up only: both texts would replace that one message.
    """
    waiting, screen.waiting = screen.waiting, None
    if waiting is not None and screen.editing is None:
        screen.prompt.replace_text("\n".join(filter(None, [waiting.message.typed, screen.prompt.text])))
        screen.editing = waiting.instead_of


def is_busy(screen: ConversationScreen) -> bool:
    """Return whether the engine is loading or answering; the user is notified."""
    if screen.busy:
        doing = _LOADING if screen.busy == "loading" else _RUNNING
        notify(screen, _FIRST if screen.ready is None else doing)
    return bool(screen.busy)


def stop(screen: ConversationScreen) -> bool:
    """Stop the load or the answer, keeping the answer's text; return False if the engine is idle."""
    if screen.busy:
        screen.link.stop()
    return bool(screen.busy)


def regenerate(screen: ConversationScreen) -> None:
    """Answer the last message again, on a new branch."""
    if is_busy(screen):
        return
    question = screen.dialogue.again()
    if question is None:
        notify(screen, "There is no message yet.")
    else:
        start(screen, question)


def undo(screen: ConversationScreen) -> None:
    """Forget the last message and its answer; they stay saved as a branch."""
    if is_busy(screen):
        return
    screen.dialogue.record.undo()
    show_branch(screen)


def new_conversation(screen: ConversationScreen) -> None:
    """Start a new conversation; the old one stays saved."""
    if is_busy(screen):
        return
    screen.dialogue.clear()
    screen.editing = None
    screen.transcript.clear()
    _nothing_read(screen)
    screen.prompt.focus()


def copy(screen: ConversationScreen, text: str, what: str) -> None:
    """Copy a text to the terminal's clipboard and to a file; a private chat writes no file."""
    screen.app.copy_to_clipboard(text)
    notify(screen, copied_note(text, what, keep_copy(text) if screen.request.saved else None))


def walk_answers(screen: ConversationScreen, step: int) -> None:
    """Show the next answer to the message of the last answer that has several, or with -1 the one before."""
    branch = screen.dialogue.record.branch()
    several = (e.id for e in reversed(branch) if e.answer and len(screen.dialogue.alternatives(e.id)) > 1)
    key = next(several, None)
    if key is None:
        notify(screen, "No message has several answers. F5 answers the last message again.")
    else:
        switch_branch(screen, key, step)


def switch_branch(screen: ConversationScreen, key: int, step: int = 1) -> None:
    """Switch to the next branch of a message, or with -1 to the one before."""
    if is_busy(screen):
        return
    others = screen.dialogue.alternatives(key)
    place = next((i for i, entry in enumerate(others) if entry.id == key), 0)
    if len(others) < 2:
        notify(screen, "This message has no other branch. F5 answers again, F6 edits the last message.")
        return
    chosen, was_selected = others[(place + step) % len(others)], screen.transcript.selected == key
    _go_to(screen, chosen)
    if was_selected:
        # The next press of the key goes to the branch after this one.
        screen.transcript.selected = chosen.id
    notify(screen, f"Branch {(place + step) % len(others) + 1} of {len(others)}.")


def redo(screen: ConversationScreen) -> bool:
    """Restore the message undone last; return False if there is none."""
    if is_busy(screen):
        return True
    undone = screen.dialogue.undone()
    if undone is not None:
        _go_to(screen, undone)
        notify(screen, "The undone message is back.")
    return undone is not None


def _go_to(screen: ConversationScreen, entry: Entry) -> None:
    screen.dialogue.record.switch(entry.id)
    show_branch(screen)
    screen.link.recall(*screen.dialogue.resumed())


def replay(screen: ConversationScreen, key: int | None) -> None:
    """Open the replay of an answer, by default the last one, if its rounds were recorded."""
    answers = [entry for entry in screen.dialogue.record.branch() if entry.answer is not None]
    entry = next((entry for entry in answers if entry.id == key), answers[-1] if answers else None)
    rounds = screen.dialogue.rounds(entry) if entry else None
    if rounds is None:
        notify(screen, "This conversation has no answer with recorded rounds.")
    else:
        open_once(screen.app, ReplayScreen(rounds))


def find_session(screen: ConversationScreen) -> None:
    """Open the dialog of saved conversations."""
    if not is_busy(screen):
        # The search is on a thread of its own, and may outlive the list.
        note = partial(screen.call_later, screen.note)
        open_once(screen.app, SessionScreen(note), partial(screen.chosen, resume))


def resume(screen: ConversationScreen, conversation: str) -> None:
    """Continue a saved conversation with the loaded model."""
    if is_busy(screen):
        return
    resumed = find_resumed(conversation, screen.note)
    old = screen.dialogue.record
    record = start_recorder(old.model, old.source, resumed, saved=not old.private, wait=0)
    old.close()
    screen.dialogue.record = record
    screen.dialogue.system = resumed.conversation.system
    screen.editing = None
    screen.transcript.clear()
    show_branch(screen)
    _nothing_read(screen)
    for note in old.notes():
        screen.note(note)
    bring_unanswered(screen, resumed)
    screen.link.recall(*screen.dialogue.resumed())


def bring_unanswered(screen: ConversationScreen, resumed: Resumed) -> None:
    """Put an unanswered last message of a conversation into the prompt, unless the prompt has text."""
    if resumed.unanswered is not None and not screen.prompt.offer(resumed.unanswered):
        notify(screen, "The last message has no answer yet. Up brings it into the prompt.")


def _nothing_read(screen: ConversationScreen) -> None:
    """Show an empty context."""
    screen.flow.context_used = 0
    screen.show_flow()


def notify(screen: ConversationScreen, text: str) -> None:
    """Show a notice."""
    screen.app.notify(text, markup=False)
