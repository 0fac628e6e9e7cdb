"""The column of pieces: after any changes its heights and guesses are those of the pieces."""

from random import Random

import pytest
from transcript_app import drive

from app.ui.drawing.wrapping import Line
from app.ui.transcript.column import Column
from app.ui.transcript.look import Look
from app.ui.transcript.pieces import Piece
from app.ui.transcript.transcript import Transcript


class Uncertain:
    """A body whose height is guessed wrong, and that can change it."""

    may_have_code = False

    def __init__(self, random: Random) -> None:
        self.height, self.proposed = random.randrange(5), random.randrange(5)

    def lines(self, width: int, look: Look) -> list[Line]:  # noqa: ARG002
        return [[]] * self.height

    def proposal(self, width: int) -> int:  # noqa: ARG002
        return self.proposed


def agree(column: Column, width: int, look: Look) -> None:
    tops = [sum(piece.height(width, look) for piece in column.pieces[:n]) for n in range(len(column.pieces) + 1)]
    assert [column.top(n) for n in range(len(tops))] == tops
    proposed = {n for n, piece in enumerate(column.pieces) if not piece.is_drawn(width, look)}
    assert set(column.undrawn(0)) == proposed
    assert column.has_estimates == bool(proposed)


@pytest.mark.parametrize("seed", range(20))
def test_heights_and_guesses_are_those_of_the_pieces(seed: int) -> None:
    async def script(transcript: Transcript, _: object) -> None:
        random, look, column, width = Random(seed), transcript.look, Column(), 40
        pieces = [Piece(None, " ", Uncertain(random), above=random.randrange(2)) for _ in range(30)]
        column.lay(pieces, width, look)
        for _ in range(40):
            match random.randrange(4):
                case 0:
                    width = random.choice([40, 50])
                    pieces = [*pieces[:20], *(Piece(None, " ", Uncertain(random)) for _ in range(10))]
                    column.lay(pieces, width, look)
                case 1:
                    changed = random.randrange(30)
                    body = pieces[changed].body
                    assert isinstance(body, Uncertain)
                    body.height += 1
                    pieces[changed].changed()
                    column.lay(pieces, width, look, kept=random.randrange(changed + 1))
                case 2:
                    start = random.randrange(max(1, column.height))
                    while column.draw(start, start + 10):
                        pass
                case _:
                    column.draw_one(random.choice(column.undrawn(random.randrange(30)) or [0]))
                    column.settle()
            agree(column, width, look)

    drive(script)
