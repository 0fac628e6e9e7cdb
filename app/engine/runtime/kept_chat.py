"""The conversation of an engine whose cache is kept on disk for a later run."""

from app.engine.runtime.jobs import Urgency
from app.engine.runtime.thread import Engine


class KeptChat:
    """Keeps the cache of a saved conversation: in pauses, and what is missing when it is left."""

    def __init__(self, engine: Engine) -> None:
        """Take the engine that has the cache."""
        self._engine = engine
        self._key = ""

    def keep(self, key: str) -> None:
        """Keep the cache of a conversation while nothing else is wanted; "": it is not saved."""
        self._key = key
        if key:
            self._engine.submit(lambda worker: worker.keep(key), lambda _: None, urgency=Urgency.IDLE)

    def leave(self, key: str) -> None:
        """Keep what is missing of a conversation's cache, if `keep` was called for it last, and wait for that."""
        if key and key == self._key:
            for _ in self._engine.stream(lambda worker: worker.keep(key, leaving=True)):
                pass
