"""Self-play of junxiaosong/AlphaZero_Gomoku, in a process of its own, for `selfplay.py`; prints JSON.

python tutorial.py FOLDER ROWS COLUMNS K PLAYOUTS SECONDS
"""

import json
import sys
import time
import warnings


def main(folder: str, rows: int, columns: int, k: int, playouts: int, seconds: float) -> None:
    """Plays for the given time with their code, their network in PyTorch, on one thread."""
    warnings.simplefilter("ignore")
    sys.path.insert(0, folder)
    import numpy as np
    import torch  # pyright: ignore[reportMissingImports]
    from game import Board  # pyright: ignore[reportMissingImports]
    from mcts_alphaZero import MCTSPlayer  # pyright: ignore[reportMissingImports]
    from policy_value_net_pytorch import PolicyValueNet  # pyright: ignore[reportMissingImports]

    torch.set_num_threads(1)
    torch.manual_seed(0)
    np.random.seed(0)
    network = PolicyValueNet(columns, rows)
    player = MCTSPlayer(network.policy_value_fn, c_puct=5, n_playout=playouts, is_selfplay=1)
    board = Board(width=columns, height=rows, n_in_row=k)
    moves, games, started = 0, 0, time.perf_counter()
    board.init_board()
    while time.perf_counter() - started < seconds:
        move, _ = player.get_action(board, temp=1.0, return_prob=1)
        board.do_move(move)
        moves += 1
        if board.game_end()[0]:
            games += 1
            player.reset_player()
            board.init_board()
    elapsed = time.perf_counter() - started
    print(json.dumps({"moves": moves, "games": games, "seconds": elapsed, "torch": torch.__version__}))


if __name__ == "__main__":
    rows, columns, k, playouts = map(int, sys.argv[2:6])
    main(sys.argv[1], rows, columns, k, playouts, float(sys.argv[6]))
