"""The commands `models` and `check`, their flags and help; what they do is imported when they run."""

from pathlib import Path

import click

from app.context_size import CONTEXT_HELP, Asked, ContextSize
from app.options import ModelName
from models.cache_types import CACHE_TYPES

_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object.")
_YES = click.option("-y", "--yes", is_flag=True, help="Do not ask.")
_NAME = click.argument("name", type=ModelName("starter"))
_CONTEXT = click.option(
    "-c", "--ctx-size", default=0, type=ContextSize(), metavar="N|auto", help=CONTEXT_HELP, show_default=True
)
_CACHE = click.Choice(CACHE_TYPES)
_KEYS = click.option("-ctk", "--cache-type-k", "keys", default="auto", type=_CACHE, help="Type of cached keys.")
_VALUES = click.option("-ctv", "--cache-type-v", "values", default="auto", type=_CACHE, help="Type of cached values.")
_FOLDERS = click.option(
    "--dir", "folders", multiple=True, type=click.Path(path_type=Path), help="Look in this folder, too. Repeatable."
)

_MODELS_HELP = """See the models on this machine, whoever fetched them; fetch others.

A model can be named by its path, as "starter", or by the name it has elsewhere, as far as it is here:

\b
  user/repo  user/repo:Q4_K_M  hf.co/user/repo:Q8_0    in the Hugging Face cache, or llama.cpp's
  hf://user/repo/file.gguf                             a certain file there
  ollama:llama3.2:3b                                   fetched by Ollama
  lmstudio:publisher/model/file.gguf                   fetched by LM Studio

Only pull uses the network, only rm removes anything, and only what pull fetched. Of a model in several files, name the
first. LOCALSPEC_MODELS has folders of your own, written like PATH.
"""
_PULL_HELP = """Fetch a model from the Hugging Face hub, into the cache that other programs use, too.

\b
  localspec models pull user/repo                    Q4_K_M if it fits in memory, else the largest that does
  localspec models pull user/repo:Q8_0               a certain quantisation
  localspec models pull user/repo --with-draft       and the small model of its family, to guess for it
  localspec models pull hf://user/repo@v1/m.gguf     a certain file of a certain revision
  localspec models pull https://huggingface.co/user/repo/blob/main/m.gguf

Says the size, the room on the disk and the memory first, and asks on a terminal. Ctrl-C stops, and the same command
goes on from there. What came is compared with the hub's SHA-256. HF_TOKEN, HF_ENDPOINT and HF_HUB_CACHE count as they
do for the hub's own tools.
"""
_RM_HELP = """Remove models that `localspec models pull` fetched, and what is left of broken downloads.

Asks first on a terminal. Models of Ollama, LM Studio and others stay, and it is told whose they are.
"""
_SUGGEST_HELP = """Name the draft model to use for TARGET, or tell that none is needed.

\b
  localspec models suggest big.gguf    the models here that can guess for it, and what its family has to fetch
  localspec models suggest             the same for each model here that another one here can guess for

Ranked by the speed-up that is predicted for this machine, from slow texts to quick ones: the cost of passes as `tune`
or an earlier run measured it, of a guess by the weights that a token reads where it was not measured. Nothing is
loaded, and nothing fetched. Ends with the command line to use. Exit codes: 0; 3 where TARGET is missing or damaged.
"""
_CHECK_HELP = """Tell from the files' headers whether DRAFT can guess for TARGET, and whether both fit in memory.

\b
  localspec check big.gguf tiny.gguf             every token compared, and the memory of both
  localspec check big.gguf tiny.gguf -c 32768    with a longer context; -c auto: the longest that fits
  localspec check ollama:qwen3:8b                one model: is the file whole, does it fit?

Nothing is loaded. Exit codes: 0 they can be used; 4 they are no pair; 5 they do not fit; 3 a file is missing or
damaged.
"""


@click.group(help=_MODELS_HELP)
def models() -> None:
    """See the models on this machine, whoever fetched them; fetch others."""


@models.command("ls")
@_FOLDERS
@_JSON
def _list(*, folders: tuple[Path, ...], as_json: bool) -> None:
    """List every model here: the name to use it by, what it is, and whether it fits in memory now.

    FIM tells whether it can fill in code at the cursor. MEMORY tells how far it can take back wrong guesses: rewind
    (any distance), checkpoint (a few tokens) or none (then it runs without a drafter).
    """
    from app.catalog.listing import list_models

    list_models(folders, as_json=as_json)


@models.command("info")
@_NAME
@_CONTEXT
@_KEYS
@_VALUES
@_JSON
def _info(*, name: str, ctx_size: Asked, keys: str, values: str, as_json: bool) -> None:
    """Show what a model says of itself, and how much memory it takes."""
    from app.catalog.inspection import show_model

    show_model(name, ctx_size, (keys, values), as_json=as_json)


@models.command("path")
@_NAME
def _path(name: str) -> None:
    """Print the file that a name stands for."""
    from app.catalog.inspection import print_path

    print_path(name)


@models.command("pull", help=_PULL_HELP)
@click.argument("name")
@click.option("--quant", default="", metavar="Q", help="The quantisation, as in user/repo:Q.")
@click.option("--with-draft", is_flag=True, help="Fetch the small model of its family, too, if the two are a pair.")
@_YES
@click.option("--offline", is_flag=True, envvar="LOCALSPEC_OFFLINE", help="Use no network; also HF_HUB_OFFLINE=1.")
@_JSON
def _pull(*, name: str, quant: str, with_draft: bool, yes: bool, offline: bool, as_json: bool) -> None:
    """Fetch a model from the Hugging Face hub."""
    from app.catalog.pulling import PullRequest, run_pull

    request = PullRequest(name, quant, with_draft=with_draft, ask=not yes, offline=offline, as_json=as_json)
    click.get_current_context().exit(run_pull(request))


@models.command("suggest", help=_SUGGEST_HELP)
@click.argument("target", required=False, type=ModelName("starter"))
@_FOLDERS
@_JSON
def _suggest(*, target: str | None, folders: tuple[Path, ...], as_json: bool) -> None:
    """Name the draft model to use for a target, or tell that none is needed."""
    from app.catalog.suggesting import suggest

    suggest(target, folders, as_json=as_json)


@models.command("pairs")
@_JSON
def _pairs(*, as_json: bool) -> None:
    """List the pair cards that `localspec tune TARGET --draft DRAFT` wrote, or that were put into their folder.

    A pair is used by its name, as in `localspec run pair:NAME`, or by the file of its card: pair:FILE.toml. PREDICTED
    is computed from measured passes, MEASURED is what answers showed. A card of another machine gives the pair, not
    settings.
    """
    from app.catalog.listing_pairs import list_pairs

    list_pairs(as_json=as_json)


@models.command("rm", help=_RM_HELP)
@click.argument("names", nargs=-1, required=True)
@_YES
def _remove(*, names: tuple[str, ...], yes: bool) -> None:
    """Remove models that were fetched."""
    from app.catalog.removing import remove_models

    click.get_current_context().exit(remove_models(names, ask=not yes))


@click.command(help=_CHECK_HELP)
@click.argument("target", type=ModelName("starter"))
@click.argument("draft", required=False, type=ModelName("starter"))
@_CONTEXT
@_KEYS
@_VALUES
@_JSON
@click.pass_context
def check(
    context: click.Context, /, *, target: str, draft: str | None, ctx_size: Asked, keys: str, values: str, as_json: bool
) -> None:
    """Tell whether a draft model can guess for a target, and whether both fit in memory."""
    from app.catalog.checking import run_check
    from app.catalog.inspection import context_for

    tokens = context_for(target, draft, ctx_size, (keys, values))
    context.exit(run_check(target, draft, tokens, (keys, values), as_json=as_json))
