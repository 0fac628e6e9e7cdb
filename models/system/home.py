"""Paths as people write them: what begins with "~" is in a home folder."""

from pathlib import Path

from models.errors import LocalspecError, UsageError


def at_home(name: str, given_by: str = "", failure: type[LocalspecError] = UsageError) -> Path:
    """Return the path that a name means; raises `failure` for the home of somebody who has none here.

    `given_by` is the flag or the variable that it came from, if any.
    """
    try:
        return Path(name).expanduser()
    except RuntimeError as error:
        title = f"{given_by} {name} can't be found.".lstrip()
        raise failure(title, cause=str(error), hint="Name the folder itself.") from error


def check_home() -> None:
    """Raise UsageError where nobody knows this user's home folder, as in a container with a number for a user."""
    try:
        Path.home()
    except RuntimeError as error:
        raise UsageError(
            "This user has no home folder.", cause=str(error), hint="Set HOME to a folder that you may write to."
        ) from error
