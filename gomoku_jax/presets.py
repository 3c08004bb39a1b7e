"""Named training configurations, from under a minute on a laptop to accelerators."""

from gomoku_jax.config import (
    EvaluationConfig,
    GameConfig,
    LearnConfig,
    NetworkConfig,
    ReplayConfig,
    SearchConfig,
    SelfplayConfig,
    TrainConfig,
)

DEFAULT_PRESET = "6x6x4"

PRESETS: dict[str, TrainConfig] = {
    # Under a minute on two CPU cores.
    "tictactoe": TrainConfig(
        game=GameConfig(3, 3, 3),
        network=NetworkConfig(channels=16, num_blocks=2, value_hidden=32),
        search=SearchConfig("gumbel", num_simulations=16, max_considered_actions=9, ply_discount=0.99),
        selfplay=SelfplayConfig(
            num_games=256,
            moves_per_iteration=9,
            temperature_moves=9,
            opening_stones=4,
            search_value_fraction=0.25,
        ),
        replay=ReplayConfig(capacity=20_000, min_size=2_000),
        learn=LearnConfig(updates_per_iteration=24, learning_rate=4e-3, warmup_updates=50, ema_decay=0.98),
        evaluation=EvaluationConfig(every=15, num_games=20, num_simulations=64, max_playouts=1000),
        iterations=30,
        checkpoint_every=15,
    ),
    # The default: under ten minutes on two CPU cores.
    "6x6x4": TrainConfig(
        game=GameConfig(6, 6, 4),
        network=NetworkConfig(channels=32, num_blocks=3),
        search=SearchConfig("gumbel", num_simulations=32, ply_discount=0.99),
        selfplay=SelfplayConfig(
            num_games=256,
            moves_per_iteration=16,
            temperature_moves=18,
            opening_stones=12,
            search_value_fraction=0.25,
        ),
        replay=ReplayConfig(capacity=100_000, min_size=4_000),
        learn=LearnConfig(updates_per_iteration=64, ema_decay=0.99, l2=3e-5),
        evaluation=EvaluationConfig(every=15, num_games=40),
        iterations=75,
        checkpoint_every=15,
    ),
    # Some hours on two CPU cores.
    "8x8x5": TrainConfig(
        game=GameConfig(8, 8, 5),
        network=NetworkConfig(channels=48, num_blocks=4),
        search=SearchConfig("gumbel", num_simulations=48, ply_discount=0.99),
        selfplay=SelfplayConfig(
            num_games=256,
            moves_per_iteration=16,
            temperature_moves=20,
            opening_stones=8,
            search_value_fraction=0.25,
        ),
        replay=ReplayConfig(capacity=200_000, min_size=8_000),
        learn=LearnConfig(updates_per_iteration=64, ema_decay=0.995, l2=3e-5),
        evaluation=EvaluationConfig(every=20, num_games=20),
        iterations=400,
        checkpoint_every=10,
    ),
    "9x9x5": TrainConfig(
        game=GameConfig(9, 9, 5),
        network=NetworkConfig(channels=48, num_blocks=4),
        search=SearchConfig("gumbel", num_simulations=48, ply_discount=0.99),
        selfplay=SelfplayConfig(
            num_games=256,
            moves_per_iteration=16,
            temperature_moves=20,
            opening_stones=8,
            search_value_fraction=0.25,
        ),
        replay=ReplayConfig(capacity=200_000, min_size=8_000),
        learn=LearnConfig(updates_per_iteration=64, ema_decay=0.995, l2=3e-5),
        evaluation=EvaluationConfig(every=20, num_games=20),
        iterations=600,
        checkpoint_every=10,
    ),
    # For an accelerator: 1024 games at once, bfloat16.
    "15x15x5": TrainConfig(
        game=GameConfig(15, 15, 5),
        network=NetworkConfig(channels=128, num_blocks=8, value_hidden=128, dtype="bfloat16"),
        search=SearchConfig("gumbel", num_simulations=64, max_considered_actions=24, ply_discount=0.99),
        selfplay=SelfplayConfig(
            num_games=1024,
            moves_per_iteration=32,
            temperature_moves=30,
            opening_stones=8,
            search_value_fraction=0.25,
        ),
        replay=ReplayConfig(capacity=1_000_000, min_size=50_000),
        learn=LearnConfig(batch_size=1024, updates_per_iteration=128, ema_decay=0.999, l2=3e-5),
        evaluation=EvaluationConfig(every=20, num_games=64, num_simulations=200),
        iterations=1000,
        checkpoint_every=20,
    ),
}
