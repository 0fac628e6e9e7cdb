"""What can go wrong between here and the hub, told to a person; and what is worth another attempt."""

from dataclasses import dataclass

from models.errors import LocalspecError, ModelFileError

_PASSING = (408, 429, 500, 502, 503, 504)
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _TOO_MANY, _BROKEN = 401, 403, 404, 429, 500
_TOKEN = "Set HF_TOKEN to a token that may read it, or log in with `hf auth login`."


@dataclass(frozen=True, slots=True)
class Trouble:
    """A request that failed."""

    repo: str
    address: str
    """Of the server."""
    said: str
    """In its words, or those of the network."""
    status: int | None = None
    """Of HTTP; None where no answer came to its end."""
    code: str = ""
    """What the hub calls it, such as "GatedRepo"."""
    wait: float | None = None
    """Seconds that the server asks to wait."""
    cut: bool = True
    """Without an answer: whether the network is to blame, not the address."""

    @property
    def passes(self) -> bool:
        """Whether another attempt may do better."""
        return self.cut if self.status is None else self.status in _PASSING

    @property
    def title(self) -> str:
        """What happened, in a sentence."""
        if self.status is None:
            return f"The connection to {self.address} failed."
        if self.status == _TOO_MANY:
            return f"{self.address} asks for fewer requests."
        return f"{self.address} answers with error {self.status}."


def told(trouble: Trouble) -> LocalspecError:
    """Return the error that tells of it, with what to do next."""
    repo, status, code = trouble.repo, trouble.status, trouble.code
    if code == "GatedRepo":
        hint = f"Ask for access at {trouble.address}/{repo}. {_TOKEN}"
        return LocalspecError(f"{repo} is open only to those whom its owner lets in.", cause=trouble.said, hint=hint)
    if code == "RevisionNotFound":
        return _missing(f"{repo} has no such revision.", trouble, "Leave it out to get the newest one.")
    if code == "EntryNotFound":
        return _missing(f"A file of {repo} is not there.", trouble, "Its owner may be changing it; try again later.")
    # The hub does not tell those who may not see a repository whether there is one.
    if code == "RepoNotFound" or status == _NOT_FOUND or (status == _UNAUTHORIZED and not code):
        hint = f"Check its spelling. If it is private: {_TOKEN}"
        return _missing(f"{trouble.address} has no repository {repo}, or shows it to its owners alone.", trouble, hint)
    if status in (_UNAUTHORIZED, _FORBIDDEN):
        return LocalspecError(f"{trouble.address} does not let you read {repo}.", cause=trouble.said, hint=_TOKEN)
    return LocalspecError(trouble.title, cause=trouble.said, hint=_later(trouble))


def _missing(title: str, trouble: Trouble, hint: str) -> ModelFileError:
    return ModelFileError(title, cause=trouble.said, hint=hint)


def _later(trouble: Trouble) -> str:
    again = "What has come is kept, and the same command goes on from there."
    if trouble.wait:
        return f"Try again in {trouble.wait:,.0f} s. {again}"
    if trouble.status is None:
        return f"Check the network, and HF_ENDPOINT if it is set. {again}"
    return f"Try again later. {again}" if trouble.status >= _BROKEN else again
