"""Optional parts of localspec: their requirements and the command that installs them."""

import re

from models.system.installing import pip_command

_EXTRA = re.compile(r"""\s*;\s*extra\s*==\s*['"]([\w-]+)['"]""")


def extras() -> dict[str, list[str]]:
    """Return the requirements of each optional part, such as "pygls>=2.1", as the installed localspec names them."""
    # Imported here: it takes a fifth of the time of `localspec --help`.
    from importlib import metadata

    found: dict[str, list[str]] = {}
    try:
        wanted = metadata.requires("localspec") or []
    except metadata.PackageNotFoundError:
        return found
    for line in wanted:
        if extra := _EXTRA.search(line):
            found.setdefault(extra[1], []).append(line[: extra.start()])
    return found


def install_command(name: str) -> str:
    """Return the command that brings what an optional part needs."""
    # By the libraries' own names: after an installation from a checkout no index may have localspec.
    return pip_command("install", *(f'"{wanted}"' for wanted in extras().get(name, [f"localspec[{name}]"])))
