"""The cache of a conversation on disk: written part by part after answers, and taken from there when it is reopened."""

import logging
import time
from collections.abc import Sequence

from app.engine.conversation.session import Session
from models.abort import AbortFlag
from models.base import common_prefix
from models.errors import LocalspecError
from models.llama.model import LlamaModel
from models.states.folder import DamagedStateError, StateFolder
from models.states.identity import identity_of
from models.states.parts import Part, divided, usable
from models.states.writer import StateWriter

LEAST = 256
"""Tokens of a text that is worth a file."""
_LOOK_SECONDS = 0.005
_log = logging.getLogger("localspec.states")


def keep(session: Session, key: str, writer: StateWriter, abort: AbortFlag, *, leaving: bool) -> None:
    """Hand what the target's cache holds of a conversation to the writer, unless it is on disk already.

    Stops when the flag is raised, within the copy of one part. A memory that has no parts is copied on leaving alone,
    since all of it would be written after each answer.
    """
    target = session.target
    if not isinstance(target, LlamaModel) or target.length < LEAST or not (leaving or target.state_block):
        return
    try:
        parts = divided(identity_of(target), session.tokens[: target.length], target.state_block)
        there = frozenset(writer.folder.names(key))
        for part in parts:
            if part.name not in there and not _put(target, part, key, writer, abort):
                return
        writer.finish(key, [part.name for part in parts])
    except LocalspecError as error:
        _log.warning("not kept: conversation %s: %s %s", key, error.title, error.cause)


def _put(target: LlamaModel, part: Part, key: str, writer: StateWriter, abort: AbortFlag) -> bool:
    """Copy one part for the writer; False: another job waits, or there is nothing whole to copy."""
    while not (abort.is_set or writer.has_room):
        time.sleep(_LOOK_SECONDS)
    state = None if abort.is_set else target.state(part.start, part.end)
    if state is not None:
        writer.put(key, part.name, state)
    return state is not None


def reopen(session: Session, tokens: Sequence[int], key: str, folder: StateFolder) -> int:
    """Put the beginning of a text into the target's cache from disk; return the tokens that need no reading now.

    What is damaged, or was written by another model or under other settings, is not used, and the log says so.
    """
    target = session.target
    held = common_prefix(session.tokens[: target.length], tokens)
    names = folder.names(key)
    if not isinstance(target, LlamaModel) or not names:
        return held
    try:
        parts = usable(identity_of(target), tokens[: target.context_size], names)
    except LocalspecError as error:
        _log.warning("not reopened: conversation %s: %s %s", key, error.title, error.cause)
        return held
    if not parts:
        _log.info("not reopened: the states of conversation %s are of another model, text or settings", key)
    if not parts or parts[-1].end <= held:
        return held
    target.rewind(0)
    for part in parts:
        if not _taken(target, part, key, folder):
            break
    session.adopt(tokens[: target.length])
    folder.use(key)
    _log.info("reopened %d of %d tokens of conversation %s", target.length, len(tokens), key)
    return target.length


def _taken(target: LlamaModel, part: Part, key: str, folder: StateFolder) -> bool:
    try:
        state = folder.read(key, part.name)
    except (DamagedStateError, OSError) as error:
        _log.warning("not reopened: %s of conversation %s: %s", part.name, key, error)
        folder.discard(key, part.name)
        return False
    if target.add_state(state, part.end - part.start):
        return True
    _log.warning("not reopened: llama.cpp refused %s of conversation %s", part.name, key)
    folder.discard(key, part.name)
    return False
