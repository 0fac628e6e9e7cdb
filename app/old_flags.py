"""Flags of other llama.cpp programs: translated where they mean something here, and never in silence."""

from collections.abc import Sequence

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
    "-ub": "chosen by localspec",
    "--ubatch-size": "chosen by localspec",
    "-b": "chosen by localspec",
    "--batch-size": "chosen by localspec",
    "-td": "the draft model uses -t",
    "--threads-draft": "the draft model uses -t",
    "-ngld": "the draft model uses -ngl",
}


def translate(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return (arguments in today's spelling, one note for each old one); what follows "--" stays as it is."""
    result: list[str] = []
    notes: list[str] = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument == "--":
            return [*result, argument, *rest], notes
        flag, equals, value = argument.partition("=")
        if flag == "--predict" and (value if equals else rest[0] if rest else "").removeprefix("-").isdigit():
            notes.append("--predict with a number is spelled -n here.")
            result.append("--n-predict" + equals + value)
        elif flag in _RENAMED:
            notes.append(f"{flag} is spelled {_RENAMED[flag]} here.")
            result.append(_RENAMED[flag] + equals + value)
        elif flag in _FLAGS_WITHOUT_EFFECT:
            notes.append(f"{flag} has no effect: {_FLAGS_WITHOUT_EFFECT[flag]}.")
        elif flag in _VALUES_WITHOUT_EFFECT:
            notes.append(f"{flag} has no effect: {_VALUES_WITHOUT_EFFECT[flag]}.")
            if not equals and rest:
                rest.pop(0)
        else:
            result.append(argument)
    return result, notes
