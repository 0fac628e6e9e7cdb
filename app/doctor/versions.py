"""Findings about versions and optional packages."""

import platform
import re
from collections.abc import Iterator
from functools import partial
from importlib import metadata

from app import __version__
from app.doctor.findings import Finding, Mark
from app.shell.extras import extras, install_command
from models.llama.bindings import VERSION
from models.system.installing import rebuild_command

_version = partial(Finding, "versions")
_NAME = re.compile(r"[\w.-]+")


def version_findings() -> Iterator[Finding]:
    """Yield the versions of Python, engine and packages, and the missing optional packages."""
    yield _version("localspec", __version__, values={"version": __version__})
    python = f"{platform.python_implementation()} {platform.python_version()}"
    yield _version("Python", python, values={"version": platform.python_version()})
    yield _engine()
    yield from (_extra(name, packages) for name, packages in sorted(extras().items()))


def _engine() -> Finding:
    found = _installed("llama-cpp-python")
    values = {"version": found, "wanted": VERSION}
    if found == VERSION:
        return _version("llama-cpp-python", found, values=values)
    fact, remedy = f"{found or 'not installed'}; {VERSION} is needed", f"Build it: {rebuild_command(VERSION)}"
    return _version("llama-cpp-python", fact, Mark.PROBLEM, remedy, values)


def _extra(name: str, wanted: list[str]) -> Finding:
    packages = [package[0] for line in wanted if (package := _NAME.match(line))]
    found = {package: _installed(package) for package in packages}
    values = {"packages": {**found}}
    if all(found.values()):
        return _version(name, ", ".join(f"{package} {version}" for package, version in found.items()), values=values)
    return _version(name, f"optional, not installed; to install: {install_command(name)}", values=values)


def _installed(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
