"""Expansion of paths that begin with "~", a home folder."""

from pathlib import Path

from models.errors import LocalspecError, UsageError


def at_home(name: str, given_by: str = "", failure: type[LocalspecError] = UsageError) -> Path:
    """Return the path that a name means; raises `failure` for the home of an unknown user.

    `given_by` is the flag or the variable that it came from, if any.
    """
    try:
        return Path(name).expanduser()
    except RuntimeError as error:
        title = f"{given_by} {name} can't be found.".lstrip()
        raise failure(title, cause=str(error), hint="Name the folder itself.") from error


def check_home() -> None:
    """Raise UsageError where this user's home folder is unknown, as in a container whose user is only a number."""
    try:
        Path.home()
    except RuntimeError as error:
        raise UsageError(
            "This user has no home folder.", cause=str(error), hint="Set HOME to a folder that you may write to."
        ) from error
