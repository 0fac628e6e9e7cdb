"""Offers: a short list of models that can be fetched, those that fit in memory first."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

_FILE = Path(__file__).with_name("models.toml")
_BUFFERS = 600_000_000
"""Bytes beside the weights: buffers, and the cache of a small model at 8,192 tokens."""
_CACHE_SHARE = 0.1
"""Bytes of cache at 8,192 tokens for each byte of weights in four bits, as in Llama 3.1 8B and Qwen2.5-Coder 7B."""


@dataclass(frozen=True, slots=True)
class DraftOffer:
    """The draft model of an offer."""

    title: str
    repo: str
    size: int
    """Bytes of its file."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A model on the hub, as the list describes it."""

    title: str
    repo: str
    """Name that `models pull` takes."""
    use: str
    """Either "chat" or "code"."""
    size: int
    """Bytes of its file."""
    licence: str
    draft: DraftOffer | None
    """None: no smaller model can draft for it."""

    @property
    def need(self) -> int:
        """Estimated bytes of memory, with the draft model; `models pull` reads the exact need from the header."""
        files = self.size + (self.draft.size if self.draft else 0)
        return round(files * (1 + _CACHE_SHARE)) + _BUFFERS

    @property
    def fetched(self) -> int:
        """Bytes to fetch, with the draft model."""
        return self.size + (self.draft.size if self.draft else 0)

    @property
    def command(self) -> list[str]:
        """Words of the command that fetches it."""
        return ["localspec", "models", "pull", self.repo, *(["--with-draft"] if self.draft else [])]


@dataclass(frozen=True, slots=True)
class Offers:
    """The whole list, smallest model first, and the day on which it was made."""

    made: date
    models: tuple[Offer, ...]

    def by_memory(self, free: int) -> list[Offer]:
        """Return the models that fit into `free` bytes, the largest first, then the others, the smallest first."""
        return sorted(self.models, key=lambda one: (0, -one.size) if one.need <= free else (1, one.size))


def read_offers() -> Offers:
    """Return the list of models that comes with localspec."""
    data = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    drafts = {repo: DraftOffer(about["title"], repo, about["size"]) for repo, about in data["drafts"].items()}
    models = (
        Offer(one["title"], one["repo"], one["use"], one["size"], one["licence"], drafts.get(one.get("draft", "")))
        for one in data["model"]
    )
    return Offers(data["date"], tuple(sorted(models, key=lambda one: one.size)))


def without(offers: Sequence[Offer], names: Sequence[str]) -> list[Offer]:
    """Return the offers that are not on this machine under one of these names of models."""
    here = {_repo(name) for name in names}
    return [one for one in offers if one.repo.lower() not in here]


def _repo(name: str) -> str:
    """Return the repository of a name such as user/repo:Q8_0 or hf://user/repo/file.gguf, in small letters."""
    parts = name.removeprefix("hf://").partition(":")[0].split("/")
    return "/".join(parts[:2]).partition("@")[0].lower()
