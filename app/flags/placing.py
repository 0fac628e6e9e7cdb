"""Flags that place a model's weights on devices or workers, and flags that add adapters."""

import re
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address
from math import isfinite
from pathlib import Path
from typing import Any, Literal

import click

from app.flags.declaring import option
from app.flags.number_types import LayerCount
from models.errors import UsageError
from models.llama.weights.placement import ALL_LAYERS, Override, Placement

AUTO: Literal["auto"] = "auto"
_MODEL = "Model and machine"
_MOST_LAYERS, _MOST_SHARES, _LONGEST_PATTERN = 4096, 16, 256
_LAYERS_HELP = (
    "Number of layers on the GPU, if the build supports one; -1 or all: all layers; 0: none; auto: as many as fit in "
    "its free memory, with the experts of a mixture in main memory first."
)
_EXPERTS_HELP = "Keep the experts of a mixture in main memory, and everything else on the GPU."
_SOME_HELP = "The same for the experts of the first N layers."
_OVERRIDE_HELP = (
    r"Put tensors with a matching name on a device, as in 'blk\.1\..*_exps=CPU'. Repeatable; the first counts."
)
_SPLIT_HELP = "Shares of the layers for each GPU or worker, such as 3,1.  [default: by free memory]"
_LORA_HELP = "Add a LoRA adapter to the model, at a scale if one is given. Repeatable."
_RPC_HELP = (
    "Spread the layers over workers (localspec worker), and draft here. Only this machine's addresses, unless "
    "--rpc-no-authentication is given."
)
_OPEN_HELP = "Allow --rpc to other machines. The connection has no authentication and no encryption."
_WORKER = re.compile(r"([A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?):(\d{1,5})")
_MOST_WORKERS, _MOST_PORTS = 16, 65535


class PlacedLayers(LayerCount):
    """Number of layers on a GPU; "auto" for as many as fit."""

    name = "integer|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the count, -1 for all, or AUTO; raises click.BadParameter."""
        return AUTO if str(value).strip().lower() == AUTO else super().convert(value, param, ctx)


_FLAGS: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (
        ("-ngl", "--gpu-layers", "--n-gpu-layers"),
        {"default": -1, "type": PlacedLayers(), "metavar": "N|auto", "help": _LAYERS_HELP},
    ),
    (("-cmoe", "--cpu-moe"), {"is_flag": True, "help": _EXPERTS_HELP}),
    (("-ncmoe", "--n-cpu-moe"), {"default": 0, "type": click.IntRange(0, _MOST_LAYERS), "help": _SOME_HELP}),
    (("-ot", "--override-tensor"), {"multiple": True, "metavar": "PATTERN=DEVICE", "help": _OVERRIDE_HELP}),
    (("-ts", "--tensor-split"), {"metavar": "N,N,...", "help": _SPLIT_HELP}),
)
PLACING = tuple(option(_MODEL, *names, **how) for names, how in _FLAGS)
"""The flags of commands that load models, which settings files may have too."""
PLANNED = tuple(click.option(*names, show_default=True, **how) for names, how in _FLAGS)
"""The same for `check`, which has no settings."""
ADAPTERS = option(_MODEL, "--lora", multiple=True, metavar="FILE[:SCALE]", help=_LORA_HELP)

RPC = (
    option(_MODEL, "--rpc", metavar="HOST:PORT,...", help=_RPC_HELP),
    option(_MODEL, "--rpc-no-authentication", is_flag=True, help=_OPEN_HELP),
)


def read_placement(flags: Mapping[str, Any]) -> Placement:
    """Read where weights go; raises UsageError."""
    layers = ALL_LAYERS if flags.get("cpu_moe") else flags.get("n_cpu_moe") or 0
    overrides = tuple(rule for text in flags.get("override_tensor") or () for rule in _overrides(text))
    workers = _workers(flags.get("rpc"), is_open=flags.get("rpc_no_authentication", False))
    if workers and AUTO in (flags.get("gpu_layers"), flags.get("ctx_size")):
        raise UsageError(
            "--rpc does not go with auto: the memory of other machines is not planned.",
            hint="Give -c and -ngl as numbers, or leave them out.",
        )
    return Placement(flags.get("gpu_layers") == AUTO, layers, overrides, _split(flags.get("tensor_split")), workers)


def is_loopback(host: str) -> bool:
    """Return whether an address is this machine's own."""
    if host.casefold() == "localhost":
        return True
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return False


def _workers(text: str | None, *, is_open: bool) -> tuple[str, ...]:
    """Read the workers; raises UsageError for an address that is none, or is not to be used without being allowed."""
    if not text:
        return ()
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if len(found) > _MOST_WORKERS or len(set(found)) < len(found) or not found:
        raise UsageError(f"--rpc takes 1 to {_MOST_WORKERS} different workers.", hint="Separate them by commas.")
    for worker in found:
        match = _WORKER.fullmatch(worker)
        if match is None or not 0 < int(match[2]) <= _MOST_PORTS:
            raise UsageError(f"--rpc: '{worker}' is not HOST:PORT.", hint="Such as 127.0.0.1:50052.")
        if not is_open and not is_loopback(match[1]):
            raise UsageError(
                f"--rpc: {worker} is another machine, and a connection to a worker has no authentication.",
                cause="Text and weights would cross the network as they are.",
                hint="Use a tunnel, as in `ssh -L 50052:127.0.0.1:50052 HOST`, and --rpc 127.0.0.1:50052. "
                "Or allow it with --rpc-no-authentication.",
            )
    return found


def gpu_layers(flags: Mapping[str, Any]) -> int:
    """Return the number of layers on the GPU that a load begins with; -1: all, also where it is yet to be chosen."""
    layers = flags["gpu_layers"]
    return -1 if layers == AUTO else int(layers)


def read_adapters(flags: Mapping[str, Any]) -> tuple[Any, ...]:
    """Read the adapters; raises UsageError for a scale that is no number, and ModelFileError for a missing file."""
    texts = flags.get("lora") or ()
    if not texts:
        return ()
    from models.gguf.file import check_file
    from models.llama.weights.adapters import Adapter
    from models.system.home import at_home

    found = []
    for text in texts:
        name, scale = _scaled(text)
        path = at_home(name, "--lora")
        check_file(path)
        found.append(Adapter(path, scale))
    return tuple(found)


def _scaled(text: str) -> tuple[str, float]:
    """Return the file and the scale of FILE[:SCALE]; a file may have a colon in its name."""
    name, colon, scale = text.rpartition(":")
    with suppress(ValueError):
        if colon and name and not Path(text).is_file():
            number = float(scale)
            if not isfinite(number):
                raise UsageError(f"--lora {text}: {scale} is not a finite number.", hint="Give a scale such as 0.5.")
            return name, number
    return text, 1.0


def _overrides(text: str) -> list[Override]:
    """Read PATTERN=DEVICE, or several with commas between; raises UsageError."""
    parts = text.split(",")
    # A comma may be part of a pattern, as in x{1,2}.
    parts = parts if all("=" in part for part in parts) else [text]
    return [_override(part) for part in parts]


def _override(text: str) -> Override:
    pattern, equals, device = text.rpartition("=")
    hint = r"Write a pattern for names of tensors and a device, such as 'blk\.[0-9]\..*_exps=CPU'."
    if not (pattern and equals and device):
        raise UsageError(f"-ot {text or repr(text)} is not PATTERN=DEVICE.", hint=hint)
    if len(pattern) > _LONGEST_PATTERN or not pattern.isprintable():
        raise UsageError(f"-ot: a pattern has at most {_LONGEST_PATTERN} printable characters.", hint=hint)
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"-ot: '{pattern}' is not a regular expression.", cause=f"{error}.", hint=hint) from error
    return Override(pattern, device)


def _split(text: str | None) -> tuple[float, ...]:
    if not text:
        return ()
    hint = "Give one number for each GPU or worker, such as 3,1."
    try:
        shares = tuple(float(part) for part in text.replace("/", ",").split(","))
    except ValueError:
        raise UsageError(f"--tensor-split {text} is not a list of numbers.", hint=hint) from None
    if not all(isfinite(share) and share >= 0 for share in shares) or sum(shares) == 0:
        raise UsageError(f"--tensor-split {text}: shares are 0 or more, and one of them is more than 0.", hint=hint)
    if len(shares) > _MOST_SHARES:
        raise UsageError(f"--tensor-split has {len(shares)} shares; at most {_MOST_SHARES} are possible.", hint=hint)
    return shares
