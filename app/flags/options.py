"""Flags of `run`, by section, declared once for parsing, help and shell completion.

Other commands that load a model take whole groups from here.
"""

import click

from app.chat_input.themes import THEMES
from app.flags.context_size import CONTEXT_HELP, ContextSize
from app.flags.declaring import OUTPUT, Command, FileName, ModelName, add_options, option
from app.flags.number_types import FiniteRange, LayerCount, TokenLimit
from app.flags.placing import ADAPTERS, PLACING, RPC
from drafters.registry import drafter_help, names_to_offer
from models.llama.cache_types import CACHE_TYPES

THREADS = click.IntRange(0, 1024)
GPU_LAYERS = LayerCount()
_CACHE = click.Choice(CACHE_TYPES)
_FLASH = click.Choice(["auto", "on", "off"])
_ACCEPT = click.Choice(["coupled", "residual", "block", "typical"])
_OVERFLOW = click.Choice(["drop", "stop"])
THINK = click.Choice(["auto", "on", "off", "low", "medium", "high"])
CACHE_K_HELP = "Type of cached keys; auto: exact. Types below f16 change the answers of the model, q4_0 most."
CACHE_V_HELP = "Type of cached values, as for keys; auto: exact."
GPU_HELP = "Number of layers on the GPU, if the build supports one; -1 or all: all layers; 0: none."
_THREADS_HELP = "Number of threads; 0: one per physical core, and fewer while other programs hold cores."
_BATCH_THREADS_HELP = "Threads for reading prompts and verifying drafts; 0: as -t."
_ROUNDING_HELP = "Allow drafts longer than this machine verifies bit-exactly. Near-ties may then give another token."
_COPY_HELP = "Run the draft model from its own file. By default its first use writes a much faster copy in four bits."
_STRICT_HELP = (
    "Check at startup which passes are bit-exact, and use only those. Reports the cost, or why no pass is exact."
)
_ACCEPT_HELP = "Rule for accepting draft tokens, see above. coupled: the seed determines the text."
_EDIT_HELP = "Open FILE, FILE:LINE or FILE:LINE:COL in an editor with completions at the cursor; F1 shows its keys."
_THINK_HELP = (
    "Amount of thinking before the answer, for models that think. auto: the model's default. -q hides thoughts."
)
_SCHEMA_HELP = "Answer in JSON that matches this JSON Schema; '{}': any JSON."
_GRAMMAR_HELP = 'Answer only with text of this grammar, in GBNF or Lark form, such as: root ::= "yes" | "no"'
_OVERFLOW_HELP = "When the conversation exceeds the context: drop its oldest messages, or stop with an error."
_COUNT_HELP = "Maximum tokens to generate; -1: no limit.  [default: until the answer ends]"
_MAX_HELP = "Maximum draft tokens per round.  [default: chosen by expected gain; 3 with --no-adapt]"
_PREDICTION_HELP = (
    "File with the expected answer, such as the code to be rewritten. --draft auto and suffix copy drafts from it."
)
_SPECIAL_HELP = "Read control tokens spelled in the prompt, such as <|im_end|>, as tokens. By default, they are text."
_CONTINUE_HELP = "Continue the last conversation, with its model and system prompt."
_RESUME_HELP = "Continue the conversation with this id, or with these first digits of an id. See localspec history."
_HISTORY_HELP = "Save neither the conversation nor typed prompts; see localspec history. Implies --no-memory."
_CACHE_HELP = (
    "Maximum size of what is kept of saved chats so that they reopen without being read again, in GiB; 0: nothing."
)
_CACHE_DAYS_HELP = "Days after its last use that this is kept of a chat."
_MEMORY_HELP = "Keep nothing of this run for drafting, and draft nothing from earlier runs; see localspec drafter."
_ONLINE_HELP = (
    "Correct the draft model between answers by what the target said instead, and keep that for this project; see "
    "localspec help drafting."
)
_THEME_HELP = "Colour theme; auto: light if the terminal reports a light background, else dark."
_KEY_HELP = "Rebind a key, such as chat.panel=f12. F1 in the chat lists the names. In a settings file: a table [keys]."
_INPUT, _MODEL, _DRAFT, _SAMPLING = "Input", "Model and machine", "Speculation", "Sampling"
_SCREEN = "Screen"

_INPUT_OPTIONS = (
    option(_INPUT, "-p", "--prompt", "prompt_option", help="The prompt. Without a prompt, a terminal opens a chat."),
    option(_INPUT, "-f", "--file", type=FileName(), help="Read the prompt, or more text for it, from a file."),
    option(_INPUT, "--edit", type=FileName(), metavar="FILE", help=_EDIT_HELP),
    option(_INPUT, "-C", "--continue", "go_on", is_flag=True, help=_CONTINUE_HELP),
    option(_INPUT, "--resume", metavar="ID", help=_RESUME_HELP),
    option(_INPUT, "-sys", "--system-prompt", help="System prompt: instructions before the conversation."),
    option(_INPUT, "--raw", is_flag=True, help="Send the prompt without the model's chat template."),
    option(_INPUT, "--special", is_flag=True, help=_SPECIAL_HELP),
    option(_INPUT, "--overflow", default="drop", type=_OVERFLOW, help=_OVERFLOW_HELP),
    option(_INPUT, "--think", default="auto", type=THINK, help=_THINK_HELP),
    option(_INPUT, "-j", "--json-schema", metavar="SCHEMA", help=_SCHEMA_HELP),
    option(_INPUT, "-jf", "--json-schema-file", type=FileName(), help="The same, from a file."),
    option(_INPUT, "--grammar", metavar="GRAMMAR", help=_GRAMMAR_HELP),
    option(_INPUT, "--grammar-file", type=FileName(), help="The same, from a file."),
    option(_INPUT, "--stop", multiple=True, metavar="TEXT", help="End the answer before this text. Repeatable."),
    option(_INPUT, "-n", "--n-predict", "predict", type=TokenLimit(), help=_COUNT_HELP),
)
MODEL_OPTIONS = (
    option(
        _MODEL,
        "-m",
        "--model",
        "model_option",
        type=ModelName("starter"),
        help="The model, instead of the argument MODEL.",
    ),
    option(_MODEL, "-c", "--ctx-size", default=0, type=ContextSize(), metavar="N|auto", help=CONTEXT_HELP),
    option(_MODEL, "-t", "--threads", default=0, type=THREADS, help=_THREADS_HELP),
    option(_MODEL, "-tb", "--threads-batch", default=0, type=THREADS, help=_BATCH_THREADS_HELP),
    *PLACING,
    ADAPTERS,
    *RPC,
    option(
        _MODEL,
        "-fa",
        "--flash-attn",
        default="auto",
        type=_FLASH,
        help="Flash attention; auto: on where model and device support it.",
    ),
    option(_MODEL, "-ctk", "--cache-type-k", default="auto", type=_CACHE, help=CACHE_K_HELP),
    option(_MODEL, "-ctv", "--cache-type-v", default="auto", type=_CACHE, help=CACHE_V_HELP),
    option(
        _MODEL, "--mlock", is_flag=True, help="Lock the weights in memory, so that the system never swaps them out."
    ),
)
DRAFTER = option(
    _DRAFT,
    "-md",
    "--draft",
    default="auto",
    envvar="LOCALSPEC_DRAFT",
    type=ModelName(*names_to_offer()),
    metavar="DRAFTER",
    help=f"Drafter: {drafter_help()}.",
)
DRAFT_MAX = option(_DRAFT, "--draft-max", type=click.IntRange(0, 64), help=_MAX_HELP)
NO_ADAPT = option(
    _DRAFT, "--no-adapt", is_flag=True, help="Draft --draft-max tokens in every round, whatever the expected gain."
)
ALLOW_ROUNDING = option(_DRAFT, "--allow-rounding", is_flag=True, help=_ROUNDING_HELP)
NO_DRAFT_COPY = option(_DRAFT, "--no-draft-copy", is_flag=True, help=_COPY_HELP)
STRICT = option(_DRAFT, "--strict", is_flag=True, help=_STRICT_HELP)
_DRAFT_OPTIONS = (
    DRAFTER,
    NO_DRAFT_COPY,
    DRAFT_MAX,
    NO_ADAPT,
    option(_DRAFT, "--accept", default="coupled", type=_ACCEPT, help=_ACCEPT_HELP),
    ALLOW_ROUNDING,
    STRICT,
    option(_DRAFT, "--predict", "prediction", type=click.Path(), metavar="FILE", help=_PREDICTION_HELP),
    option(_DRAFT, "--online", is_flag=True, help=_ONLINE_HELP),
    option(_DRAFT, "--no-memory", is_flag=True, envvar="LOCALSPEC_NO_MEMORY", help=_MEMORY_HELP),
    option(
        _DRAFT,
        "--explain",
        is_flag=True,
        help="After the answer, explain the cost of drafting and show one round step by step.",
    ),
)
_TEMPERATURE = option(
    _SAMPLING, "--temp", default=0.8, type=float, help="Temperature; 0: always the most likely token."
)
SHAPING_OPTIONS = (
    option(_SAMPLING, "--top-k", default=40, type=int, help="Sample from the k most likely tokens; 0: all."),
    option(
        _SAMPLING,
        "--top-p",
        default=0.95,
        type=float,
        help="Sample from the most likely tokens up to this total probability; 1: all.",
    ),
    option(
        _SAMPLING,
        "--min-p",
        default=0.05,
        type=float,
        help="Drop tokens whose probability is below this share of the highest one; 0: none.",
    ),
    option(
        _SAMPLING, "--repeat-penalty", default=1.0, type=float, help="Penalty for tokens that occurred before; 1: off."
    ),
    option(
        _SAMPLING,
        "--repeat-last-n",
        default=64,
        type=int,
        help="Number of last tokens to which penalties apply; -1: all.",
    ),
    option(
        _SAMPLING,
        "--presence-penalty",
        default=0.0,
        type=float,
        help="Penalty subtracted once from the logit of each token that occurred before.",
    ),
    option(
        _SAMPLING,
        "--frequency-penalty",
        default=0.0,
        type=float,
        help="Penalty subtracted from a token's logit for each earlier occurrence.",
    ),
)
_SEED = option(
    _SAMPLING, "-s", "--seed", default=-1, type=int, help="Seed of sampling, which determines the text; -1: a new seed."
)
_OUTPUT_OPTIONS = (
    option(OUTPUT, "--json", "as_json", is_flag=True, help="Print JSON lines: start, one per round, end; or error."),
    option(OUTPUT, "--no-history", is_flag=True, envvar="LOCALSPEC_NO_HISTORY", help=_HISTORY_HELP),
    option(OUTPUT, "--chat-cache", default=4.0, type=FiniteRange(0, 1 << 20), metavar="GIB", help=_CACHE_HELP),
    option(
        OUTPUT, "--chat-cache-days", default=30.0, type=FiniteRange(0, 1 << 20), metavar="DAYS", help=_CACHE_DAYS_HELP
    ),
    option(OUTPUT, "-q", "--quiet", is_flag=True, help="Print no progress and no statistics."),
    option(OUTPUT, "--plain", is_flag=True, help="Chat line by line, for screen readers, simple terminals and SSH."),
)
_SCREEN_OPTIONS = (
    option(_SCREEN, "--theme", default="auto", type=click.Choice(["auto", *THEMES]), help=_THEME_HELP),
    option(_SCREEN, "--vim", is_flag=True, help="Use Vim keys in the prompt."),
    option(_SCREEN, "--key", multiple=True, metavar="NAME=KEYS", help=_KEY_HELP),
)


def run_options(command: Command) -> Command:
    """Add the flags of `run` to a command."""
    shared = (*MODEL_OPTIONS, *_DRAFT_OPTIONS, _TEMPERATURE, *SHAPING_OPTIONS, _SEED)
    return add_options(command, (*_INPUT_OPTIONS, *shared, *_OUTPUT_OPTIONS, *_SCREEN_OPTIONS))
