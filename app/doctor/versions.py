"""Versions, and which optional parts are there."""

import platform
import re
from collections.abc import Iterator
from functools import partial
from importlib import metadata

from app import __version__
from app.doctor.findings import Finding, Mark
from models.bindings import VERSION

_version = partial(Finding, "versions")
_NAME = re.compile(r"[\w.-]+")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([\w-]+)['"]""")


def version_findings() -> Iterator[Finding]:
    """Yield the versions that matter, and the optional parts."""
    yield _version("localspec", __version__, values={"version": __version__})
    python = f"{platform.python_implementation()} {platform.python_version()}"
    yield _version("Python", python, values={"version": platform.python_version()})
    yield _engine()
    yield from (_extra(name, packages) for name, packages in sorted(_extras().items()))


def _engine() -> Finding:
    found = _installed("llama-cpp-python")
    values = {"version": found, "wanted": VERSION}
    if found == VERSION:
        return _version("llama-cpp-python", found, values=values)
    fact, remedy = f"{found or 'not installed'}; {VERSION} is needed", f"pip install llama-cpp-python=={VERSION}"
    return _version("llama-cpp-python", fact, Mark.PROBLEM, remedy, values)


def _extra(name: str, packages: list[str]) -> Finding:
    found = {package: _installed(package) for package in packages}
    values = {"packages": {**found}}
    if all(found.values()):
        return _version(name, ", ".join(f"{package} {version}" for package, version in found.items()), values=values)
    return _version(name, f'optional, not installed; for it: pip install "localspec[{name}]"', values=values)


def _extras() -> dict[str, list[str]]:
    """Return the packages of each optional part, as the installed localspec names them."""
    found: dict[str, list[str]] = {}
    try:
        wanted = metadata.requires("localspec") or []
    except metadata.PackageNotFoundError:
        return found
    for line in wanted:
        package, extra = _NAME.match(line), _EXTRA.search(line)
        if package and extra:
            found.setdefault(extra[1], []).append(package[0])
    return found


def _installed(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
