"""Strict settings for every test: CPU unless told otherwise, and no silent rank promotion."""

import atexit
import os
import shutil
import tempfile

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # before the first import of jax
# Programs that several tests (and the processes they start) build alike are compiled once.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="gomoku_jax_tests_")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.3"
    atexit.register(shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)

import hypothesis
import jax

jax.config.update("jax_numpy_rank_promotion", "raise")

# The same examples in every run; a deadline would judge the machine, and compiling is slow.
hypothesis.settings.register_profile("gomoku", deadline=None, derandomize=True, max_examples=60)
hypothesis.settings.load_profile("gomoku")
