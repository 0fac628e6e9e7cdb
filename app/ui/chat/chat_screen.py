"""The chat screen: messages with the panel beside them, the prompt below, and the handlers of events and mail."""

from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import ActiveBinding, BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Key
from textual.widgets import TextArea

from app.chat_input.input_text import is_command
from app.chat_input.keys import KEYS
from app.flags.request import Request
from app.ui.chat.actions import ACTIONS, BINDINGS
from app.ui.chat.commands import COMMANDS, complete_argument, run_command
from app.ui.chat.conversation_screen import ConversationScreen
from app.ui.chat.conversing import ask, copy, replay, say, switch_branch
from app.ui.chat.editing import edit
from app.ui.chat.failures import survived
from app.ui.chat.link import Link
from app.ui.chat.mailbox import Mailbox, Pace
from app.ui.chat.message_handlers import hear
from app.ui.chat.messages import LoadProgress, Mail, MailCame
from app.ui.drawing.key_footer import KeyFooter
from app.ui.panel.load_words import load_words
from app.ui.panel.panel import SpeculationPanel
from app.ui.panel.status import StatusLine
from app.ui.prompt.prompt import Prompt
from app.ui.prompt.prompt_area import PromptArea
from app.ui.prompt.typed_text import Outgoing
from app.ui.transcript.code_lines import warm_up
from app.ui.transcript.transcript import Transcript


class ChatScreen(ConversationScreen):
    """The chat screen: keys, layout and event handlers of one conversation."""

    BINDINGS: ClassVar[list[BindingType]] = BINDINGS

    def __init__(self, request: Request, link: Link, mailbox: Mailbox, now: Callable[[], float]) -> None:
        """Start without a model. The engine's messages come from `mailbox`; `now` returns seconds on a steady clock."""
        super().__init__(request, link, now)
        self.mailbox = mailbox
        self.outgoing = Outgoing(self)
        self._pace = Pace()
        self._begun = 0.0
        """Time of `now` at the start of the first load, in seconds."""

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        with Horizontal(id="middle"):
            yield Transcript(id="transcript")
            yield SpeculationPanel(id="panel")
        with Vertical(id="bottom"):
            yield StatusLine(id="status")
            yield Prompt(id="prompt")
            yield KeyFooter(id="footer", compact=True, show_command_palette=False)

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        """The keys of a selected message, then those of `app.chat_input.keys` in their order, then the prompt's."""
        order = {name: place for place, name in enumerate(KEYS)}

        def place(one: ActiveBinding) -> int:
            return -1 if isinstance(one.node, Transcript) else order.get(one.binding.id or "", len(order))

        return dict(sorted(super().active_bindings.items(), key=lambda one: place(one[1])))

    def on_mount(self) -> None:
        """Load the models; the user may type meanwhile."""
        prompt = self.prompt
        prompt.sources.commands = {name: command.help for name, command in COMMANDS.items()}
        prompt.sources.complete_argument = complete_argument
        prompt.history.keep = self.request.saved
        prompt.vim = self.request.screen.vim
        prompt.holds = self.outgoing.holds
        self.watch(self.transcript, "selected", self.show_flow, init=False)
        self.watch(self.transcript, "more_below", self.show_flow, init=False)
        self.watch(prompt, "mode", self.show_flow)
        prompt.focus()
        self.busy, self._begun = "loading", self.now()
        self._greet()
        self._greeting_timer = self.set_interval(1, self._greet)
        self.call_after_refresh(self._begin_load)

    def _begin_load(self) -> None:
        """Load the models once the first picture is there: the engine's libraries take longer to import than it."""
        self.load(self.wanted)
        warm_up()
        import app.ui.transcript.markdown_lines  # noqa: F401 - what the first answer needs, before it comes

    def _greet(self) -> None:
        """Say what the first load does, until it is over."""
        if self.ready is None:
            self.transcript.greeting = load_words(self.wanted.model, self.flow.loading, self.now() - self._begun)
        else:
            self._greeting_timer.stop()

    def watch_busy(self, busy: str) -> None:
        """Stop the cursor's blinking during an answer: each blink is a drawing."""
        self.query_one(PromptArea).cursor_blink = busy != "answering"

    def watch_editing(self) -> None:
        """Show in the status line whether an earlier message is edited."""
        self.show_flow()

    def on_resize(self) -> None:
        """Lay out the screen at its new size."""
        self.lay_out()

    @on(Prompt.Submitted)
    @survived
    def submitted(self, event: Prompt.Submitted) -> None:
        """Run a command, or send a message, from the prompt."""
        self.leaving = False
        if event.recalled:
            # The text came from the history, so it no longer edits a message.
            self.editing = None
        if is_command(event.text):
            run_command(self, event.text)
            return
        self.outgoing.came()
        if event.text.strip():
            say(self, event.text, event.pasted)

    @on(TextArea.Changed)
    def typed(self, event: TextArea.Changed) -> None:
        """Forget that the user was about to leave, and what was to be edited when nothing of it is left."""
        self.leaving = False
        if not event.text_area.text:
            self.editing = None
        elif self.editing is not None:
            # Up leads away from it, and Down back.
            self.show_flow()

    @on(MailCame)
    async def collect(self) -> None:
        """Handle all waiting messages, and poll again after a pause: each drawing slows decoding."""
        mail = self.mailbox.take()
        for one in mail:
            await self.receive(one)
        if mail:
            self.set_timer(self._pace.rest(decoding=self.flow.running), self.collect)

    @survived
    def receive(self, mail: Mail) -> None:
        """Handle one message of the engine."""
        if isinstance(mail, LoadProgress):
            self.flow.loading = (mail.name, mail.fraction)
            self._greet()
            self.show_flow()
        elif mail.message is None:
            self.over(mail.job)
        else:
            hear(self, mail.message)

    def over(self, job: int) -> None:
        """End a job, and send the message that waited for it."""
        if job < self.load_job:
            # A later one goes on.
            return
        was, self.busy = self.busy, "answering" if self.dialogue.record.growing is not None else ""
        if was == "answering" and not self.busy:
            self.ended_at = self.now()
        self.flow.idle()
        self.show_flow()
        for note in self.dialogue.record.notes():
            self.note(note)
        if self.waiting is not None and not self.busy and self.ready is not None:
            waiting, self.waiting = self.waiting, None
            ask(self, waiting.message, waiting.instead_of)

    @survived
    def action_does(self, name: str) -> None:
        """Run the action of a key of `app.chat_input.keys`."""
        if name != "interrupt":
            self.leaving = False
        ACTIONS[name](self)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable vim's redo only in the prompt's normal mode."""
        if action == "redo_in_vim":
            return isinstance(self.focused, PromptArea) and self.prompt.mode == "normal"
        return super().check_action(action, parameters)

    def action_redo_in_vim(self) -> None:
        """Hand the key to the prompt, behind those that were typed before."""
        self.query_one(PromptArea).post_message(Key("ctrl+r", None))

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
        """Switch to another branch of a message."""
        switch_branch(self, event.key)

    @on(Prompt.EditorWanted)
    @survived
    def editor_wanted(self) -> None:
        """Open the prompt in the user's editor."""
        self.prompt.edit_externally(self.app)
