"""Search for what the start screen offers, on a thread of its own: headers, conversations, predictions."""

import os
import threading
from collections.abc import Callable, Sequence

from app.ui.start.rows import Row, Section, conversation_rows, model_row, offer_section

_LAST = 4
"""Conversations that are offered."""
_OFFLINE = ("LOCALSPEC_OFFLINE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_HERE = "On this machine"
Show = Callable[[Sequence[Section], bool], object]
"""Takes the sections found so far, and whether they are all; called on the thread that searches."""


def search(show: Show, stopped: threading.Event) -> None:
    """Find conversations, models and offers; call `show` each time there is more. Ends early when stopped."""
    # Imports of the engine take longer than the first picture may.
    from app.catalog.recommended.offers import read_offers, without
    from app.catalog.recommended.overview import Facts, Overview

    last = _conversations()
    show([last], False)
    overview = Overview()
    facts = {one.model.name: one for one in overview.first()}
    offers = read_offers()
    fetchable = without(offers.by_memory(overview.room.free), list(facts))
    offered = offer_section(offers, fetchable, overview.room.free, offline())

    def sections() -> list[Section]:
        return [last, Section(_HERE, tuple(map(row, facts.values()))), offered]

    def row(one: Facts) -> Row:
        return model_row(one.model.name, (one.abilities, one.drafting), one.arguments)

    show(sections(), False)
    for one in overview.complete(list(facts.values())):
        if stopped.is_set():
            return
        facts[one.model.name] = one
        show(sections(), False)
    show(sections(), True)


def offline() -> str:
    """Return why nothing can be fetched, in a few words; "" if the network may be used."""
    name = next((name for name in _OFFLINE if os.environ.get(name, "").upper() in {"1", "ON", "YES", "TRUE"}), "")
    return f"offline: {name} is set" if name else ""


def _conversations() -> Section:
    from app.history.store import Store
    from app.shell.paths import conversations_file
    from models.errors import LocalspecError

    store = Store(conversations_file())
    try:
        return conversation_rows(store.latest(_LAST))
    except LocalspecError:
        # `localspec history ls` says what is wrong with the file; the models can be used all the same.
        return conversation_rows(())
    finally:
        store.close()
