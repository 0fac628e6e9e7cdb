"""Styles of a transcript in a theme, as a value: drawn lines are kept until it changes."""

from dataclasses import dataclass
from functools import lru_cache
from io import StringIO

from rich.console import Console
from rich.style import Style
from rich.theme import Theme
from textual.widget import Widget

from app.ui.drawing.origin_styles import Palette, palette_of


@dataclass(frozen=True, slots=True)
class Look:
    """Styles of the parts; what they leave open is the widget's own."""

    palette: Palette
    code_theme: str
    """Of Pygments, or "ansi_dark" and "ansi_light" of Rich."""
    code_edge: str
    """At the left of a code block's lines: a bar where its background may not be seen."""
    code: Style
    """Background of a code block."""
    inline_code: Style
    heading: Style
    link: Style
    quote: Style
    faint: Style
    """Rules, numbers, footers and notes."""
    error: Style
    user: Style
    bar: Style
    """Beside what the user said."""
    cursor: Style
    """Beside what is selected."""
    placeholder: Style


_PARTS = ("code", "inline_code", "heading", "link", "quote", "faint", "error", "user", "bar", "cursor", "placeholder")
COMPONENTS = {part: f"transcript--{part.replace('_', '-')}" for part in _PARTS}
"""Component class of each part."""


def look_of(widget: Widget) -> Look:
    """Return how a widget with these component classes looks in the theme of now."""
    app = widget.app
    dark, ansi = app.current_theme.dark, app.native_ansi_color
    code_theme = ("ansi_dark" if dark else "ansi_light") if ansi else ("github-dark" if dark else "friendly")
    styles = {part: _part_style(widget, name) for part, name in COMPONENTS.items()}
    edge = "│" if ansi or app.no_color else " "
    return Look(palette_of(app), code_theme, edge, **styles)


def _part_style(widget: Widget, name: str) -> Style:
    own = widget.get_component_rich_style(name, partial=True)
    # A colour such as "muted" is one only together with what it is on.
    return own + Style(color=widget.get_component_rich_style(name).color) if own.color else own


@lru_cache(maxsize=4)
def console(look: Look) -> Console:
    """Return a console that turns renderables into segments in a look; nothing is ever printed on it."""
    bold, italic = Style(bold=True), Style(italic=True)
    styles = {
        "h1": look.heading + bold + Style(underline=True),
        "h2": look.heading + bold,
        **{f"h{level}": look.heading + bold + italic for level in range(3, 7)},
        "code": look.inline_code,
        "a": look.link,
        "url": look.faint,
        "block_quote": look.quote,
        "hr": look.faint,
        "item.bullet": look.faint,
        "item.number": look.faint,
        "table.header": bold,
        "table.border": look.faint,
    }
    theme = Theme({f"markdown.{name}": style for name, style in styles.items()})
    return Console(file=StringIO(), theme=theme, color_system="truecolor", force_terminal=True, legacy_windows=False)
