"""Rows of the start screen, by section."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.cells import cell_len

from app.shell.safe_text import one_line
from app.ui.drawing.named_lines import BOLD, DIM, NamedLines
from app.ui.panel.bars import size
from models.system.counted import counted

if TYPE_CHECKING:
    # The first picture does not wait for them.
    from app.catalog.recommended.offers import Offer, Offers
    from app.history.records import Summary

_FIRST_LOOK = "for a first look: quick, and often wrong"


@dataclass(frozen=True, slots=True)
class Row:
    """An entry that can be chosen."""

    key: str
    """Unique among the rows, and the same as long as the screen is open."""
    name: str
    details: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    """Arguments of localspec that open it; () for an offer."""
    offer: "Offer | None" = None
    """A model to fetch; None: the row is opened."""

    def has(self, words: Iterable[str]) -> bool:
        """Return whether it contains every word, in whatever case."""
        searched = " ".join((self.name, *self.details)).lower()
        return all(word in searched for word in words)


@dataclass(frozen=True, slots=True)
class Section:
    """Rows under a heading."""

    title: str
    rows: tuple[Row, ...]

    def matching(self, words: Sequence[str]) -> "Section":
        """Return the section with the rows that contain every word."""
        return Section(self.title, tuple(row for row in self.rows if row.has(words)))


def row_lines(sections: Sequence[Section]) -> dict[str, NamedLines]:
    """Return the lines of all rows by their keys, with the names in one column."""
    rows = [row for section in sections for row in section.rows]
    names = tuple(cell_len(row.name) for row in rows)
    return {row.key: NamedLines(row.name, BOLD, tuple((text, DIM) for text in row.details), names) for row in rows}


def conversation_rows(found: "Sequence[Summary]") -> Section:
    """Return the section of the last conversations."""
    return Section("Continue", tuple(map(_conversation, found)))


def model_row(name: str, details: Sequence[str], arguments: Sequence[str]) -> Row:
    """Return the row of a model on this machine."""
    from models.library.catalog import STARTER

    more = (_FIRST_LOOK, *details) if name == STARTER else tuple(details)
    return Row(f"model:{name}", shown_name(name), tuple(filter(None, more)), tuple(arguments))


def offer_section(offers: "Offers", names: "Sequence[Offer]", free: int, offline: str) -> Section:
    """Return the section of the models that can be fetched; `offline` says why none can be, "" if they can."""
    of = f" (list of {offers.made})" if not offline else f" ({offline})"
    return Section(f"Get a model{of}", tuple(_offer(one, free) for one in names))


def shown_name(name: str) -> str:
    """Return a model's name as it is shown: of a file without its folder and ending."""
    return one_line(Path(name).name.removesuffix(".gguf") if name.endswith(".gguf") else name)


def _conversation(summary: "Summary") -> Row:
    about = summary.conversation
    changed = datetime.fromtimestamp(about.changed).strftime("%Y-%m-%d %H:%M")
    model = shown_name(summary.model) if summary.model else ""
    details = " · ".join(filter(None, (changed, counted(summary.entries, "message"), model)))
    return Row(f"conversation:{about.id}", one_line(about.title), (details,), ("run", "--resume", about.id))


def _offer(one: "Offer", free: int) -> Row:
    fits = "fits in memory" if one.need <= free else f"needs {size(one.need)} of memory, {size(free)} are free"
    about = " · ".join((one.use, size(one.size), one.licence, fits))
    drafter = f"drafter {one.draft.title}, {size(one.draft.size)}" if one.draft else ""
    return Row(f"offer:{one.repo}", one.title, tuple(filter(None, (about, drafter))), offer=one)
