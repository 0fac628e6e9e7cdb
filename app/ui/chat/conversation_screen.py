"""Base class of the chat screen: the state of a conversation and its display, used by keys, commands and handlers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.text import Text
from textual.reactive import reactive
from textual.widgets import Footer

from app.chat_input.mentions import Expanded
from app.engine.conversation.messages import Ready
from app.engine.decoding.origins import Origin
from app.engine.runtime.load import LoadPlan
from app.flags.request import Request
from app.ui.chat.dialogue import Dialogue
from app.ui.chat.failures import survived
from app.ui.chat.link import Link
from app.ui.drawing.marks import Marks, confidence_legend
from app.ui.drawing.origin_styles import legend, palette_of
from app.ui.drawing.places import TALL
from app.ui.drawing.sparing_screen import SparingScreen
from app.ui.panel.flow import Flow
from app.ui.panel.panel import SpeculationPanel
from app.ui.panel.status import StatusLine
from app.ui.prompt.prompt import Prompt
from app.ui.transcript.transcript import Transcript
from drafters.registry import DrafterSpec
from models.errors import LocalspecError

_WIDE = 90
"""Least columns of the screen at which the panel stands beside the messages, and not below them."""
MESSAGE_SELECTED = "message selected, Esc to type"
"""Shown in the status line while keys act on a selected message."""
EDITING = "editing, Esc cancels"
"""Shown in the status line while the prompt's text replaces an earlier message."""
MORE_BELOW = "more below, PgDn"
"""Shown in the status line while there is text below the last line that is seen."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A message that is sent when the model is loaded."""

    message: Expanded
    instead_of: int | None
    """Id of the earlier message that it replaces on a new branch."""


class ConversationScreen(SparingScreen):
    """One conversation with one engine, without keys: `ChatScreen` adds them, the widgets and the event handlers."""

    busy: reactive[str] = reactive("", init=False, repaint=False)
    """State of the engine: "loading", "answering", or "" while idle."""

    editing: reactive[int | None] = reactive(None, init=False, repaint=False)
    """Id of the earlier message that the prompt's text replaces when sent; None: a new message."""

    def __init__(self, request: Request, link: Link, now: Callable[[], float]) -> None:
        """Start without a model. `now` returns seconds on a steady clock."""
        super().__init__()
        self.request = request
        self.link = link
        self.now = now
        self.dialogue = Dialogue(request.settings, request.system, request.usual_system)
        self.flow = Flow()
        self.ready: Ready | None = None
        self.failure: LocalspecError | None = None
        """Error that kept the first load from ending in a chat."""
        self.waiting: Waiting | None = None
        """A message that is sent when the model is loaded."""
        self.wanted = request.plan
        """Plan of the last load, running or ended."""
        self.loads_target = True
        """Whether the last load included the target, and not the drafter alone."""
        self.unsent = ""
        """Text of the prompt when an earlier message took its place to be edited."""
        self.models: Sequence[str] = ()
        """Names of the models on this machine, as the palette offers them."""
        self.leaving = False
        """Whether Ctrl-C was pressed once with no answer to stop; a second press leaves."""
        self.panel_shown = False
        """Whether the panel is shown."""
        self.ended_at: float | None = None
        """Time of `now` at the end of the last answer, in seconds; None before the first."""
        self.load_job = 0
        """The number of the last job that loads something."""

    @property
    def transcript(self) -> Transcript:
        """The messages."""
        return self.query_one(Transcript)

    @property
    def prompt(self) -> Prompt:
        """The prompt."""
        return self.query_one(Prompt)

    @property
    def message_selected(self) -> bool:
        """Whether keys act on a selected message."""
        # The widget hears of its focus later.
        return self.focused is self.transcript and self.transcript.selected is not None

    def lay_out(self) -> None:
        """Show or hide the panel and the line of keys, as the screen's size allows."""
        self.query_one(SpeculationPanel).display = self.panel_shown
        self.query_one("#middle").set_class(self.size.width < _WIDE, "-narrow")
        self.query_one(Footer).display = self.size.height >= TALL
        self.show_flow()

    def load(self, plan: LoadPlan, drafter: DrafterSpec | None = None) -> None:
        """Load the models of a plan, or with `drafter` only that drafter."""
        self.busy, self.wanted, self.loads_target = "loading", plan, drafter is None
        self.load_job = self.link.use_drafter(drafter) if drafter else self.link.load(plan)

    @survived
    def chosen(self, take: Callable[["ConversationScreen", str], None], name: str | None) -> None:
        """Pass on the choice made in a dialog; `name` is None if the dialog was closed without one."""
        if name is not None:
            take(self, name)

    def show_flow(self) -> None:
        """Draw the panel and the status line."""
        panel = self.query_one(SpeculationPanel)
        if panel.display:
            panel.show(self.flow)
        editing = self.editing is not None and not self.prompt.history.is_walked
        chosen = MESSAGE_SELECTED if self.message_selected else self.prompt.mode
        below = MORE_BELOW if self.transcript.more_below else ""
        mode = " · ".join(filter(None, [chosen, EDITING if editing else "", below]))
        self.query_one(StatusLine).show(self.flow, mode, self._legend())

    def _legend(self) -> Text | None:
        """Return the legend of the marks; None while nothing is marked."""
        marks, colours = self.transcript.marks, palette_of(self.app)
        if marks is Marks.OFF:
            return None
        if marks is Marks.CONFIDENCE:
            return confidence_legend(colours)
        return legend(colours, [origin for origin in Origin if origin in self.flow.origins] or Origin)

    def note(self, text: str) -> None:
        """Show a note of the program among the messages."""
        self.transcript.add_note(text, "note")

    def output(self, text: str) -> None:
        """Show the output of a command among the messages."""
        self.transcript.add_note(text, "output")

    def fail(self, error: LocalspecError) -> None:
        """Show an error with its cause and hint among the messages."""
        self.transcript.add_note(str(error), "error")
