"""A text with proposals in an app of its own, for tests."""

from textual.app import App, ComposeResult

from app.ui.editor.ghost_area import GhostArea

TEXT = "def f(a):\n    return a\n\nx = f(1)\n"


class Host(App[None]):
    """An app with the text alone, and the keeper of its keys."""

    def __init__(self, text: str = TEXT) -> None:
        super().__init__()
        self.area = GhostArea(text, "a.py", self)

    def takes_key(self, _: str) -> bool:
        return False

    def taken_in(self, text: str) -> str:
        return text

    def compose(self) -> ComposeResult:
        yield self.area

    def on_mount(self) -> None:
        self.area.focus()

    @property
    def lines(self) -> list[str]:
        return [
            self.area.render_line(y).crop(0, self.area.size.width).text.rstrip() for y in range(self.area.size.height)
        ]

    @property
    def cursor(self) -> int:
        return self.area.document.get_index_from_location(self.area.cursor_location)
