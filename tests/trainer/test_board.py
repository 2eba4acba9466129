"""The board's words tell whether the weights are consistent."""

from __future__ import annotations

from shmtensor.trainer.history import Figures
from shmtensor.trainer.progress_board import ProgressBoard


def test_consistent_only_if_all_words_are_even_and_equal() -> None:
    board = ProgressBoard.create(3)
    board.start(5)
    assert board.complete_step() == 5
    for rank in range(3):
        board.begin_update(rank)
        assert board.complete_step() is None
    for rank in range(3):
        assert board.complete_step() is None
        board.end_update(rank)
    assert board.complete_step() == 6


def test_figures_are_summed_in_rank_order() -> None:
    board, figures = ProgressBoard.create(2), Figures()
    board.figures[:] = [[3, 3, 1.5, 2], [5, 5, 0.75, 2]]
    figures.add(board, board.totals(), [])
    assert (figures.samples, figures.loss, figures.accuracy) == (8, 2.25 / 8, 0.5)
    board.clear_figures(0)
    figures.add(board, board.totals(), [])
    assert (figures.samples, figures.loss) == (13, 3.0 / 13)
    assert ProgressBoard(board.array).complete_step() == 0


def test_weights_of_the_loss_are_not_its_samples() -> None:
    board, figures = ProgressBoard.create(1), Figures()
    assert str(figures.loss) == "nan"
    board.figures[0] = 4, 2.5, 5.0, -1
    figures.add(board, board.totals(), [])
    assert (figures.loss, figures.accuracy) == (2.0, None)
