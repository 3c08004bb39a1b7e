"""What every search takes and gives."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from gomoku_jax.game import State
from gomoku_jax.network import NetworkOutput

# (params, states [B]) -> NetworkOutput: priors and values of a batch of positions.
Evaluator = Callable[[Any, State], NetworkOutput]

MASKED_LOGIT = float(jnp.finfo(jnp.float32).min)  # finite: -inf turns into NaN where all actions are illegal


class SearchOutput(struct.PyTreeNode):
    """The result of a batched search; values are from the view of the side to move at the root.

    Attributes:
        action: int32 [B], the move to play.
        action_weights: float32 [B, A], the policy target; sums to 1, illegal actions have 0.
        visit_counts: int32 [B, A], visits of the root's actions.
        q_values: float32 [B, A], mean values of the root's actions, 0 where unvisited.
        root_value: float32 [B], mean value of the root; what is proved, where `root_vcf` found a win.
    """

    action: jax.Array
    action_weights: jax.Array
    visit_counts: jax.Array
    q_values: jax.Array
    root_value: jax.Array


class SearchSummary(struct.PyTreeNode):
    """A search that may go on, seen from outside; values are from the view of the side to move at the root.

    Attributes:
        output: what the search would give if it ended here.
        prior: float32 [B, A], the root's prior probabilities, noise included.
        raw_value: float32 [B], the network's value of the root.
        principal_variations: int32 [B, M, L], the most visited lines below the M most visited actions, the
            best action's first; -1 after a line's end, and where fewer actions were visited.
        num_simulations: int32 [], simulations run so far.
    """

    output: SearchOutput
    prior: jax.Array
    raw_value: jax.Array
    principal_variations: jax.Array
    num_simulations: jax.Array

    @property
    def principal_variation(self) -> jax.Array:
        """int32 [B, L], the most visited line, -1 after its end."""
        return self.principal_variations[:, 0]


def mask_logits(logits: jax.Array, legal: jax.Array) -> jax.Array:
    """Logits [..., A] with a finite minimum for illegal actions."""
    return jnp.where(legal, logits, MASKED_LOGIT)
