"""Files that start the server with the user's session: a systemd user unit, or a launchd agent."""

import plistlib
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

_LABEL = "localspec"
_SPARE = 15
"""Seconds that a stop may take beyond the grace period of running answers."""
_SECRET, _OWN = "api_key", "print_service"
"""Parameters that are not repeated: a file that anything may read is no place for a key."""
_KEY = "LOCALSPEC_API_KEY"
_NAMES = "models"
_FILES = ("model", "model_option", "draft", _NAMES)
"""Parameters that may be paths, which are made absolute: a service starts in another folder."""
_SYSTEMD = """\
# Save this as ~/.config/systemd/user/localspec.service. Then:
#   systemctl --user daemon-reload
#   systemctl --user enable --now localspec
#   journalctl --user -u localspec    shows what it says
[Unit]
Description=localspec, language models for the programs of this machine
After=network.target

[Service]
ExecStart={command}
{environment}Restart=on-failure
RestartSec=5
# A wrong flag, a missing model, an incompatible pair, too little memory: a restart changes nothing.
RestartPreventExitStatus=2 3 4 5
TimeoutStopSec={stop}
{limits}NoNewPrivileges=true

[Install]
WantedBy=default.target
"""


def service_file(context: click.Context, system: str = sys.platform) -> str:
    """Return the file for a system (`sys.platform`) that starts the server with the flags of this command line."""
    arguments, flags = [*_program(), "serve", *_given(context)], context.params
    has_key = bool(flags[_SECRET])
    if system == "darwin":
        return _agent(arguments, has_key=has_key)
    key = f"# The key of --api-key. Keep this file private (chmod 600).\nEnvironment={_KEY}=PUT-THE-KEY-HERE\n"
    return _SYSTEMD.format(
        command=" ".join(map(_quoted, arguments)),
        environment=key if has_key else "",
        stop=int(flags["grace"]) + _SPARE,
        limits="LimitMEMLOCK=infinity\n" if flags["mlock"] else "",
    )


def how_to_use(system: str = sys.platform) -> str:
    """Return what to do with the file, where the file itself can't say it; "" where it does."""
    if system != "darwin":
        return ""
    path = f"~/Library/LaunchAgents/{_LABEL}.plist"
    return f"Save this as {path}. Then: launchctl load -w {path}"


def _agent(arguments: Sequence[str], *, has_key: bool) -> str:
    agent: dict[str, Any] = {
        "Label": _LABEL,
        "ProgramArguments": [*arguments],
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 30,
        "StandardErrorPath": str(Path.home() / "Library/Logs/localspec-serve.log"),
    }
    if has_key:
        agent["EnvironmentVariables"] = {_KEY: "PUT-THE-KEY-HERE"}
    return plistlib.dumps(agent, sort_keys=False).decode()


def _program() -> list[str]:
    found = shutil.which(sys.argv[0]) or shutil.which("localspec")
    return [str(Path(found).absolute())] if found else [sys.executable, "-m", "app"]


def _given(context: click.Context) -> list[str]:
    """Return the arguments of the command line, options first, files with their whole path."""
    options: list[str] = []
    arguments: list[str] = []
    for parameter in context.command.params:
        name = parameter.name or ""
        is_given = context.get_parameter_source(name) in (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
        if not is_given or name in (_SECRET, _OWN):
            continue
        value = context.params[name]
        if isinstance(parameter, click.Argument):
            arguments.append(_absolute(name, value))
        elif isinstance(parameter, click.Option):
            options += _spelled(parameter, name, value)
    return [*options, *arguments]


def _spelled(option: click.Option, name: str, value: Any) -> list[str]:
    flag = max(option.opts, key=len)
    if option.is_flag:
        return [flag] if value else []
    return [part for one in (value if option.multiple else (value,)) for part in (flag, _absolute(name, one))]


def _absolute(name: str, value: Any) -> str:
    """Return a value with the whole path of each file in it."""
    if name not in _FILES:
        return str(value)
    kind, mark, rest = ("model", ":", value[6:]) if str(value).startswith("model:") else ("", "", str(value))
    return kind + mark + ",".join(map(_whole_path, rest.split(",") if name == _NAMES else [rest]))


def _whole_path(text: str) -> str:
    there = next((one for one in (text, f"{text}.gguf") if Path(one).is_file()), None)
    return text if there is None else str(Path(there).absolute())


_ESCAPES: Mapping[int, str] = str.maketrans({"\\": "\\\\", '"': '\\"', "%": "%%", "$": "$$", "\n": "\\n"})


def _quoted(argument: str) -> str:
    """Return an argument as systemd reads it."""
    return f'"{argument.translate(_ESCAPES)}"'
