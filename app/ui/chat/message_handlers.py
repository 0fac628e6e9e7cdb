"""Handlers of the engine's messages on the chat screen."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import exp
from typing import Any

from app.chat_input.settings import draft_length_text, form_note, thinking_note
from app.engine.conversation import messages as engine
from app.engine.conversation.messages import Ended, Explained, Failed, Ready, Recalled, Said, Walked, Watched
from app.engine.conversation.session import Reading
from app.engine.decoding.origins import origins
from app.flags.request import Request
from app.history.recorder import source_of, start_recorder
from app.shell.columns import wrapped
from app.ui.chat.conversation_screen import ConversationScreen
from app.ui.chat.conversing import add_entry, alternatives_text, bring_unanswered, remove_empty_answer, take_back
from app.ui.dialogs.sheet import SheetScreen
from app.ui.drawing.open_once import open_once
from app.wording.explanation import explanation_text
from app.wording.report import ending_note, summary, unfinished_note
from app.wording.short_names import short_drafter, with_short_names
from app.wording.walk_text import walk_text
from models.library.catalog import STARTER


def hear(screen: ConversationScreen, message: engine.Message) -> None:
    """Handle a message of the engine."""
    _HANDLERS[type(message)](screen, message)


def _on_ready(screen: ConversationScreen, ready: Ready) -> None:
    first, screen.ready = screen.ready is None, ready
    screen.request = replace(screen.request, plan=screen.wanted)
    screen.dialogue.drafter = ready.drafter
    screen.flow.ready(ready)
    if screen.loads_target:
        # Its context is a new one, also where it is the same model.
        screen.flow.context_used = 0
    # Also for a later model: a new conversation begins below it.
    screen.transcript.greeting = _greeting(ready, screen.request)
    if first:
        _begin(screen, ready)
    else:
        screen.dialogue.record.model = ready.model
        screen.dialogue.record.source = source_of(screen.request.plan.model)
        screen.note(
            f"{ready.model}: {ready.description}, context {ready.context_size:,}, "
            f"drafter {short_drafter(ready.drafter)}"
        )
    for note in (*ready.notes, *ready.chat_notes):
        screen.note(note)
    screen.link.recall(*screen.dialogue.resumed())


def _begin(screen: ConversationScreen, ready: Ready) -> None:
    """Show a resumed conversation, or begin a new one."""
    request, dialogue = screen.request, screen.dialogue
    dialogue.record = start_recorder(ready.model, request.plan.model, request.resumed, saved=request.saved, wait=0)
    for entry in dialogue.record.branch():
        add_entry(screen, entry)
    if request.resumed is not None:
        bring_unanswered(screen, request.resumed)
    if dialogue.record.private:
        screen.note("Private: nothing of this chat is saved.")
    if note := form_note(request.settings):
        screen.note(note)


def _on_reading(screen: ConversationScreen, reading: Reading) -> None:
    screen.flow.reading = reading
    screen.show_flow()


def _on_round(screen: ConversationScreen, message: Said) -> None:
    entry = screen.dialogue.hear(message)
    screen.flow.hear(message, screen.now())
    if entry is not None:
        probabilities = [exp(one.logprob) for one in message.round.likelihoods]
        screen.transcript.append(entry, message.text, message.lengths, origins(message.round), probabilities)


def _on_watched(screen: ConversationScreen, watched: Watched) -> None:
    screen.flow.hear(watched, screen.now())
    screen.show_flow()


def _on_ended(screen: ConversationScreen, ended: Ended) -> None:
    entry = screen.dialogue.hear(ended)
    screen.flow.hear(ended, screen.now())
    if entry is None:
        return
    screen.link.keep(screen.dialogue.record.key)
    if ended.answer:
        screen.transcript.append(entry, ended.text)
        has_text = bool(screen.dialogue.record.entries[entry].parts.answer)
        formed = has_text and screen.dialogue.settings.grammar is not None
        notes = [
            ending_note(ended.finish, in_chat=True, formed=formed),
            None if has_text else unfinished_note(ended.finish),
        ]
        figures = " ".join(filter(None, [*notes, summary(replace(ended, drafter=short_drafter(ended.drafter)))]))
        screen.transcript.finish(entry, " · ".join(filter(None, [figures, alternatives_text(screen, entry)])))
    else:
        remove_empty_answer(screen, noted=True)
    screen.show_flow()


def _on_recalled(screen: ConversationScreen, recalled: Recalled) -> None:
    screen.flow.recall(recalled.held)
    screen.show_flow()


def _on_failed(screen: ConversationScreen, failed: Failed) -> None:
    if screen.busy == "answering":
        screen.dialogue.record.fail()
        remove_empty_answer(screen)
    if screen.ready is None:
        # Nothing to chat with: the way out is the one of every other command.
        screen.failure = failed.error
        screen.app.exit(failed.error.exit_code)
        return
    screen.wanted = screen.request.plan
    take_back(screen)
    screen.fail(failed.error)


def _on_explained(screen: ConversationScreen, explained: Explained) -> None:
    # Only now: what was asked while a model or a drafter was loaded is answered by what came of that.
    drafter, found = screen.dialogue.drafter, with_short_names(explained.explanation)
    about = f"Drafter {short_drafter(drafter)}, {draft_length_text(screen.dialogue.settings)}."
    full = [] if short_drafter(drafter) == drafter else [f"Full name: {drafter}"]

    def draw(width: int) -> str:
        head = [line for text in (about, *full) for line in wrapped(text, 0, 2, width)]
        return "\n".join([*head, "", explanation_text(found, width)])

    open_once(screen.app, SheetScreen("Costs and gains of drafting", draw))


def _on_walked(screen: ConversationScreen, walked: Walked) -> None:
    if walked.walk is None:
        screen.note(walked.reason)
        return
    walked = replace(walked, walk=replace(walked.walk, source=short_drafter(walked.walk.source)))
    open_once(screen.app, SheetScreen("How a draft was verified", lambda width: walk_text(walked, "utf-8", width)))


def _greeting(ready: Ready, request: Request) -> str:
    lines = [f"{ready.model} is ready: {ready.description}, context {ready.context_size:,} tokens."]
    if thinks := thinking_note(request.settings, ready.efforts):
        lines.append(thinks)
    if request.plan.model == STARTER:
        lines.append(
            "This small model is here for a first look. For real work, start with a GGUF file of your own: "
            "localspec run FILE.gguf, and --draft TINY.gguf to speed it up. /model shows what is on this machine."
        )
    return "\n\n".join([*lines, "Type a message. F1 shows all keys, / all commands, @ attaches a file."])


_HANDLERS: Mapping[type, Callable[[ConversationScreen, Any], None]] = {
    Ready: _on_ready,
    Reading: _on_reading,
    Said: _on_round,
    Watched: _on_watched,
    Ended: _on_ended,
    Failed: _on_failed,
    Explained: _on_explained,
    Walked: _on_walked,
    Recalled: _on_recalled,
}
