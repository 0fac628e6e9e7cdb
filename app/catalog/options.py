"""The commands `models` and `check`, their flags and help; their code is imported when they run."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from app.flags.context_size import CONTEXT_HELP, ContextSetting, ContextSize
from app.flags.declaring import Command, ModelName, add_options
from app.flags.options import CACHE_K_HELP, CACHE_V_HELP
from app.flags.placing import PLANNED, gpu_layers, read_placement
from models.llama.cache_types import CACHE_TYPES

if TYPE_CHECKING:
    from models.llama.load import LlamaOptions

_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
_YES = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
_NAME = click.argument("name", type=ModelName("starter"))
_CONTEXT = click.option(
    "-c", "--ctx-size", default=0, type=ContextSize(), metavar="N|auto", help=CONTEXT_HELP, show_default=True
)
_CACHE = click.Choice(CACHE_TYPES)
_KEYS = click.option("-ctk", "--cache-type-k", "keys", default="auto", type=_CACHE, help=CACHE_K_HELP)
_VALUES = click.option("-ctv", "--cache-type-v", "values", default="auto", type=_CACHE, help=CACHE_V_HELP)
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_FOLDERS = click.option("--dir", "folders", multiple=True, type=_FOLDER, help="Also search this folder. Repeatable.")

_MODELS_HELP = """List, inspect, fetch and remove models.

Name a model by its path, as "starter", or by its name in another program's store on this machine:

\b
  user/repo  user/repo:Q4_K_M  hf.co/user/repo:Q8_0    in the cache of Hugging Face or llama.cpp
  hf://user/repo/file.gguf                             one file there
  ollama:llama3.2:3b                                   fetched by Ollama
  lmstudio:publisher/model/file.gguf                   fetched by LM Studio

Only pull uses the network. Only rm removes models, and only those that pull fetched. For a model in several files,
name the first file. LOCALSPEC_MODELS lists your own model folders, separated as in PATH.
"""
_PULL_HELP = """Fetch a model from the Hugging Face hub, into the cache shared with other programs.

\b
  localspec models pull user/repo                    Q4_K_M if it fits in memory, else the largest that does
  localspec models pull user/repo:Q8_0               a given quantisation
  localspec models pull user/repo --with-draft       and a head or small model, to draft for it
  localspec models pull hf://user/repo@v1/m.gguf     a given file of a given revision
  localspec models pull https://huggingface.co/user/repo/blob/main/m.gguf

First shows size, free disk space and needed memory; on a terminal, asks. Ctrl-C stops; the same command resumes. The
download is checked against the hub's SHA-256. HF_TOKEN, HF_ENDPOINT and HF_HUB_CACHE work as in the hub's own tools.
"""
_RM_HELP = """Remove models that `localspec models pull` fetched, and parts from unfinished downloads.

On a terminal, asks first. Models of Ollama, LM Studio and other programs are kept; the message names the program.
"""
_SUGGEST_HELP = """Suggest a draft model for TARGET, or models to fetch.

\b
  localspec models suggest big.gguf    local models that can draft for it, and fetchable ones of its family
  localspec models suggest             the same for all models here that have a draft model, and models to fetch

Without TARGET, a short list of models follows that comes with localspec, with its date: those that fit in memory first,
each with its size, its licence and its draft model.

Ranked by the speed-up predicted for this machine: a range from text that is hard to draft to text that is easy. The
costs of passes come from `tune` or an earlier run. An unmeasured draft model's cost is estimated from the bytes read
per token. Nothing is loaded or fetched. Exit codes: 0; 3 if TARGET is missing or damaged.
"""
_CHECK_HELP = """Check from file headers that TARGET and DRAFT are a pair and that both fit in memory.

\b
  localspec check big.gguf tiny.gguf             compares every token, and the memory of both
  localspec check big.gguf tiny.gguf -c 32768    with a longer context; -c auto: the longest that fits
  localspec check ollama:qwen3:8b                one model: completeness of the file, and memory

Nothing is loaded. Exit codes: 0 usable; 4 not a pair; 5 does not fit; 3 a file is missing or damaged.
"""


@click.group(help=_MODELS_HELP)
def models() -> None:
    """List, inspect, fetch and remove models."""


@models.command("ls", short_help="List every model on this machine.")
@_FOLDERS
@_JSON
def _list(*, folders: tuple[Path, ...], as_json: bool) -> None:
    """List every model on this machine: name, kind, and whether it fits in memory now.

    FIM: whether it can fill in code at the cursor. MEMORY: how far its memory can be rewound after rejected draft
    tokens: rewind (any distance), checkpoint (a few tokens) or none (it runs without a drafter).
    """
    from app.catalog.listing import list_models

    list_models(folders, as_json=as_json)


@models.command("info")
@_NAME
@_CONTEXT
@_KEYS
@_VALUES
@_JSON
def _info(*, name: str, ctx_size: ContextSetting, keys: str, values: str, as_json: bool) -> None:
    """Show the properties of a model file and the memory that it needs."""
    from app.catalog.inspection import show_model

    show_model(name, ctx_size, (keys, values), as_json=as_json)


@models.command("path")
@_NAME
def _path(name: str) -> None:
    """Print the path of a model's file."""
    from app.catalog.inspection import print_path

    print_path(name)


@models.command("pull", help=_PULL_HELP, short_help="Fetch a model from the Hugging Face hub.")
@click.argument("name")
@click.option("--quant", default="", metavar="Q", help="Quantisation to fetch, as in user/repo:Q.")
@click.option(
    "--with-draft",
    is_flag=True,
    help="Also fetch a draft head of the repository, else a small model of its family, if both are a pair.",
)
@_YES
@click.option(
    "--offline",
    is_flag=True,
    envvar="LOCALSPEC_OFFLINE",
    help="Do not use the network; same as LOCALSPEC_OFFLINE=1 or HF_HUB_OFFLINE=1.",
)
@_JSON
def _pull(*, name: str, quant: str, with_draft: bool, yes: bool, offline: bool, as_json: bool) -> None:
    """Fetch a model from the Hugging Face hub."""
    from app.catalog.pulling import PullRequest, run_pull

    request = PullRequest(name, quant, with_draft=with_draft, ask=not yes, offline=offline, as_json=as_json)
    click.get_current_context().exit(run_pull(request))


@models.command("suggest", help=_SUGGEST_HELP, short_help="Suggest a draft model for TARGET, or models to fetch.")
@click.argument("target", required=False, type=ModelName("starter"))
@_FOLDERS
@_JSON
def _suggest(*, target: str | None, folders: tuple[Path, ...], as_json: bool) -> None:
    """Suggest a draft model for a target, or models to fetch."""
    from app.catalog.suggesting import suggest

    suggest(target, folders, as_json=as_json)


@models.command("pairs", short_help="List the pair cards on this machine.")
@_JSON
def _pairs(*, as_json: bool) -> None:
    """List the pair cards that `localspec tune TARGET --draft DRAFT` wrote or that were added to their folder.

    Use a pair by its name, as in `localspec run pair:NAME`, or by its card, as in pair:FILE.toml. PREDICTED is computed
    from measured passes, MEASURED comes from real answers. From a card made on another machine only the pair is used,
    not its settings.
    """
    from app.catalog.listing_pairs import list_pairs

    list_pairs(as_json=as_json)


@models.command("rm", help=_RM_HELP, short_help="Remove models that pull fetched.")
@click.argument("names", nargs=-1, required=True)
@_YES
def _remove(*, names: tuple[str, ...], yes: bool) -> None:
    """Remove models that were fetched."""
    from app.catalog.removing import remove_models

    click.get_current_context().exit(remove_models(names, ask=not yes))


def _placing(command: Command) -> Command:
    return add_options(command, PLANNED)


@click.command(help=_CHECK_HELP, short_help="Check that TARGET and DRAFT are a pair and fit in memory.")
@click.argument("target", type=ModelName("starter"))
@click.argument("draft", required=False, type=ModelName("starter"))
@_CONTEXT
@_KEYS
@_VALUES
@_placing
@_JSON
@click.pass_context
def check(
    context: click.Context,
    /,
    *,
    target: str,
    draft: str | None,
    ctx_size: ContextSetting,
    keys: str,
    values: str,
    as_json: bool,
    **placing: Any,
) -> None:
    """Check that a draft model suits a target and that both fit in memory."""
    from app.catalog.checking import run_check
    from app.catalog.inspection import context_for

    tokens = context_for(target, draft, ctx_size, (keys, values))
    options = _placed_as(placing, keys, values) if _asks(placing) else None
    context.exit(run_check(target, draft, tokens, (keys, values), as_json=as_json, options=options))


def _asks(placing: Mapping[str, Any]) -> bool:
    """Return whether any flag says where weights go."""
    return placing["gpu_layers"] != -1 or any(value for name, value in placing.items() if name != "gpu_layers")


def _placed_as(placing: Mapping[str, Any], keys: str, values: str) -> "LlamaOptions":
    from models.llama.load import LlamaOptions

    layers, placement = gpu_layers(placing), read_placement(placing)
    return LlamaOptions(gpu_layers=layers, cache_type_k=keys, cache_type_v=values, placement=placement)
