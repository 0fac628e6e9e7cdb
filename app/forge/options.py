"""The commands of `localspec forge`, their flags and help; their code is imported when they run."""

from typing import Any

import click

from app.flags.declaring import ModelName, SectionedCommand, add_options, option
from app.flags.epilog import EXIT_CODES
from app.flags.number_types import FiniteRange
from app.flags.options import THREADS
from app.forge.methods.registry import METHODS

_HOW, _DATA, _OUTPUT = "How to make it", "What it learns from", "Output"
_METHOD_HELP = f"Kind of drafter: {'; '.join(f'{name}, {what}' for name, what in METHODS.items())}."
_MINUTES_HELP = (
    "Minutes to spend in all; a later run with more goes on from what was done.  [default: 60; prune 20, trim 15]"
)
_DATA_HELP = "Prompts of your own, as JSON lines as for bench; the target answers them first."
_HISTORY_HELP = "Use the prompts of your saved conversations too. Nothing leaves this machine."
_OUT_HELP = "File of the drafter.  [default: one that `run TARGET` finds]"
_KIND_HELP = "Type of a head's weights; q4_0 is half as large, and a little less accepted.  [default: q8_0]"
_TRAINING_HELP = "Of eagle3; without: only compute the head, in a minute and without torch; it is seldom accepted."
_KEEP_HELP = "Keep the drafter even if the trial shows that it does not pay."
_DRAFT_HELP = "Draft model that trim begins with.  [default: the best one of this machine]"
_TOKENS_HELP = "Tokens that trim keeps; 0: 32,768, or half of the vocabulary."
_DEVICE_HELP = "Device that trains; auto takes a GPU where torch finds one."

_OPTIONS = (
    option(_HOW, "--method", default="eagle3", type=click.Choice(tuple(METHODS)), help=_METHOD_HELP),
    option(_HOW, "--minutes", type=FiniteRange(min=0.1, max=100_000), help=_MINUTES_HELP),
    option(_HOW, "--training/--no-training", "train", default=True, help=_TRAINING_HELP),
    option(_HOW, "--quantisation", type=click.Choice(("q8_0", "q4_0")), help=_KIND_HELP),
    option(_HOW, "--draft", type=ModelName(), metavar="MODEL", help=_DRAFT_HELP),
    option(_HOW, "--tokens", default=0, type=click.IntRange(min=0), help=_TOKENS_HELP),
    option(_HOW, "--device", default="auto", type=click.Choice(("auto", "cpu", "cuda", "mps")), help=_DEVICE_HELP),
    option(_HOW, "-t", "--threads", default=0, type=THREADS, help="Number of threads; 0: one per physical core."),
    option(_HOW, "--on-battery", is_flag=True, help="Forge even while this machine runs on its battery."),
    option(_DATA, "--data", metavar="FILE", help=_DATA_HELP),
    option(_DATA, "--history", is_flag=True, help=_HISTORY_HELP),
    option(_OUTPUT, "--out", metavar="FILE", help=_OUT_HELP),
    option(_OUTPUT, "--keep", is_flag=True, help=_KEEP_HELP),
    option(_OUTPUT, "-y", "--yes", is_flag=True, help="Do not ask before it begins."),
    option(_OUTPUT, "--json", "as_json", is_flag=True, help="Print one JSON object: the card, and where it was kept."),
    option(_OUTPUT, "-q", "--quiet", is_flag=True, help="No progress, no notes."),
)


class _Forge(click.Group):
    """The group, whose first word may be a target in place of a command."""

    def parse_args(self, context: click.Context, arguments: list[str]) -> list[str]:
        """Read `forge TARGET` as `forge make TARGET`."""
        named = bool(arguments) and arguments[0] in (*self.commands, "-h", "--help")
        return super().parse_args(context, arguments if named or not arguments else ["make", *arguments])


@click.group(cls=_Forge, epilog=EXIT_CODES, short_help="Make a drafter for a model that has none.")
def forge() -> None:
    """Make a drafter for a model on this machine, from the model's own answers.

    \b
      localspec forge TARGET                    a draft head (EAGLE-3), in an hour
      localspec forge TARGET --minutes 240      a better one; a later run goes on from an earlier one
      localspec forge TARGET --history          learn from your own prompts too
      localspec forge TARGET --method medusa    heads that predict four places from the last layer
      localspec forge TARGET --method distil    the starter, or --draft FILE, trained on its answers
      localspec forge TARGET --method prune     a draft model: TARGET without some of its blocks
      localspec forge TARGET --method trim      a draft model with fewer tokens, from another one
      localspec forge make --help               all flags

    It says beforehand what it will take and what it may gain, and asks. Ctrl-C stops it, and the same command goes on.
    At the end the drafter answers held-back prompts; it is kept only if it pays. `localspec run TARGET` then uses it.
    """


@forge.command(cls=SectionedCommand, epilog=EXIT_CODES, short_help="Make a drafter for TARGET; `make` may be left out.")
@click.argument("target", type=ModelName("starter"))
@lambda command: add_options(command, _OPTIONS)
@click.pass_context
def make(context: click.Context, /, target: str, **flags: Any) -> None:
    """Make a drafter for TARGET, a .gguf file or a name that `localspec models ls` shows.

    Needs localspec[forge], which brings torch; prune and trim work without torch. The target answers prompts, the
    drafter is made from the answers, and a trial on held-back prompts ends it. `localspec help forge` explains each
    method.
    """
    from app.forge.command import run_forge
    from app.shell.log import open_log

    open_log()
    context.exit(run_forge(target, flags))


@forge.command("ls")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def _list(*, as_json: bool) -> None:
    """List the drafters that were made here, and unfinished work."""
    from app.forge.command import list_forged

    list_forged(as_json=as_json)


@forge.command("rm", short_help="Remove forged drafters, with their answers and training.")
@click.argument("names", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Remove all.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@click.pass_context
def _remove(context: click.Context, /, names: tuple[str, ...], *, everything: bool, yes: bool) -> None:
    """Remove forged drafters by NAME, with their answers and training. On a terminal, asks first."""
    from app.forge.command import remove_forged

    context.exit(remove_forged(names, everything=everything, ask=not yes))
