"""Files that localspec keeps on this machine: their paths, and whether they can be made again."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.shell.paths import (
    conversations_file,
    draft_copies,
    forge_work_folder,
    forged_folder,
    headers_file,
    history_file,
    log_file,
    machine_memory,
    pairs_folder,
    prompts_file,
    states_folder,
    texts_folder,
    unsaved_folder,
)
from models.kernels.compiling import kept_files, library_folders


@dataclass(frozen=True, slots=True)
class OwnFiles:
    """One kind of file that localspec keeps."""

    name: str
    places: Sequence[Path]
    """Files and folders, existing or not."""
    remedy: str = ""
    """Command or step that removes them; "": `localspec doctor --clean`, as localspec makes them again when needed."""

    shown: Sequence[Path] = ()
    """Folders named in place of many files."""

    @property
    def is_cleaned(self) -> bool:
        """Whether `localspec doctor --clean` removes them."""
        return not self.remedy


def own_files() -> list[OwnFiles]:
    """Return every kind of file that localspec keeps, apart from models and tiny lists of names."""
    log = log_file()
    return [
        OwnFiles("compiled kernels", kept_files(), shown=library_folders()),
        OwnFiles("draft copies", [draft_copies()]),
        OwnFiles("measurements", [machine_memory(), headers_file()]),
        OwnFiles("caches of chats", [states_folder()]),
        OwnFiles("log", [log, log.with_name(f"{log.name}.1")]),
        OwnFiles("conversations", [conversations_file()], "localspec history rm --all"),
        OwnFiles("drafter memory", [texts_folder()], "localspec drafter forget --all"),
        OwnFiles("prompt history", [history_file(), prompts_file()], "localspec history rm --all"),
        OwnFiles("unsaved texts", [unsaved_folder()], "delete the files that you do not need"),
        OwnFiles("forged drafters", [forged_folder(), forge_work_folder()], "localspec forge rm --all"),
        OwnFiles("pair cards", [pairs_folder()], "delete the files that you do not need"),
    ]
