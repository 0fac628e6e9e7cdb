"""Shell completion scripts. click supports zsh, fish, and bash for names without a colon; PowerShell is added here."""

import os

import click.shell_completion
from click import Command
from click.shell_completion import (
    CompletionItem,
    ShellComplete,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

_PROGRAM = "localspec"
_VARIABLE = "_LOCALSPEC_COMPLETE"
SHELLS = ("bash", "zsh", "fish", "powershell")

_BETWEEN = "\x1f"
"""Separator of the words that PowerShell passes; no word contains it."""

_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' kind value file place
    COMPREPLY=()
    while IFS=, read -r kind value; do
        case $kind in
            plain) COMPREPLY+=("$value") ;;
            dir) compopt -o dirnames ;;
            file)
                # It does nothing where there are names: then files are looked for here.
                compopt -o default
                [[ ${COMPREPLY[*]} ]] && while read -r file; do
                    [[ $IFS${COMPREPLY[*]}$IFS == *"$IFS$file$IFS"* ]] || COMPREPLY+=("$file")
                done < <(compgen -f -- "$value") ;;
        esac
    done < <(env LOCALSPEC_LINE="${COMP_LINE:0:COMP_POINT}" LOCALSPEC_BREAKS="$COMP_WORDBREAKS" \\
        %(complete_var)s=bash_complete "$1")
    # Between quotes nothing else is to be quoted.
    [[ ${COMP_WORDS[COMP_CWORD]} == [\\'\\"]* ]] || for place in "${!COMPREPLY[@]}"; do
        printf -v "COMPREPLY[place]" %%q "${COMPREPLY[place]}"
    done
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""
_POWERSHELL = """\
Register-ArgumentCompleter -Native -CommandName %(prog_name)s -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $before = $commandAst.CommandElements | Where-Object { $_.Extent.EndOffset -lt $cursorPosition } | ForEach-Object {
        if ($_ -is [System.Management.Automation.Language.StringConstantExpressionAst]) { $_.Value } else { "$_" }
    }
    $env:%(complete_var)s = "powershell_complete"
    $env:LOCALSPEC_WORDS = @($before) -join [char]31
    $env:LOCALSPEC_WORD = $wordToComplete -replace "['`"]"
    try {
        %(prog_name)s | ForEach-Object {
            $kind, $value, $help = $_ -split "`t", 3
            if ($kind -eq "file") {
                [System.Management.Automation.CompletionCompleters]::CompleteFilename($wordToComplete)
            } else {
                $word = if ($value -match '^[\\w.:/\\\\+-]+$') { $value } else { "'" + $value.Replace("'", "''") + "'" }
                [System.Management.Automation.CompletionResult]::new($word, $value, "ParameterValue", $help)
            }
        }
    } finally {
        Remove-Item Env:%(complete_var)s, Env:LOCALSPEC_WORDS, Env:LOCALSPEC_WORD -ErrorAction Ignore
    }
}
"""


class BashComplete(click.shell_completion.BashComplete):
    """Completion for bash, which ends a word at each colon: the parts of a name such as ollama:qwen3 are joined."""

    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the completed one, and the completed word."""
        if "LOCALSPEC_LINE" not in os.environ:
            # Set by a script that an earlier version wrote into a file.
            return super().get_completion_args()
        # An added letter shows whether a final space has ended a word, or belongs to a word in quotes.
        *words, word = split_arg_string(f"{os.environ['LOCALSPEC_LINE']}.")[1:] or ["."]
        return words, word[:-1]

    def format_completion(self, item: CompletionItem) -> str:
        """Return kind and value; of a name the part after the last colon, which is all that bash replaces."""
        value = item.value
        if ":" in os.environ.get("LOCALSPEC_BREAKS", ""):
            typed = self.get_completion_args()[1]
            before = typed[typed.find("=") + 1 : typed.rfind(":") + 1]
            if before and item.type == "file":
                # For a file, bash looks only for the part after the colon.
                return "none,"
            value = value.removeprefix(before)
        return f"{item.type},{value}"


class PowerShellComplete(ShellComplete):
    """Completion for PowerShell 5 and later."""

    name = "powershell"
    source_template = _POWERSHELL

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the completed one, and the completed word."""
        # PowerShell resolves its quotes itself, and drops a variable with an empty value.
        words = os.environ.get("LOCALSPEC_WORDS", "").split(_BETWEEN)
        return words[1:], os.environ.get("LOCALSPEC_WORD", "")

    def format_completion(self, item: CompletionItem) -> str:
        """Return kind, value and help, separated by tabs."""
        return f"{item.type}\t{item.value}\t{item.help or item.value}"


add_completion_class(BashComplete)
add_completion_class(PowerShellComplete)


def script(command: Command, shell: str) -> str:
    """Return the completion script of a shell for this command."""
    kind = get_completion_class(shell)
    assert kind is not None, shell
    return kind(command, {}, _PROGRAM, _VARIABLE).source()
