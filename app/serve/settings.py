"""All settings of one `serve`."""

from dataclasses import dataclass
from pathlib import Path

from app.engine.decoding.request import Question
from app.engine.runtime.load import LoadPlan
from app.serve.swapping.choices import ModelChoices


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a client's requests."""

    body: int
    """Maximum bytes of a request's body."""
    waiting: int
    """Maximum number of waiting requests."""
    seconds: float
    """Maximum seconds that a request waits."""
    grace: float
    """Seconds that running answers get to end when the server stops."""
    moment: float = 0.5
    """Seconds until a stream begins in any case; errors before that have their own HTTP status."""
    beat: float = 3.0
    """Maximum silence of a stream in seconds; a comment ends it."""


@dataclass(frozen=True, slots=True)
class Door:
    """Network address and access rules."""

    host: str
    """Name or address to listen on."""
    port: int
    key: str
    """Key that a client must send; "" for none."""
    hosts: tuple[str, ...] = ()
    """Additional host names of the server."""
    origins: tuple[str, ...] = ()
    """Origins of web pages whose scripts may send requests."""


@dataclass(frozen=True, slots=True)
class ServePlan:
    """The model, the access rules, and default settings for answers."""

    plan: LoadPlan
    chatting: Question
    """Default settings for chats, without turns."""
    completing: Question
    """Default settings for continued texts."""
    filling: Question
    """Default settings for infill."""
    door: Door
    limits: Limits
    alias: str
    """Name of the model in replies; "" for its own."""
    quiet: bool
    choices: ModelChoices
    """The models that requests may name."""
    for_editors: bool = False
    """Whether the server is for editors: a model without infill then causes a warning."""
    idle: float | None = None
    """Seconds without a request after which the model is unloaded; None: never."""
    embedder: Path | None = None
    """File of the model for embeddings; None: there is none."""
    slot_folder: Path | None = None
    """Folder of slots that clients save; None: they save none."""
