"""Saving of records on a thread of its own, so that neither screen nor engine waits for a disk.

Failed writes are kept and repeated with the next one. A failing disk causes one note, and never ends a chat.
"""

import logging
import threading
import traceback
from pathlib import Path

from app.history.records import Record
from app.history.store import Damaged, Store
from models.errors import LocalspecError

_LEAVING_SECONDS = 7.0
"""More seconds than the database waits for another program."""
_log = logging.getLogger("localspec.history")


class Scribe:
    """Takes records from any thread, and never raises. Its own thread starts with the first record."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changed = threading.Condition()
        self._all: dict[str | int, Record] = {}
        """The latest form of all records in their first order; a lost file is rebuilt from them."""
        self._waiting: dict[str | int, Record] = {}
        self._requested = self._tried = 0
        self._closing = self._failed_before = False
        self._reliable = True
        """Whether waiting for the disk has succeeded so far."""
        self._notes: list[str] = []
        self._thread: threading.Thread | None = None

    def put(self, *records: Record) -> None:
        """Save records in their present state; a conversation comes before its entries."""
        with self._changed:
            for record in records:
                self._all[record.id] = self._waiting[record.id] = record
            self._ask()

    def know(self, *records: Record) -> None:
        """Take records that are saved already; they are written again only if the file is lost."""
        with self._changed:
            self._all.update({record.id: record for record in records})

    def settle(self, seconds: float) -> bool:
        """Wait until all records are on disk; False: not within this time. No wait after an earlier failure."""
        with self._changed:
            if self._reliable:
                self._reliable = self._changed.wait_for(lambda: self._tried == self._requested, seconds)
            return not self._waiting

    def notes(self) -> list[str]:
        """Return notes for the user, each once."""
        with self._changed:
            notes, self._notes = self._notes, []
        return notes

    def close(self) -> None:
        """Write the remaining records, and end the thread."""
        with self._changed:
            self._closing = True
            if self._waiting:
                self._ask()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(_LEAVING_SECONDS)

    def _ask(self) -> None:
        self._requested += 1
        if self._thread is None:
            # A daemon thread: a hanging disk must not keep the program from ending.
            self._thread = threading.Thread(target=self._run, name="history", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _run(self) -> None:
        store = Store(self._path, self._note)
        while (requested := self._next()) is not None:
            with self._changed:
                records = list(self._waiting.values())
            done = self._try(store, records)
            with self._changed:
                if done:
                    for record in records:
                        # A record changed meanwhile is written again.
                        if self._waiting.get(record.id) is record:
                            del self._waiting[record.id]
                self._reliable = done
                self._tried = requested
                self._changed.notify_all()
        store.close()

    def _next(self) -> int | None:
        """Wait for records to write; return the number of the latest request, None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._tried < self._requested or self._closing)
            return self._requested if self._tried < self._requested else None

    def _write(self, store: Store, records: list[Record]) -> None:
        try:
            store.write(records)
        except Damaged:
            store.set_aside()
            store.write(records)
        if store.lost:
            with self._changed:
                everything = list(self._all.values())
            store.write(everything)
            store.lost = False

    def _try(self, store: Store, records: list[Record]) -> bool:
        try:
            self._write(store, records)
        except LocalspecError as error:
            self._fail(" ".join(part for part in (error.title, error.cause, error.hint) if part))
        except Exception as error:  # an unexpected error on this thread must not end it silently
            _log.error("%s", traceback.format_exc())
            self._fail(f"{type(error).__name__}: {error}")
        else:
            return True
        return False

    def _fail(self, reason: str) -> None:
        _log.warning("not saved: %s", reason)
        if not self._failed_before:
            self._failed_before = True
            self._note(f"This conversation is not saved. {reason} To turn off saving: --no-history.")

    def _note(self, text: str) -> None:
        with self._changed:
            self._notes.append(text)
