"""The status line: state and figures by importance, as many as fit."""

from rich.cells import cell_len
from rich.text import Text
from textual.content import Content
from textual.widget import Widget

from app.engine.decoding.ending import Finish
from app.ui.drawing.origin_styles import fitted
from app.ui.panel.bars import fit, percent, rate, shown
from app.ui.panel.flow import Flow
from app.wording.short_names import short_model


def status_parts(flow: Flow, mode: str = "", *, ascii_only: bool = False) -> list[str]:
    """Return the parts of the line, the most important first; `mode` is how keys are taken now."""
    if flow.loading is not None:
        name, share = flow.loading
        file = name if len(name) <= _LONG_NAME else short_model(name)
        return [*_joined(mode), name if share is None else f"loading {file} {percent(share)}"]
    if flow.reading is not None:
        return [*_joined(mode), f"prefill {flow.reading.done:,} of {flow.reading.total:,} tokens"]
    stopped = "stopped" if flow.finish is Finish.CANCELLED and not flow.running else ""
    rule = "" if flow.accept.exact else f"{flow.accept} rule: approximate"
    return [*_joined(mode, stopped, rule), *_figures(flow, ascii_only=ascii_only)]


def status_text(parts: list[str], width: int, *, ascii_only: bool = False) -> str:
    """Return as many of the parts as fit into so many columns; of the first at least its beginning."""
    between = " | " if ascii_only else " · "
    parts = [shown(part, ascii_only=ascii_only) for part in parts]
    line = fit(parts[0], width) if parts else ""
    for part in parts[1:]:
        if cell_len(line) + cell_len(between) + cell_len(part) > width:
            break
        line += between + part
    return line if cell_len(line) <= width else ""


_METER = 10
"""Columns of the bar of accepted tokens."""
FASTER, SLOWER = 1.1, 0.95
"""Speed-ups between which an answer counts as fast as plain decoding: two runs differ by that much."""
_NOTABLE = 0.5
"""Share of the context from which on it is shown."""
_BUSY = 0.25
"""Share of the cores in other programs from which on they slow an answer down."""
_LONG_NAME = 32
"""Characters of a file's name from which on its short name is shown."""
_WIDEST = 105
"""Columns of the line, its edges included, as in the style sheet."""
_SHORT = 32
"""Tokens of an answer in which the first tries of a drafter weigh."""


class StatusLine(Widget):
    """The line below the messages; a legend may take two."""

    DEFAULT_CSS = """
    StatusLine {
        height: auto;
        min-height: 1;
        max-height: 2;
        padding: 0 1;
        color: $text-muted;
    }
    """

    def __init__(self, *, ascii_only: bool = False, id: str | None = None) -> None:  # noqa: A002
        """Draw with ASCII alone where the terminal has nothing else."""
        super().__init__(id=id)
        self._ascii = ascii_only
        self._parts: list[str] = []
        self._legend: Text | None = None

    def show(self, flow: Flow, mode: str = "", legend: Text | None = None) -> None:
        """Show a flow as it is now, and how keys are taken; a legend takes the place of both."""
        parts = status_parts(flow, mode, ascii_only=self._ascii)
        if (parts, legend) != (self._parts, self._legend):
            others = legend != self._legend
            self._parts, self._legend = parts, legend
            # Only a legend is sometimes longer than a line.
            self.refresh(layout=others)

    def render(self) -> Content:
        """Return the line."""
        if self._legend is not None:
            # Not the width of now: a new size is laid out before this widget has it.
            width = min(_WIDEST, self.app.size.width) - 2
            return Content.from_rich_text(fitted(self._legend, width))
        return Content(status_text(self._parts, self.content_size.width, ascii_only=self._ascii))


def _figures(flow: Flow, *, ascii_only: bool) -> list[str]:
    stats = flow.stats
    speed = flow.rate_now if flow.running else stats.tokens_per_second
    context = flow.context_share or 0.0
    return _joined(
        accepted_meter(stats.acceptance_rate, ascii_only=ascii_only) if flow.running and stats.drafted else "",
        speed_words(flow),
        f"{rate(speed)} tokens/s" if speed is not None else "",
        "Esc stops" if flow.running else "",
        f"context {percent(context)} full" if context >= _NOTABLE else "",
    )


def accepted_meter(share: float | None, *, ascii_only: bool = False) -> str:
    """Return a thin bar: the accepted share of all draft tokens."""
    full = round((share or 0.0) * _METER)
    accepted, rejected = ("=", "-") if ascii_only else ("━", "╌")
    return accepted * full + rejected * (_METER - full)


def speed_words(flow: Flow) -> str:
    """Return how fast the answer is against plain decoding, where it is slower with the reason; "": not known."""
    gain = flow.speed_up
    if gain is None:
        return ""
    if gain >= FASTER:
        return f"{gain:.1f}x faster than plain"
    if gain >= SLOWER:
        return "as fast as plain"
    return f"{gain:.2f}x of plain speed ({slow_reason(flow)})"


def slow_reason(flow: Flow) -> str:
    """Return the likely reason why an answer is slower than plain decoding."""
    if flow.others >= _BUSY:
        return "other programs hold the cores"
    if flow.stats.emitted < _SHORT:
        return "a short answer"
    return "drafts cost more than they saved"


def _joined(*parts: str) -> list[str]:
    return [part for part in parts if part]
