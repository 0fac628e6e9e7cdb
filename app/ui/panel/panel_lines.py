"""Lines of the panel at a given width."""

from collections.abc import Collection, Iterator

from rich.cells import cell_len
from textual.content import Content

from app.engine.decoding.origins import Origin
from app.ui.drawing.origin_styles import Palette, legend
from app.ui.panel.bars import UNKNOWN, bar, fit, meter, percent, rate, shown, size, sparkline
from app.ui.panel.flow import Flow, SourceTally
from app.ui.panel.status import FASTER as _FASTER
from app.ui.panel.status import SLOWER as _SLOWER
from app.ui.panel.status import slow_reason
from app.wording.short_names import short_drafter
from models.system.counted import counted

NOW, SOURCES, MACHINE = FOLDS = ("Now", "Sources", "Machine")
"""The folds of the panel."""
_OPEN, _CLOSED, _OPEN_ASCII, _CLOSED_ASCII = _MARKS = ("▾", "▸", "v", ">")
_PLACES = 8
"""Places of a draft with a bar, at most."""
_NARROWEST_BAR = 3
_TITLE, _MINOR = "bold", "dim"


def panel_lines(
    flow: Flow, width: int, colours: Palette, *, ascii_only: bool = False, opened: Collection[str] = FOLDS
) -> list[Content]:
    """Return a headline and the folds as lines, with an empty line between two sections.

    `opened` are the names of the open folds.
    """
    page = _Page(flow, width, colours, ascii_only)
    folds = {
        NOW: (page.speed, page.acceptance, page.rounds, page.length),
        SOURCES: (page.sources, page.pauses, page.origins),
        MACHINE: (page.time, page.room, page.names),
    }
    drawn = [list(page.headline())]
    for name, sections in folds.items():
        drawn.append([page.fold(name, is_open=name in opened)])
        drawn += [list(section()) for section in sections if name in opened]
    return [line.truncate(width) for lines in drawn if lines for line in (*lines, Content())][:-1]


def fold_at(line: Content) -> str | None:
    """Return the name of the fold whose heading a line is; None: it is none."""
    return next((name for name in FOLDS if line.plain[:1] in _MARKS and line.plain[2:] == name), None)


def headline(flow: Flow) -> str:
    """Return what drafting did for the running or last answer, in a sentence."""
    stats, gain = flow.stats, flow.speed_up
    if not stats.rounds:
        return "No answer yet: drafts and their gain are counted here."
    if not stats.drafted:
        return "Nothing was drafted: each token took one pass."
    right = f"{'was' if stats.accepted == 1 else 'were'} right"
    said = f"Of {counted(stats.drafted, 'drafted token')} {stats.accepted:,} {right}"
    if gain is None:
        return f"{said}."
    if gain < _SLOWER:
        return f"{said}; this answer had {gain:.2f} of plain speed: {slow_reason(flow)}."
    if gain < _FASTER:
        return f"{said}; this answer was about as fast as plain decoding."
    return f"{said}; that made this answer {gain:.1f} times as fast."


class _Page:
    """One picture of a flow."""

    def __init__(self, flow: Flow, width: int, colours: Palette, ascii_only: bool) -> None:
        self._flow = flow
        self._stats = flow.stats
        self._width = width
        self._colours = colours
        self._ascii = ascii_only

    def headline(self) -> Iterator[Content]:
        """Yield what drafting did for the answer, in a sentence."""
        yield from self._text(headline(self._flow), _TITLE)

    def fold(self, name: str, *, is_open: bool) -> Content:
        """Return the heading of a fold."""
        marks = (_OPEN_ASCII, _CLOSED_ASCII) if self._ascii else (_OPEN, _CLOSED)
        return Content.styled(f"{marks[0] if is_open else marks[1]} {name}", "bold $accent")

    def names(self) -> Iterator[Content]:
        """Yield the model and the drafter with their full names."""
        for title, name in (("Model", self._flow.model), ("Drafter", self._flow.drafter)):
            if name:
                yield from self._text(title, _TITLE)
                yield from self._text(shown(name, ascii_only=self._ascii), _MINOR)

    def speed(self) -> Iterator[Content]:
        """Yield the speed-up over plain decoding and the throughput."""
        flow = self._flow
        gain = UNKNOWN if flow.speed_up is None else f"{flow.speed_up:.2f}x"
        yield from self._text(f"Speed-up {gain}", _TITLE)
        if not flow.accept.exact:
            yield from self._text(f"{flow.accept} rule: approximate", _TITLE)
        yield from self._text(f"{rate(flow.rate_now)} tokens/s now, {rate(self._stats.tokens_per_second)} overall")
        if flow.session_speed_up is not None and flow.answers > 1:
            yield from self._text(f"{flow.session_speed_up:.2f}x over {flow.answers:,} answers", _MINOR)

    def acceptance(self) -> Iterator[Content]:
        """Yield the acceptance rate, also by place in the draft."""
        stats = self._stats
        if not stats.drafted:
            return
        yield from self._text(f"Accepted {percent(stats.acceptance_rate)}", _TITLE)
        yield from self._text(f"{stats.accepted:,} of {counted(stats.drafted, 'proposal', 'proposals')}", _MINOR)
        yield from self._text(f"{stats.drafts:,} of {counted(stats.rounds, 'round')} drafted", _MINOR)
        yield from self._text(f"{stats.mean_acceptance_length:.2f} tokens per draft", _MINOR)
        yield from self._bars()

    def rounds(self) -> Iterator[Content]:
        """Yield sparklines of emitted and accepted tokens of the last rounds."""
        beats = list(self._flow.beats)[-self._width :]
        if not beats:
            return
        emitted, most = sparkline([beat.emitted for beat in beats], ascii_only=self._ascii)
        yield from self._text(f"Tokens per round, 0 to {most:.0f}", _TITLE)
        yield Content.styled(emitted, "$accent")
        if any(beat.drafted for beat in beats):
            shares = [beat.accepted / beat.drafted if beat.drafted else None for beat in beats]
            accepted, _ = sparkline(shares, top=1.0, ascii_only=self._ascii)
            yield from self._text("accepted, 0 to 100%", _MINOR)
            yield Content.styled(accepted, "$accent")

    def length(self) -> Iterator[Content]:
        """Yield the length of the last draft and the reason for it."""
        last = self._flow.last
        if last is None:
            return
        draft = last.draft
        beside = f" and {counted(len(draft.siblings), 'second proposal', 'second proposals')}" if draft.siblings else ""
        by = f", {self._name(draft.source)}" if draft.tokens else ""
        yield from self._text(f"Draft of {len(draft.tokens)}{beside}{by}", _TITLE)
        yield from self._text(self._flow.length_reason, _MINOR)

    def time(self) -> Iterator[Content]:
        """Yield the shares of drafting, verifying and the rest in the time."""
        split = self._flow.time_split
        if split is None:
            return
        yield from self._text("Time", _TITLE)
        for name, share in (("draft", split.draft), ("verify", split.verify), ("host", split.host)):
            yield self._bar(f"{name:<6}", share, percent(share).rjust(4))

    def sources(self) -> Iterator[Content]:
        """Yield the drafters by gain."""
        board = self._flow.leaderboard
        if board:
            yield from self._text("Drafters since loading", _TITLE)
        for tally in board:
            yield from self._tally(tally)

    def pauses(self) -> Iterator[Content]:
        """Yield the paused drafters with their reasons."""
        pauses = self._flow.pauses
        if pauses:
            yield from self._text("Paused drafters", _TITLE)
        for pause in pauses:
            yield from self._text(f"{self._name(pause.name)}: {pause.reason}")

    def room(self) -> Iterator[Content]:
        """Yield the use of context and memory."""
        flow = self._flow
        if flow.context_size:
            yield from self._text("Context", _TITLE)
            share = percent(flow.context_share).rjust(5)
            drawn = meter(flow.context_share, self._width - len(share), ascii_only=self._ascii)
            yield Content.assemble((drawn, "$accent"), share)
            yield from self._text(f"{flow.context_used:,} of {flow.context_size:,} tokens", _MINOR)
        if flow.memory is not None:
            yield from self._text(f"Memory {size(flow.memory)}")

    def origins(self) -> Iterator[Content]:
        """Yield the number of tokens by origin, each in its style in the text."""
        counts = self._flow.origins
        if counts:
            yield from self._text("Tokens by origin", _TITLE)
        for origin in Origin:
            if counts[origin]:
                count = f" {counts[origin]:,}"
                name = Content.from_rich_text(legend(self._colours, [origin]))
                yield name.truncate(self._width - len(count), pad=True) + count

    def _tally(self, tally: SourceTally) -> Iterator[Content]:
        gained = f" +{tally.gained:,}"
        name = fit(self._name(tally.name), self._width - len(gained))
        yield Content(name + " " * (self._width - cell_len(name) - len(gained)) + gained)
        counts = f"  {percent(tally.share)} of {tally.drafted:,} in {counted(tally.drafts, 'draft')}"
        yield from self._text(counts, _MINOR)

    def _bars(self) -> Iterator[Content]:
        rows = list(self._flow.positions)[:_PLACES]
        width = max(len(f"{accepted}/{drafted}") for accepted, drafted in rows)
        for place, (accepted, drafted) in enumerate(rows, start=1):
            counts = f"{accepted}/{drafted}".rjust(width)
            yield self._bar(f"{place:>2}", accepted / drafted, f"{percent(accepted / drafted):>4} {counts}")

    def _bar(self, label: str, share: float, figures: str) -> Content:
        """Return a bar between its name and its figures, which come first where there is too little room."""
        room = self._width - len(label) - len(figures) - 2
        if room < _NARROWEST_BAR:
            return Content(f"{label} {figures}")
        drawn = bar(share, room, ascii_only=self._ascii)
        return Content.assemble(f"{label} ", (drawn, "$accent"), f" {figures}")

    def _name(self, name: str) -> str:
        return shown(short_drafter(name), ascii_only=self._ascii)

    def _text(self, text: str, style: str = "") -> list[Content]:
        return Content.styled(text, style).wrap(self._width)
