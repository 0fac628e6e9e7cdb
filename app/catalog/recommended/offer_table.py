"""Offers as a table and as JSON."""

import shlex
from typing import Any

from app.catalog.recommended.offers import Offer, Offers
from app.catalog.words import free_in, size
from app.shell.columns import table, wrapped
from models.llama.memory import Room

_HEAD = ("MODEL", "FOR", "SIZE", "LICENCE", "DRAFT MODEL", "FITS")
_FLUSH_LEFT = {0, 1, 3, 4, 5}
_NOTE = "FITS: estimated for a context of 8,192, with the draft model; `models pull` says exactly, before it fetches."


def offer_lines(offers: Offers, room: Room) -> list[str]:
    """Return the list as text: models that fit first, and the command that fetches the first of them."""
    found = offers.by_memory(room.free)
    head = f"Models to fetch, as of {offers.made}; {free_in(room)}:"
    first = found[0]
    return [
        *wrapped(head, 0, 2),
        *table(_HEAD, [_row(one, room) for one in found], 2, _FLUSH_LEFT),
        *wrapped(_NOTE, 2, 2),
        f"    {shlex.join(first.command)}",
    ]


def offers_record(offers: Offers, room: Room) -> dict[str, Any]:
    """Return the list for JSON."""
    return {"made": str(offers.made), "models": [_record(one, room) for one in offers.by_memory(room.free)]}


def _row(one: Offer, room: Room) -> list[str]:
    draft = one.draft.title if one.draft else ""
    return [one.repo, one.use, size(one.size), one.licence, draft, "yes" if one.need <= room.free else "no"]


def _record(one: Offer, room: Room) -> dict[str, Any]:
    return {
        "title": one.title,
        "name": one.repo,
        "use": one.use,
        "size": one.size,
        "licence": one.licence,
        "draft": one.draft.repo if one.draft else None,
        "need": one.need,
        "fits": one.need <= room.free,
        "command": shlex.join(one.command),
    }
