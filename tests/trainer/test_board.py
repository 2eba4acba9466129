"""The board's words tell whether the weights are consistent."""

from __future__ import annotations

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
    board = ProgressBoard.create(2)
    board.add(0, 3, 1.5, 2)
    board.add(1, 4, 0.5, 1)
    board.add(1, 1, 0.25, 1)
    assert board.totals() == (8, 2.25, 4)
    assert board.figures[:, 0].tolist() == [1, 2]
    board.clear_figures()
    assert board.totals() == (0, 0.0, 0)
    assert ProgressBoard(board.array).complete_step() == 0
