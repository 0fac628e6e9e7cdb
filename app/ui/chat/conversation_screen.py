"""The state of a conversation on the screen, and how it is shown: what keys, commands and engine messages work on."""

from collections.abc import Callable
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
from app.ui.drawing.origin_styles import legend, palette_of
from app.ui.drawing.sparing_screen import SparingScreen
from app.ui.panel.flow import Flow
from app.ui.panel.panel import SpeculationPanel
from app.ui.panel.status import StatusLine
from app.ui.prompt.prompt import Prompt
from app.ui.transcript.transcript import Transcript
from drafters.registry import DrafterSpec
from models.errors import LocalspecError

_WIDE = 110
"""Columns from which on the panel stands beside the messages unasked."""
_TALL = 16
"""Lines from which on the keys have a line of their own."""
MESSAGE_SELECTED = "message selected, Esc to type"
"""Shown in the status line while keys act on a selected message."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A message that is asked when the model is loaded."""

    said: Expanded
    instead_of: int | None
    """The earlier message that it takes the place of."""


class ConversationScreen(SparingScreen):
    """One conversation with one engine, without keys: `ChatScreen` adds them, the widgets and the event handlers."""

    busy: reactive[str] = reactive("", init=False, repaint=False)
    """What the engine does: "loading", "answering"; "" when it waits."""

    editing: reactive[int | None] = reactive(None, init=False, repaint=False)
    """The earlier message that what is in the prompt takes the place of."""

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
    def panel_shown(self) -> bool:
        """Whether the panel stands beside the messages."""
        return self.size.width >= _WIDE if self.panel_wanted is None else self.panel_wanted

    @property
    def message_selected(self) -> bool:
        """Whether keys act on a selected message."""
        return self.transcript.has_focus and self.transcript.selected is not None

    def lay_out(self) -> None:
        """Show what there is room for."""
        self.query_one(SpeculationPanel).display = self.panel_shown
        self.query_one(Footer).display = self.size.height >= _TALL
        self.show_flow()

    def load(self, plan: LoadPlan, drafter: DrafterSpec | None = None) -> None:
        """Load what a plan names, or of it the drafter alone."""
        self.busy, self.wanted, self.loads_target = "loading", plan, drafter is None
        self.load_job = self.link.use_drafter(drafter) if drafter else self.link.load(plan)

    @survived
    def chosen(self, take: Callable[["ConversationScreen", str], None], name: str | None) -> None:
        """Take what was chosen on a screen of its own, if anything was."""
        if name is not None:
            take(self, name)

    def show_flow(self) -> None:
        """Draw the figures."""
        panel = self.query_one(SpeculationPanel)
        if panel.display:
            panel.show(self.flow)
        editing = self.editing is not None and not self.prompt.history.is_walked
        chosen = MESSAGE_SELECTED if self.message_selected else self.prompt.mode
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
