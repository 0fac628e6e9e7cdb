"""Shell completion scripts: click knows bash, zsh and fish; PowerShell is added here."""

import os

from click import Command
from click.shell_completion import CompletionItem, ShellComplete, add_completion_class, get_completion_class

_PROGRAM = "localspec"
_VARIABLE = "_LOCALSPEC_COMPLETE"
SHELLS = ("bash", "zsh", "fish", "powershell")

_POWERSHELL = """\
Register-ArgumentCompleter -Native -CommandName %(prog_name)s -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $env:%(complete_var)s = "powershell_complete"
    $env:LOCALSPEC_WORDS = $commandAst.ToString()
    $env:LOCALSPEC_WORD = $wordToComplete
    try {
        %(prog_name)s | ForEach-Object {
            $kind, $value, $help = $_ -split "`t", 3
            if ($kind -eq "file") { Get-ChildItem -Name "$wordToComplete*" } else {
                [System.Management.Automation.CompletionResult]::new($value, $value, "ParameterValue", $help)
            }
        }
    } finally {
        Remove-Item Env:%(complete_var)s, Env:LOCALSPEC_WORDS, Env:LOCALSPEC_WORD
    }
}
"""


class PowerShellComplete(ShellComplete):
    """Completion for PowerShell 5 and later."""

    name = "powershell"
    source_template = _POWERSHELL

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the one being completed, and that one."""
        word = os.environ.get("LOCALSPEC_WORD", "")
        words = os.environ.get("LOCALSPEC_WORDS", "").split()[1:]
        return (words[:-1] if word and words and words[-1] == word else words), word

    def format_completion(self, item: CompletionItem) -> str:
        """Return kind, value and help, separated by tabs."""
        return f"{item.type}\t{item.value}\t{item.help or item.value}"


add_completion_class(PowerShellComplete)


def script(command: Command, shell: str) -> str:
    """Return the script that a shell has to read to complete this command."""
    kind = get_completion_class(shell)
    assert kind is not None, shell
    return kind(command, {}, _PROGRAM, _VARIABLE).source()
