"""A training run small enough for tests."""

import dataclasses

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

TINY = TrainConfig(
    game=GameConfig(3, 4, 3),
    network=NetworkConfig(channels=8, num_blocks=1, value_hidden=8),
    search=SearchConfig("gumbel", num_simulations=4, max_considered_actions=4),
    selfplay=SelfplayConfig(num_games=8, moves_per_iteration=6, opening_stones=2, temperature_moves=4),
    replay=ReplayConfig(capacity=256, min_size=8),
    learn=LearnConfig(batch_size=16, updates_per_iteration=3, warmup_updates=2, ema_decay=0.9),
    evaluation=EvaluationConfig(every=2, num_games=4, num_simulations=4, num_playouts=8, max_playouts=8),
    iterations=4,
    checkpoint_every=1,
    keep_checkpoints=3,
    seed=5,
)


def tiny(**changes) -> TrainConfig:
    """`TINY` with some fields replaced; a dict replaces fields of a part."""
    parts = {
        name: dataclasses.replace(getattr(TINY, name), **value) if isinstance(value, dict) else value
        for name, value in changes.items()
    }
    return dataclasses.replace(TINY, **parts)
