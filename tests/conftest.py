"""Strict settings for every test: CPU unless told otherwise, and no silent rank promotion."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # before the first import of jax

import hypothesis
import jax

jax.config.update("jax_numpy_rank_promotion", "raise")

# The same examples in every run; a deadline would judge the machine, and compiling is slow.
hypothesis.settings.register_profile("gomoku", deadline=None, derandomize=True, max_examples=60)
hypothesis.settings.load_profile("gomoku")
