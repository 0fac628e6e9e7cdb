"""The chat screen: messages above, the panel beside them, the prompt below, and what becomes of each engine message."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.widgets import Footer

from app.engine.messages import Ended, Explained, Failed, Ready, Said, Walked, Watched
from app.engine.origins import origins
from app.engine.session import Reading
from app.explanation import explanation_text
from app.history.figures import figures
from app.history.recorder import source_of, start_recorder
from app.history.records import Entry
from app.keys import KEYS
from app.report import ending_note, summary
from app.request import Request
from app.ui.actions import ACTIONS
from app.ui.commands import COMMANDS, complete_argument, run_command
from app.ui.conversing import ask, copy, edit, replay, say, switch_branch, unsaid
from app.ui.dialogue import Dialogue
from app.ui.flow import Flow
from app.ui.link import Link
from app.ui.messages import Heard, LoadProgress
from app.ui.mishaps import survived
from app.ui.panel import SpeculationPanel
from app.ui.prompt import Prompt
from app.ui.status import StatusLine
from app.ui.transcript import Transcript
from app.walk_text import walk_text
from models.catalog import STARTER
from models.errors import Cancelled, LocalspecError

_WIDE = 110
"""Columns from which on the panel stands beside the messages unasked."""
_TALL = 16
"""Lines from which on the keys have a line of their own."""


class ChatScreen(Screen[int]):
    """One conversation with one engine."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            key.default,
            f"does('{key.action}')",
            key.label or key.help,
            id=name,
            show=bool(key.label),
            priority=name != "chat.stop",
        )
        for name, key in KEYS.items()
    ]

    def __init__(self, request: Request, link: Link, now: Callable[[], float]) -> None:
        """Take what was asked for on the command line, the engine, and a clock."""
        super().__init__()
        self.request = request
        self.link = link
        self.now = now
        self.dialogue = Dialogue(request.settings, request.system)
        self.flow = Flow()
        self.ready: Ready | None = None
        self.busy = ""
        """What the engine does: "loading", "answering"; "" when it waits."""
        self.waiting: str | None = None
        """A message that is asked when the model is loaded."""
        self.wanted = request.plan
        """What is being loaded, and the plan once it is."""
        self.editing: int | None = None
        """The earlier message that the next one takes the place of."""
        self.leaving = False
        """Whether Ctrl-C was pressed once with nothing to stop."""
        self.panel_wanted: bool | None = None
        """Whether the panel is shown; None: where there is room."""

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        with Horizontal(id="middle"):
            yield Transcript(id="transcript")
            yield SpeculationPanel(id="panel")
        with Vertical(id="bottom"):
            yield StatusLine(id="status")
            yield Prompt(id="prompt")
            yield Footer(id="footer", compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Load the models; the user may type meanwhile."""
        prompt = self.prompt
        prompt.commands = {name: command.help for name, command in COMMANDS.items()}
        prompt.complete_argument = complete_argument
        prompt.keep = self.request.saved
        prompt.vim = self.request.screen.vim
        self.watch(prompt, "mode", self.show_flow)
        prompt.focus()
        self.transcript.greeting = "Loading the model …"
        self.busy = "loading"
        self.link.load()

    @property
    def transcript(self) -> Transcript:
        """The messages."""
        return self.query_one(Transcript)

    @property
    def prompt(self) -> Prompt:
        """The prompt."""
        return self.query_one(Prompt)

    @property
    def panel_shown(self) -> bool:
        """Whether the panel stands beside the messages."""
        return self.size.width >= _WIDE if self.panel_wanted is None else self.panel_wanted

    def on_resize(self) -> None:
        """Give the panel and the keys room, or take it away."""
        self.lay_out()

    def lay_out(self) -> None:
        """Show what there is room for."""
        self.query_one(SpeculationPanel).display = self.panel_shown
        self.query_one(Footer).display = self.size.height >= _TALL

    @on(Prompt.Submitted)
    @survived
    def submitted(self, event: Prompt.Submitted) -> None:
        """Take a line from the prompt: a command, or something to say to the model."""
        self.leaving = False
        if event.text.startswith("/"):
            run_command(self, event.text)
        elif event.text.strip():
            say(self, event.text, event.pasted)

    @on(LoadProgress)
    def load_progress(self, event: LoadProgress) -> None:
        """Show what is being read."""
        self.flow.loading = (event.name_of_file, event.fraction)
        self.show_flow()

    @on(Heard)
    @survived
    def heard(self, event: Heard) -> None:
        """Do what a message of the engine asks for."""
        if event.said is None:
            self.over()
            return
        handler: Callable[[Any], None] = self._handlers()[type(event.said)]
        handler(event.said)

    def _handlers(self) -> dict[type, Callable[[Any], None]]:
        return {
            Ready: self._on_ready,
            Reading: self._on_reading,
            Said: self._on_said,
            Watched: self._on_watched,
            Ended: self._on_ended,
            Failed: self._on_failed,
            Explained: lambda said: self.output(explanation_text(said.explanation)),
            Walked: lambda said: self.output(walk_text(said, "utf-8")),
        }

    def _on_ready(self, ready: Ready) -> None:
        first, self.ready = self.ready is None, ready
        self.request = replace(self.request, plan=self.wanted)
        self.dialogue.drafter = ready.drafter
        self.flow.ready(ready)
        if first:
            self._begin(ready)
        else:
            self.dialogue.record.model = ready.model
            self.dialogue.record.source = source_of(self.request.plan.model)
            self.note(f"{ready.model}: {ready.description}, context {ready.context_size:,}, drafter {ready.drafter}")
        for note in ready.notes:
            self.note(note)
        self.link.recall(*self.dialogue.resumed())

    def _begin(self, ready: Ready) -> None:
        """Take over a conversation that goes on, or greet."""
        request, dialogue = self.request, self.dialogue
        dialogue.record = start_recorder(ready.model, request.plan.model, request.resumed, saved=request.saved, wait=0)
        self.transcript.greeting = _greeting(ready, request)
        for entry in dialogue.record.branch():
            self.add_entry(entry)
        if request.resumed is not None and request.resumed.unanswered is not None:
            self.prompt.set_text(request.resumed.unanswered)
        if dialogue.record.private:
            self.note("Private: nothing of this chat is kept.")

    def add_entry(self, entry: Entry) -> None:
        """Show a message that was said before."""
        if entry.answer is None:
            self.transcript.add_user(entry.id, entry.text)
            return
        rounds = self.dialogue.rounds(entry)
        lengths, marks = rounds.marks() if rounds else ((), ())
        self.transcript.add_answer(entry.id, entry.text, figures(entry.answer), lengths, marks)

    def _on_reading(self, reading: Reading) -> None:
        self.flow.reading = reading
        self.show_flow()

    def _on_said(self, said: Said) -> None:
        entry = self.dialogue.hear(said)
        self.flow.hear(said, self.now())
        if entry is not None:
            self.transcript.append(entry, said.text, said.lengths, origins(said.round))

    def _on_watched(self, watched: Watched) -> None:
        self.flow.hear(watched, self.now())
        self.show_flow()

    def _on_ended(self, ended: Ended) -> None:
        entry = self.dialogue.hear(ended)
        self.flow.hear(ended, self.now())
        if entry is None:
            return
        if ended.answer:
            self.transcript.append(entry, ended.text)
            note = ending_note(ended.finish)
            self.transcript.finish(entry, " ".join(filter(None, [note, summary(ended)])))
        else:
            unsaid(self, "Nothing was said, so the message is forgotten.")
        self.show_flow()

    def _on_failed(self, failed: Failed) -> None:
        if self.busy == "answering":
            self.dialogue.record.fail()
            unsaid(self, "")
        if self.busy == "loading" and self.ready is None and isinstance(failed.error, Cancelled):
            self.app.exit(130)
        self.fail(failed.error)

    def over(self) -> None:
        """Take note that a job is over, and ask what had to wait."""
        self.busy = "answering" if self.dialogue.record.growing is not None else ""
        self.flow.idle()
        self.show_flow()
        for note in self.dialogue.record.notes():
            self.note(note)
        if self.waiting is not None and not self.busy and self.ready is not None:
            text, self.waiting = self.waiting, None
            ask(self, text)

    @survived
    def action_does(self, name: str) -> None:
        """Do what a key of `app.keys` is for."""
        if name != "interrupt":
            self.leaving = False
        ACTIONS[name](self)

    @on(Transcript.Copied)
    @survived
    def copied(self, event: Transcript.Copied) -> None:
        """Copy what was chosen among the messages."""
        copy(self, event.text, event.what)

    @on(Transcript.EditWanted)
    @survived
    def edit_wanted(self, event: Transcript.EditWanted) -> None:
        """Edit a message."""
        edit(self, event.key)

    @on(Transcript.ReplayWanted)
    @survived
    def replay_wanted(self, event: Transcript.ReplayWanted) -> None:
        """Step through an answer."""
        replay(self, event.key)

    @on(Transcript.BranchWanted)
    @survived
    def branch_wanted(self, event: Transcript.BranchWanted) -> None:
        """Go on to another branch of a message."""
        switch_branch(self, event.key)

    @on(Prompt.EditorWanted)
    @survived
    def editor_wanted(self) -> None:
        """Open the prompt in the user's editor."""
        self.prompt.edit_externally(self.app)

    def show_flow(self) -> None:
        """Draw the figures."""
        panel = self.query_one(SpeculationPanel)
        if panel.display:
            panel.show(self.flow)
        self.query_one(StatusLine).show(self.flow, self.prompt.mode)

    def note(self, text: str) -> None:
        """Show a line that nobody said."""
        self.transcript.add_note(text, "note")

    def output(self, text: str) -> None:
        """Show what a command prints."""
        self.transcript.add_note(text, "output")

    def fail(self, error: LocalspecError) -> None:
        """Show what failed, and why, and what to do."""
        self.transcript.add_note(str(error), "error")


def _greeting(ready: Ready, request: Request) -> str:
    lines = [f"{ready.model} is ready: {ready.description}, context {ready.context_size:,} tokens."]
    if request.plan.model == STARTER:
        lines.append(
            "This small model is here for a first look. For real work start with a GGUF file of your own: "
            "localspec run FILE.gguf, and --draft TINY.gguf to speed it up. /model shows what is on this machine."
        )
    return "\n\n".join([*lines, "Ask something. F1 shows all keys, / all commands, @ names a file."])
