"""What reaches the screen from the engine's thread: frozen values, in order, posted and never waited for."""

from textual.message import Message

from app.engine import messages as engine


class Heard(Message):
    """The engine said something; text comes this way, so none of these may be dropped."""

    def __init__(self, job: int, said: engine.Message | None) -> None:
        """Take the number of the job, and what was said; None: the job is over."""
        super().__init__()
        self.job = job
        self.said = said


class LoadProgress(Message):
    """A file is being read, or measured. The latest is enough."""

    def __init__(self, job: int, name: str, fraction: float) -> None:
        """Take the number of the job, what is read, and the share of it that is done."""
        super().__init__()
        self.job = job
        self.name_of_file = name
        self.fraction = fraction

    def can_replace(self, message: Message) -> bool:
        """Take the place of an older one that was not handled yet."""
        return isinstance(message, LoadProgress)
