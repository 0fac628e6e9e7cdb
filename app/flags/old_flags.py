"""Flags of other llama.cpp programs: translated if they have a meaning here, and always reported."""

from collections.abc import Collection, Sequence

_RENAMED = {
    "--draft-n": "--draft-max",
    "--spec-draft-n-max": "--draft-max",
    "--spec-draft-model": "--draft",
    "--model-draft": "--draft",
    "--prediction": "--predict",
    "--reverse-prompt": "--stop",
    "-r": "--stop",
    "-no-cnv": "--raw",
    "--no-conversation": "--raw",
    "--system": "--system-prompt",
    "--reasoning": "--think",
    "-rea": "--think",
    "--presence_penalty": "--presence-penalty",
    "--frequency_penalty": "--frequency-penalty",
}
_FLAGS_WITHOUT_EFFECT = {
    "-cnv": "`run` opens a chat by default",
    "--conversation": "`run` opens a chat by default",
    "-i": "`run` opens a chat by default",
    "--interactive": "`run` opens a chat by default",
    "--color": "colour follows the terminal and NO_COLOR",
    "-co": "colour follows the terminal and NO_COLOR",
    "--simple-io": "see --plain",
    "--no-display-prompt": "the prompt is never printed",
    "--hidethinking": "thoughts go to stderr; -q leaves them out",
    "--context-shift": "--overflow drop is the default",
    "--no-context-shift": "--overflow stop refuses to answer instead",
    "-e": "prompts are used as they are",
    "--escape": "prompts are used as they are",
    "--jinja": "the model's own chat template is always used",
    "--no-mmap": "on a CPU, weights are never memory-mapped",
}
_VALUES_WITHOUT_EFFECT = {
    "--draft-min": "short drafts are used too",
    "--spec-draft-n-min": "short drafts are used too",
    "--draft-p-min": "no draft is dropped for its probability",
    "--spec-draft-p-min": "no draft is dropped for its probability",
    "--draft-p-split": "siblings are chosen by their measured cost",
    "--spec-type": "--draft chooses the drafter",
    "--reasoning-budget": "--think sets how much the model thinks",
    "--reasoning-format": "thoughts go to stderr",
    "-ub": "chosen by localspec",
    "--ubatch-size": "chosen by localspec",
    "-b": "chosen by localspec",
    "--batch-size": "chosen by localspec",
    "-td": "the draft model uses -t",
    "--threads-draft": "the draft model uses -t",
    "-ngld": "the draft model uses -ngl",
}


def translate(
    arguments: Sequence[str], known: Collection[str] = (), valued: Collection[str] = ()
) -> tuple[list[str], list[str]]:
    """Return the arguments in current spelling, and one note for each translated flag; text after "--" is kept.

    Of the current flags, `known` are all and `valued` those that take a value: an argument after one of these is a
    value, whatever it contains.
    """
    result: list[str] = []
    notes: list[str] = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument == "--":
            return [*result, argument, *rest], notes
        today, note = _today(argument, rest[0] if rest else "")
        result += [] if today is None else [today]
        notes += [note] if note else []
        if today in valued:
            result += rest[:1]
            del rest[:1]
        elif argument in _VALUES_WITHOUT_EFFECT and rest and rest[0] not in known:
            rest.pop(0)
    return result, notes


def _today(argument: str, following: str) -> tuple[str | None, str]:
    """Return an argument in current spelling, None for one without effect, and the note about it."""
    flag, equals, value = argument.partition("=")
    if flag == "--predict" and (value if equals else following).removeprefix("-").isdigit():
        return "--n-predict" + equals + value, "--predict with a number is spelled -n here."
    if flag in _RENAMED:
        return _RENAMED[flag] + equals + value, f"{flag} is spelled {_RENAMED[flag]} here."
    reason = _FLAGS_WITHOUT_EFFECT.get(flag) or _VALUES_WITHOUT_EFFECT.get(flag)
    return (None, f"{flag} has no effect: {reason}.") if reason else (argument, "")
