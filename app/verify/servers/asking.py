"""Questions to the servers of an audit, in one wording: a wording that one server refuses is sent to none."""

from collections.abc import Sequence
from dataclasses import replace

from app.bench.measuring.arms import BenchPrompt
from app.serve.client.openai_client import OpenAIClient, Question, RefusedError
from app.serve.client.served_answers import ServedAnswer, ServedToken
from models.errors import LocalspecError

Messages = Sequence[tuple[str, str]]
"""Pairs of role and text."""
_SERVER_FAULT = 500
_OTHERS = {
    True: BenchPrompt("other", "chat", turns=("Count from one to ten, in words.",)),
    False: BenchPrompt("other", "fim", prefix="one, two, three, ", suffix=", nine, ten"),
}
"""Unrelated questions sent in between, to replace the content of a server's cache."""


class Asker:
    """Sender of questions, in the best wording that all servers accept."""

    def __init__(self, clients: Sequence[OpenAIClient], max_tokens: int, seed: int) -> None:
        """Take the servers, the most tokens of an answer, and the seed, which should not matter for greedy decoding."""
        self._clients = clients
        self._max_tokens = max_tokens
        self._seed = seed
        self._wording: dict[bool, int] = {}
        """Wording that all servers accepted, for chats (True) and for gaps to fill (False)."""
        self.notes: list[str] = []

    def answers(self, prompt: BenchPrompt, messages: Messages) -> tuple[ServedAnswer, ...]:
        """Return the answers to compare: one of each of two servers, or four of a single server.

        A single server gets the question twice, then another question, then twice again: it answers with a cold cache,
        with a warm one, and with one that held another text. Raises RefusedError for a question that these servers do
        not accept, LocalspecError for a server that fails.
        """
        if len(self._clients) > 1:
            return self._ask(prompt, messages, self._max_tokens)
        twice = [*self._ask(prompt, messages, self._max_tokens), *self._ask(prompt, messages, self._max_tokens)]
        other = _OTHERS[bool(prompt.turns)]
        self._ask(other, [("user", turn) for turn in other.turns], 1)
        again = [*self._ask(prompt, messages, self._max_tokens), *self._ask(prompt, messages, self._max_tokens)]
        return (*twice, *again)

    def next_token(self, server: int, prompt: BenchPrompt, messages: Messages, beginning: str) -> ServedToken | None:
        """Return one server's next token after `beginning`, the start of an answer; None where it reports none."""
        _, question = _wordings(prompt, messages)[self._wording[bool(prompt.turns)]]
        begun = (*question.messages, ("assistant", beginning)) if question.messages else ()
        going_on = replace(question, messages=begun, prompt="" if begun else question.prompt + beginning)
        try:
            answer = self._clients[server].ask(going_on, max_tokens=1, seed=self._seed)
        except RefusedError:
            return None
        return answer.tokens[0] if answer.tokens else None

    def _ask(self, prompt: BenchPrompt, messages: Messages, max_tokens: int) -> tuple[ServedAnswer, ...]:
        kind = bool(prompt.turns)
        wordings = _wordings(prompt, messages)
        refusals: list[RefusedError] = []
        for number in range(self._wording.get(kind, 0), len(wordings)):
            how, question = wordings[number]
            try:
                answers = tuple(
                    client.ask(question, max_tokens=max_tokens, seed=self._seed) for client in self._clients
                )
            except RefusedError as refused:
                refusals.append(refused)
                if kind in self._wording:
                    break
                continue
            if kind not in self._wording and refusals:
                self.notes.append(f"{'Chats' if kind else 'Holes'} are asked {how}: {refusals[-1].title}")
            self._wording[kind] = number
            return answers
        raise self._why(refusals[0])

    def _why(self, refused: RefusedError) -> LocalspecError:
        """Return the error for a refused question: if no question was ever accepted, that of a failing server."""
        if self._wording and refused.status < _SERVER_FAULT:
            return refused
        return LocalspecError(refused.title, cause=refused.cause, hint=refused.hint)


def _wordings(prompt: BenchPrompt, messages: Messages) -> list[tuple[str, Question]]:
    """Return the wordings of a question, the best first, each with its name in notes."""
    return _chat_wordings(messages) if prompt.turns else _fill_wordings(prompt)


def _chat_wordings(messages: Messages) -> list[tuple[str, Question]]:
    script = "".join(f"{role.capitalize()}: {text}\n" for role, text in messages) + "Assistant:"
    return [("as chats", Question(messages=tuple(messages))), ("as transcripts", Question(prompt=script))]


def _fill_wordings(prompt: BenchPrompt) -> list[tuple[str, Question]]:
    as_chat = Question(messages=(("user", f"Continue this text:\n\n{prompt.prefix}"),))
    return [
        ("as holes", Question(prompt=prompt.prefix, suffix=prompt.suffix)),
        ("without what follows them", Question(prompt=prompt.prefix)),
        ("as chats, without what follows them", as_chat),
    ]
