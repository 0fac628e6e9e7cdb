"""Exit codes of all commands, shown below the help of the larger ones."""

EXIT_CODES = (
    "Exit codes: 0 ok; 1 failure; 2 usage; 3 model not found or corrupt; 4 incompatible pair; "
    "5 does not fit in memory; 6 outputs diverged; 130 interrupted; 141 broken pipe."
)
