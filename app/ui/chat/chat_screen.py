"""The chat screen: messages above, the panel beside them, the prompt below, and what becomes of each engine message."""

from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import ActiveBinding, BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Key
from textual.reactive import reactive
from textual.widgets import Footer, TextArea

from app.chat_input.input_text import is_command
from app.chat_input.keys import KEYS
from app.engine.conversation.messages import Ready
from app.engine.decoding.origins import Origin
from app.engine.runtime.load import LoadPlan
from app.flags.request import Request
from app.ui.chat.actions import ACTIONS, BINDINGS
from app.ui.chat.commands import COMMANDS, complete_argument, run_command
from app.ui.chat.conversing import Waiting, ask, copy, edit, replay, say, switch_branch
from app.ui.chat.dialogue import Dialogue
from app.ui.chat.failures import survived
from app.ui.chat.link import Link
from app.ui.chat.mailbox import Mailbox, Pace
from app.ui.chat.message_handlers import hear
from app.ui.chat.messages import LoadProgress, Mail, MailCame
from app.ui.drawing.origin_styles import legend, palette_of
from app.ui.drawing.sparing_screen import SparingScreen
from app.ui.panel.flow import Flow
from app.ui.panel.panel import SpeculationPanel
from app.ui.panel.status import StatusLine
from app.ui.prompt.prompt import Prompt
from app.ui.prompt.prompt_area import PromptArea
from app.ui.prompt.typed_text import CHOSEN, Outgoing, message_chosen
from app.ui.transcript.code_lines import warm_up
from app.ui.transcript.transcript import Transcript
from drafters.registry import DrafterSpec
from models.errors import LocalspecError

_WIDE = 110
"""Columns from which on the panel stands beside the messages unasked."""
_TALL = 16
"""Lines from which on the keys have a line of their own."""


class ChatScreen(SparingScreen):
    """One conversation with one engine."""

    BINDINGS: ClassVar[list[BindingType]] = BINDINGS

    busy: reactive[str] = reactive("", init=False, repaint=False)
    """What the engine does: "loading", "answering"; "" when it waits."""

    editing: reactive[int | None] = reactive(None, init=False, repaint=False)
    """The earlier message that what is in the prompt takes the place of."""

    def __init__(self, request: Request, link: Link, mailbox: Mailbox, now: Callable[[], float]) -> None:
        """Take what was asked for on the command line, the engine, what it says, and a clock."""
        super().__init__()
        self.request = request
        self.link = link
        self.mailbox = mailbox
        self.now = now
        self.dialogue = Dialogue(request.settings, request.system, request.usual_system)
        self.flow = Flow()
        self.ready: Ready | None = None
        self.failure: LocalspecError | None = None
        """Why there could be no chat."""
        self.waiting: Waiting | None = None
        """A message that is asked when the model is loaded."""
        self.wanted = request.plan
        """What is being loaded, and the plan once it is."""
        self.loads_target = True
        """Whether it is the target that is being loaded, or was last, and not its drafter alone."""
        self.leaving = False
        """Whether Ctrl-C was pressed once with nothing to stop."""
        self.panel_wanted: bool | None = None
        """Whether the panel is shown; None: where there is room."""
        self.ended_at: float | None = None
        """When the last answer ended, on the clock; None: there was none."""
        self.outgoing = Outgoing(self)
        self._pace = Pace()
        self._load_job = 0

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        with Horizontal(id="middle"):
            yield Transcript(id="transcript")
            yield SpeculationPanel(id="panel")
        with Vertical(id="bottom"):
            yield StatusLine(id="status")
            yield Prompt(id="prompt")
            yield Footer(id="footer", compact=True, show_command_palette=False)

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        """The keys in the order of `app.chat_input.keys`; the prompt's own would come first."""
        order = {name: place for place, name in enumerate(KEYS)}
        found = super().active_bindings
        return dict(sorted(found.items(), key=lambda one: order.get(one[1].binding.id or "", len(order))))

    def on_mount(self) -> None:
        """Load the models; the user may type meanwhile."""
        prompt = self.prompt
        prompt.sources.commands = {name: command.help for name, command in COMMANDS.items()}
        prompt.sources.complete_argument = complete_argument
        prompt.history.keep = self.request.saved
        prompt.vim = self.request.screen.vim
        prompt.holds = self.outgoing.holds
        self.watch(self.transcript, "selected", self.show_flow, init=False)
        self.watch(prompt, "mode", self.show_flow)
        prompt.focus()
        self.transcript.greeting = "Loading the model …"
        self.load(self.wanted)
        self.call_after_refresh(warm_up)

    def watch_busy(self, busy: str) -> None:
        """Let the cursor stand still while an answer runs: each blink would be one more drawing."""
        self.query_one(PromptArea).cursor_blink = busy != "answering"

    def watch_editing(self) -> None:
        """Tell whether an earlier message is edited."""
        self.show_flow()

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
        self.show_flow()

    @on(Prompt.Submitted)
    @survived
    def submitted(self, event: Prompt.Submitted) -> None:
        """Take a line from the prompt: a command, or something to say to the model."""
        self.leaving = False
        if event.recalled:
            # What was to be edited stood elsewhere.
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
        """Do what all that came asks for, and look again when it was drawn: each drawing takes the model some time."""
        mail = self.mailbox.take()
        for one in mail:
            await self.heard(one)
        if mail:
            self.set_timer(self._pace.rest(decoding=self.flow.running), self.collect)

    @survived
    def heard(self, mail: Mail) -> None:
        """Do what a message of the engine asks for."""
        if isinstance(mail, LoadProgress):
            self.flow.loading = (mail.name, mail.fraction)
            self.show_flow()
        elif mail.said is None:
            self.over(mail.job)
        else:
            hear(self, mail.said)

    def load(self, plan: LoadPlan, drafter: DrafterSpec | None = None) -> None:
        """Load what a plan names, or of it the drafter alone."""
        self.busy, self.wanted, self.loads_target = "loading", plan, drafter is None
        self._load_job = self.link.use_drafter(drafter) if drafter else self.link.load(plan)

    def over(self, job: int) -> None:
        """Take note that a job is over, and ask what had to wait."""
        if job < self._load_job:
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
            ask(self, waiting.said, waiting.instead_of)

    @survived
    def action_does(self, name: str) -> None:
        """Do what a key of `app.chat_input.keys` is for."""
        if name != "interrupt":
            self.leaving = False
        ACTIONS[name](self)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Give vim its redo only where the prompt takes vim's commands."""
        if action == "redo_in_vim":
            return isinstance(self.focused, PromptArea) and self.prompt.mode == "normal"
        return super().check_action(action, parameters)

    def action_redo_in_vim(self) -> None:
        """Hand the key to the prompt, behind those that were typed before."""
        self.query_one(PromptArea).post_message(Key("ctrl+r", None))

    @survived
    def chosen(self, take: Callable[["ChatScreen", str], None], name: str | None) -> None:
        """Take what was chosen on a screen of its own, if anything was."""
        if name is not None:
            take(self, name)

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
        editing = self.editing is not None and not self.prompt.history.is_walked
        chosen = CHOSEN if message_chosen(self) else self.prompt.mode
        mode = " ".join(filter(None, [chosen, "editing" if editing else ""]))
        self.query_one(StatusLine).show(self.flow, mode, None if panel.display else self._legend())

    def _legend(self) -> Text | None:
        """Return how the marks of the tokens are to be read, where they are shown."""
        if not self.transcript.provenance:
            return None
        colours = palette_of(self.app)
        return legend(colours, [origin for origin in Origin if origin in self.flow.origins] or Origin)

    def note(self, text: str) -> None:
        """Show a line that nobody said."""
        self.transcript.add_note(text, "note")

    def output(self, text: str) -> None:
        """Show what a command prints."""
        self.transcript.add_note(text, "output")

    def fail(self, error: LocalspecError) -> None:
        """Show what failed, and why, and what to do."""
        self.transcript.add_note(str(error), "error")
