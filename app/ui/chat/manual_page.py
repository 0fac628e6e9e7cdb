"""A page of the manual on the chat screen, scrolled by keys and closed by Escape."""

from typing import Any, ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from app.manual.pages import Page
from app.manual.rendering import manual_markdown


def show_page(app: App[Any], page: Page) -> None:
    """Open a page of the manual."""
    app.push_screen(ManualScreen(page))


class ManualScreen(ModalScreen[None]):
    """Shows a page of the manual until a key closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,f1", "dismiss", "Close", id="manual.close"),
    ]

    def __init__(self, page: Page) -> None:
        super().__init__()
        self.page = page

    def compose(self) -> ComposeResult:
        """Lay out the page."""
        with VerticalScroll(classes="dialog", id="manual"):
            yield Static(manual_markdown(self.page.plain, "/help"))

    def on_mount(self) -> None:
        """Let the keys scroll."""
        self.query_one(VerticalScroll).focus()
