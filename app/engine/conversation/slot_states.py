"""The whole text of a slot with its states, copied out of the caches and put back there."""

from app.engine.conversation.session import Session
from models.errors import UsageError
from models.llama.model import LlamaModel
from models.states.identity import identity_of
from models.states.slot_file import SlotText


def copied(session: Session) -> SlotText:
    """Return what a session's target has read; raises UsageError for a memory that can't be copied whole."""
    target = _target(session)
    length, block = target.length, target.state_block or max(1, target.length)
    parts = []
    for start in range(0, length, block):
        end = min(start + block, length)
        if (state := target.state(start, end)) is None:
            raise UsageError(
                f"What {target.name} has read can't be saved.",
                cause="A sliding window beside other answers is not saved whole, and memory has to hold it twice.",
                hint="Serve with -np 1, or with a smaller context.",
            )
        parts.append((end - start, state))
    return SlotText(identity_of(target), session.tokens[:length], parts)


def put_back(session: Session, text: SlotText) -> int:
    """Put a text into a session's caches in place of theirs; return its tokens. Raises UsageError where it can't be."""
    target = _target(session)
    if text.identity != identity_of(target):
        raise UsageError("The file was saved with another model, processor or other settings.", hint="Save it again.")
    if len(text.tokens) > target.context_size:
        message = f"The file has {len(text.tokens):,} tokens; the context has room for {target.context_size:,}."
        raise UsageError(message, hint="Serve with a larger context.")
    clear(session)
    for count, state in text.parts:
        if not target.add_state(state, count):
            clear(session)
            raise UsageError("llama.cpp refused the file.", hint="Save it again.")
    session.adopt(text.tokens)
    return len(text.tokens)


def clear(session: Session) -> int:
    """Forget the text of a session; return how many tokens it had."""
    length = session.target.length
    session.target.rewind(0)
    session.adopt(())
    return length


def _target(session: Session) -> LlamaModel:
    if not isinstance(session.target, LlamaModel):
        raise UsageError(f"{session.target.name} keeps nothing that could be saved.", hint="Serve a GGUF file.")
    return session.target
