"""Lines of one round of a finished answer, for a screen of any size."""

from codecs import getincrementaldecoder
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from string import ascii_lowercase

from rich.cells import cell_len
from rich.text import Text
from textual.content import Content

from app.engine.decoding.origins import Origin
from app.history.rounds import AnswerRound, AnswerRounds
from app.shell.columns import released, visible
from app.shell.safe_text import one_line
from app.ui.drawing.origin_styles import Palette, origin_style
from app.ui.panel.bars import bucket_of, buckets, fit, percent, probability, shown, sparkline
from app.ui.panel.race import Race
from app.ui.panel.status import status_text
from app.wording.short_names import short_drafter
from models.system.counted import counted

_NOTHING = "This answer has no rounds."
_PLAIN = "No round of this answer drafted: plain decoding, one token per pass."
_SIGNS = {Origin.REPLACEMENT: "!", Origin.BONUS: "*", Origin.PLAIN: "="}
_ACCEPTED, _REJECTED, _UNSEEN = "+", "x", "-"
_TICKS = {_ACCEPTED: "✓", _REJECTED: "✗"}
"""Signs of draft tokens where the terminal has more than ASCII."""
_LONGEST_TOKEN = 18
_ROOMY = 9
"""Lines from which on the strip has a title and a mark."""
_AIRY = 20
"""Lines from which on there are empty ones between the parts."""
_WITH_RACE = 22
"""Lines from which on the race with plain decoding is shown."""
_TABLE_FROM = 8
"""Least lines for text and proposals at which every draft token has a line."""


@dataclass(frozen=True, slots=True)
class Look:
    """Colours and characters available to a page."""

    colours: Palette = Palette.NONE
    ascii_only: bool = False

    @property
    def encoding(self) -> str:
        """Encoding in which tokens are spelled."""
        return "ascii" if self.ascii_only else "utf-8"


class ReplayPage:
    """Draws the rounds of one answer; running totals are computed once."""

    def __init__(self, answer: AnswerRounds) -> None:
        """Take the answer."""
        self.rounds = answer.rounds
        self.race = Race(answer.rounds)
        """The race with plain decoding."""
        decoder = getincrementaldecoder("utf-8")(errors="replace")
        texts = [decoder.decode(b"".join(one.pieces)) for one in self.rounds]
        self._text = "".join(texts)
        self._ends = list(accumulate(map(len, texts)))
        self._lengths = [len(one.pieces) for one in self.rounds]
        self._emitted = list(accumulate(self._lengths))
        self._drafted = list(accumulate(one.drafted for one in self.rounds))
        self._kept = list(accumulate(one.kept for one in self.rounds))

    def lines(self, index: int, width: int, height: int, look: Look) -> list[Content]:
        """Return the picture of a round, at most `height` lines of at most `width` columns; the latter is 2 or more."""
        if not self.rounds:
            return Content(_NOTHING).wrap(width)[:height]
        gap = [Content()] * (height >= _AIRY)
        below = [*gap, *self._below(index, width, height, look)]
        room = height - 1 - len(gap) - len(below)
        table = self._proposals(index, width, room, look)
        text = [*gap, *self._text_lines(index, width, room - len(table), look)]
        # What is at the bottom stays there from one round to the next.
        space = [Content()] * (height - 1 - len(text) - len(table) - len(below))
        return [self._head(index, width, look), *text, *space, *table, *below][:height]

    def next_rejection(self, index: int) -> int | None:
        """Return the next round that rejected a draft token; None: no later one did."""
        return next((place for place in range(index + 1, len(self.rounds)) if self.rounds[place].rejects), None)

    def _head(self, index: int, width: int, look: Look) -> Content:
        one = self.rounds[index]
        proposed = f"{one.drafted:,} drafted, {one.kept:,} accepted" if one.drafted else "nothing drafted"
        source = [shown(one_line(short_drafter(one.source)), ascii_only=look.ascii_only)] if one.drafted else []
        parts = [f"Round {index + 1:,} of {len(self.rounds):,}", proposed, *source]
        return Content.styled(status_text(parts, width, ascii_only=look.ascii_only), "bold")

    def _text_lines(self, index: int, width: int, room: int, look: Look) -> list[Content]:
        """Return the end of the text so far: what the round emitted is marked."""
        if room <= 0:
            return []
        start = self._ends[index - 1] if index else 0
        text = shown(self._text_before(start, width * room), ascii_only=look.ascii_only)
        return Content.assemble(text, *self._marked(index, look)).wrap(width)[-room:]

    def _text_before(self, end: int, most: int) -> str:
        """Return at least the last `most` characters before a place in the text, and at most twice as many."""
        # Wrapped from the same place on, the lines stay as they are from one round to the next.
        start = max(0, end - most) // most * most
        return self._text[start:end]

    def _marked(self, index: int, look: Look) -> Iterator[Content]:
        one = self.rounds[index]
        for piece, origin in zip(one.pieces, one.origins, strict=True):
            yield Content.styled(_SIGNS.get(origin, _ACCEPTED), "bold")
            text = released(visible(piece, look.encoding))
            yield Content.from_rich_text(Text(text, origin_style(origin, look.colours)))

    def _proposals(self, index: int, width: int, room: int, look: Look) -> list[Content]:
        """Return the proposals with their fates, a line each where there is room, else one line for all."""
        if room < 2:
            return []
        if not self._drafted[-1]:
            return Content.styled(_PLAIN, "dim").wrap(width)[: room - 1]
        rows = list(_rows(self.rounds[index], look))
        if room < _TABLE_FROM or not rows:
            return [_in_one_line(rows, width, look)]
        most = room - max(3, room // 3)
        lines = [_row_line(row, width, look) for row in rows[:most]]
        if len(rows) > most:
            left = len(rows) - (most - 1)
            return [*lines[: most - 1], Content.styled(fit(f"    {left} more", width), "dim")]
        return lines

    def _below(self, index: int, width: int, height: int, look: Look) -> Iterator[Content]:
        """Return the lines at the bottom, as many as the height allows."""
        one = self.rounds[index]
        if height >= 5 and one.drafted:
            yield from _apart(one, width, look)[: 1 if height < _ROOMY else 3]
        if height >= 7:
            yield Content(status_text(self._so_far(index), width, ascii_only=look.ascii_only))
        if height >= 8:
            yield Content.styled(status_text(_times(one), width, ascii_only=look.ascii_only), "dim")
        if height >= _WITH_RACE:
            yield from self.race.lines(index, width, ascii_only=look.ascii_only)
        if height >= 4:
            yield from self._strip(index, width, height >= _ROOMY, look)

    def _so_far(self, index: int) -> list[str]:
        emitted, drafted, kept = self._emitted[index], self._drafted[index], self._kept[index]
        rate = f"so far {percent(kept / drafted)} accepted, {kept:,} of {drafted:,}" if drafted else "no drafts so far"
        return [rate, f"{emitted / (index + 1):.2f} tokens per round", counted(emitted, "token")]

    def _strip(self, index: int, width: int, is_roomy: bool, look: Look) -> Iterator[Content]:
        """Return the tokens of all rounds in one line, with a mark at this round."""
        values = buckets(self._lengths, width)
        place = bucket_of(index, len(self.rounds), width)
        line, most = sparkline(values, ascii_only=look.ascii_only)
        if is_roomy:
            yield Content.styled(fit(f"tokens per round, 0 to {most:.3g}", width), "dim")
        yield Content.styled(line, "$accent").stylize("reverse bold", place, place + 1)
        if is_roomy:
            yield Content.styled(" " * place + "^", "bold")


@dataclass(frozen=True, slots=True)
class _Row:
    """A draft token, or the token after the draft."""

    label: str
    sign: str
    token: str
    fate: str


def _rows(one: AnswerRound, look: Look) -> Iterator[_Row]:
    for place in range(max((len(one.proposals), *(place + 1 for place, _ in one.siblings)))):
        if place < len(one.proposals):
            yield _Row(f"{place + 1}", *_fate(one, place, one.proposals[place], look))
        beside = (proposal for where, proposal in one.siblings if where == place)
        for letter, proposal in zip(ascii_lowercase[1:], beside, strict=False):
            yield _Row(f"{place + 1}{letter}", *_sibling_fate(one, place, proposal, look))
    last = one.origins[-1]
    if last in _SIGNS:
        yield _Row("", _SIGNS[last], _quoted(one.pieces[-1], look), last)


def _fate(one: AnswerRound, place: int, proposal: bytes, look: Look) -> tuple[str, str, str]:
    quoted = _quoted(proposal, look)
    if place < one.accepted:
        used = place < len(one.pieces)
        return (_ACCEPTED, quoted, "accepted") if used else (_UNSEEN, quoted, "unused: the answer had ended")
    return (_REJECTED, quoted, "rejected") if place == one.accepted else (_UNSEEN, quoted, "not verified")


def _sibling_fate(one: AnswerRound, place: int, proposal: bytes, look: Look) -> tuple[str, str, str]:
    quoted = _quoted(proposal, look)
    end = one.accepted + one.origins.count(Origin.SIBLING)
    if not one.accepted <= place <= end:
        return _UNSEEN, quoted, "not verified"
    accepted = place < min(end, len(one.pieces)) and one.pieces[place] == proposal
    return (_ACCEPTED, quoted, "accepted") if accepted else (_REJECTED, quoted, "rejected")


def _row_line(row: _Row, width: int, look: Look) -> Content:
    token = fit(row.token, _LONGEST_TOKEN)
    pad = " " * (_LONGEST_TOKEN - cell_len(token))
    line = Content.assemble(f"{row.label:>3} ", (_tick(row, look), "bold"), f" {released(token)}{pad}  {row.fate}")
    return (line.stylize("dim") if row.sign == _UNSEEN else line).truncate(width)


def _tick(row: _Row, look: Look) -> str:
    return row.sign if look.ascii_only else _TICKS.get(row.sign, row.sign)


def _in_one_line(rows: list[_Row], width: int, look: Look) -> Content:
    return Content(released(fit(" ".join(f"{_tick(row, look)}{row.token}" for row in rows), width)))


def _apart(one: AnswerRound, width: int, look: Look) -> list[Content]:
    """Return the target's probabilities of the rejected draft token and of its own token."""
    if not one.rejects:
        return [Content(fit("Every draft token was accepted.", width))]
    proposal = released(_quoted(one.proposals[one.accepted], look))
    if one.disagreement is None:
        return Content(f"{proposal} was rejected.").wrap(width)
    wanted = "its own token" if one.instead is None else released(_quoted(one.instead, look))
    proposed, instead = probability(one.disagreement.proposal_prob), probability(one.disagreement.instead_prob)
    return Content(
        f"The target gave {proposal} {proposed} and {wanted} {instead}, before temperature and sampling filters."
    ).wrap(width)


def _times(one: AnswerRound) -> list[str]:
    draft, verify, host = (f"{1e3 * seconds:.1f}" for seconds in one.seconds)
    return [
        f"draft {draft}, verify {verify}, host {host} ms",
        f"pass of {counted(one.width, 'token')}",
        f"context {counted(one.prefix_length, 'token')}",
    ]


def _quoted(piece: bytes, look: Look) -> str:
    return '"' + visible(piece, look.encoding).replace('"', '\\"') + '"' if piece else "(control token)"
