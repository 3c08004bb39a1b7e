"""AlphaZero for Gomoku in functional JAX: rules, batched tree search, self-play, learning.

>>> import gomoku_jax as gj
>>> game = gj.Gomoku(height=6, width=6, k=4)
>>> state = gj.replay_moves(game, "c3d4c4")
>>> int(state.to_play)
-1

The names are listed in `__init__.pyi` and loaded at their first use: a tournament engine has to answer
before JAX, which takes a second to import, is there.
"""

import sys
import types

import lazy_loader

__version__ = "0.1.0"


class _Package(types.ModuleType):
    """Importing a submodule sets it on its package; `search` and `train` are the functions here."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in ("search", "train") and isinstance(value, types.ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
