"""The dialog that fetches a model: what it is, the progress of the download, and what to do next."""

import threading
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widgets import Static

from app.catalog.recommended.offers import Offer
from app.ui.drawing.dialog import Dialog
from app.ui.panel.bars import size
from app.ui.start.inventory import offline

_ASK = "Enter fetches {amount}, Escape closes."
_RUNS = "Escape stops; what has come stays."
_READY = "Ready. Enter opens a chat, Escape closes."
_AGAIN = "Enter tries again, Escape closes."


class FetchScreen(Dialog[tuple[str, ...] | None]):
    """Fetches one offer. It returns the arguments that open a chat with it, or None if it was closed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "go_on", "Go on", id="fetch.go_on"),
        Binding("escape,ctrl+c", "close", "Close", id="fetch.close", priority=True),
    ]
    DEFAULT_CSS = """
    FetchScreen {
        & #fetch { scrollbar-size-vertical: 1; }
        & #told { height: auto; max-height: 14; }
        & #progress { margin: 1 0 0 0; }
        & #next { margin: 1 0 0 0; }
    }
    """

    class Told(Message):
        """A line for the log, or with `is_progress` for the line that changes."""

        def __init__(self, text: str, *, is_progress: bool = False) -> None:
            super().__init__()
            self.text = text
            self.is_progress = is_progress

    class Over(Message):
        """The download has ended: with the arguments that open a chat, or with what went wrong."""

        def __init__(self, arguments: tuple[str, ...] = (), problem: str = "") -> None:
            super().__init__()
            self.arguments = arguments
            self.problem = problem

    def __init__(self, offer: Offer) -> None:
        """Take what is fetched."""
        super().__init__()
        self._offer = offer
        self._lines: list[str] = []
        self._arguments: tuple[str, ...] = ()
        self._stop: threading.Event | None = None
        """Set to stop the download; None: none runs."""

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        with VerticalScroll(id="fetch", classes="dialog", can_focus=False):
            yield Static(f"Get {self._offer.title}", classes="title", markup=False)
            yield Static(_about(self._offer), markup=False)
            with VerticalScroll(id="told", can_focus=False):
                yield Static("", id="log", markup=False)
            yield Static("", id="progress", markup=False)
            yield Static("", id="next", classes="keys", markup=False)

    def on_mount(self) -> None:
        """Say what Enter does."""
        reason = offline()
        ask = f"Nothing can be fetched now ({reason}). Escape closes." if reason else ""
        self._say(ask or _ASK.format(amount=size(self._offer.fetched)))

    def on_unmount(self) -> None:
        """Stop the download with the screen."""
        if self._stop is not None:
            self._stop.set()

    def action_go_on(self) -> None:
        """Start the download, or open what was fetched."""
        if self._arguments:
            self.dismiss(self._arguments)
        elif self._stop is None and not offline():
            self._lines, self._stop = [], threading.Event()
            self._say(_RUNS)
            threading.Thread(target=self._fetch, args=(self._stop,), daemon=True, name="start-fetch").start()

    def action_close(self) -> None:
        """Stop the download; without one, close the screen."""
        if self._stop is None:
            self.dismiss(None)
        else:
            self._stop.set()
            self._say("Stopping …")

    def on_fetch_screen_told(self, event: Told) -> None:
        """Show what the download says."""
        if event.is_progress:
            self.query_one("#progress", Static).update(event.text)
            return
        self._lines.append(event.text)
        self.query_one("#log", Static).update("\n".join(self._lines))
        self.query_one("#told", VerticalScroll).scroll_end(animate=False)

    def on_fetch_screen_over(self, event: Over) -> None:
        """Say what comes next."""
        self._stop, self._arguments = None, event.arguments
        self.query_one("#progress", Static).update(event.problem)
        self._say(_READY if event.arguments else _AGAIN)

    def _say(self, text: str) -> None:
        self.query_one("#next", Static).update(text)
        self.on_resize()

    def on_resize(self) -> None:
        """Show the end of what a low screen has no room for."""
        self.call_after_refresh(self.query_one("#fetch", VerticalScroll).scroll_end, animate=False)

    def _fetch(self, stop: threading.Event) -> None:
        """Fetch on this thread, and report the end."""
        # The hub's library takes longer to import than the screen to open.
        from app.catalog.fetch_progress import FetchStopped
        from app.catalog.pulling import PullRequest, pull
        from app.ui.chat.failures import localspec_error

        request = PullRequest(self._offer.repo, with_draft=self._offer.draft is not None, ask=False)
        try:
            record = pull(request, _Output(self, stop), lambda seconds: _pause(stop, seconds))
        except FetchStopped:
            self.post_message(self.Over(problem="Stopped before anything came."))
        except Exception as error:  # one that left this thread would leave the screen waiting
            failure = localspec_error(error)
            parts = (failure.title, failure.cause, failure.hint)
            self.post_message(self.Over(problem="\n".join(part for part in parts if part)))
        else:
            assert record is not None, "only a question can be declined"
            draft = ("--draft", record["draft"]["name"]) if "draft" in record else ()
            self.post_message(self.Over(("run", record["name"], *draft)))


class _Output:
    """Passes on what a download says to a screen, and stops it."""

    def __init__(self, screen: FetchScreen, stop: threading.Event) -> None:
        self._screen = screen
        self._stop = stop

    def progress(self, text: str) -> None:
        """Replace the line about the download; raises FetchStopped."""
        _pause(self._stop, 0)
        self._screen.post_message(FetchScreen.Told(text, is_progress=True))

    def clear_progress(self) -> None:
        """Empty that line."""
        self._screen.post_message(FetchScreen.Told("", is_progress=True))

    def show(self, text: str) -> None:
        """Add a line."""
        self._screen.post_message(FetchScreen.Told(text))

    tell = show

    def warn(self, text: str) -> None:
        """Add a note."""
        self.show(f"note: {text}")


def _pause(stop: threading.Event, seconds: float) -> None:
    """Wait, or raise FetchStopped when the user stops the download."""
    from app.catalog.fetch_progress import FetchStopped

    if stop.wait(seconds):
        raise FetchStopped


def _about(offer: Offer) -> str:
    draft = f", with {offer.draft.title} as its draft model ({size(offer.draft.size)})" if offer.draft else ""
    return f"{offer.repo}: {size(offer.size)}{draft}. Licence: {offer.licence}."
