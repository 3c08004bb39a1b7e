"""The compilation cache: where it is, who may say so, and that a second process compiles nothing."""

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import jax
import pytest

from gomoku_jax.compilation import default_cache_folder, use_compilation_cache

ROOT = pathlib.Path(__file__).resolve().parent.parent

# What JAX knows of its cache, each also an environment variable in capitals.
SETTINGS = (
    "jax_compilation_cache_dir",
    "jax_enable_compilation_cache",
    "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_min_entry_size_bytes",
)


def settings() -> dict[str, Any]:
    return {name: getattr(jax.config, name) for name in SETTINGS}


@pytest.fixture
def untold(monkeypatch, tmp_path):
    """JAX is told of no folder; the home is an empty one. Nothing is compiled meanwhile."""
    before = settings()
    jax.config.update("jax_compilation_cache_dir", None)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    yield tmp_path
    for name, value in before.items():
        jax.config.update(name, value)
    assert settings() == before


def test_the_folder_of_the_environment_stays(tmp_path):
    """conftest.py sets JAX_COMPILATION_CACHE_DIR before JAX is imported."""
    before, folder = settings(), pathlib.Path(os.environ["JAX_COMPILATION_CACHE_DIR"])
    assert use_compilation_cache() == folder
    assert use_compilation_cache(tmp_path / "other") == folder
    assert settings() == before and not (tmp_path / "other").exists()


def test_the_folder_of_the_configuration_stays(untold):
    jax.config.update("jax_compilation_cache_dir", str(untold / "mine"))
    before = settings()
    assert use_compilation_cache(untold / "other") == untold / "mine"
    assert settings() == before and list(untold.iterdir()) == []


def test_switched_off(untold):
    jax.config.update("jax_enable_compilation_cache", False)
    before = settings()
    assert use_compilation_cache() is None and use_compilation_cache(untold / "other") is None
    assert settings() == before and list(untold.iterdir()) == []


@pytest.mark.parametrize("as_text", [False, True])
def test_a_chosen_folder_is_made(untold, as_text):
    folder = untold / "some" / "where"
    assert use_compilation_cache(str(folder) if as_text else folder) == folder
    assert folder.is_dir() and jax.config.values["jax_compilation_cache_dir"] == str(folder)
    assert use_compilation_cache() == folder  # again: it is told by now


def test_the_default_folder(untold, monkeypatch):
    home = untold / "home" / ".cache" / "gomoku_jax" / "compiled"
    assert default_cache_folder() == home
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert default_cache_folder() == home
    monkeypatch.setenv("XDG_CACHE_HOME", str(untold / "cache"))
    assert default_cache_folder() == untold / "cache" / "gomoku_jax" / "compiled"
    assert list(untold.iterdir()) == []  # asking makes nothing
    assert use_compilation_cache() == default_cache_folder() and default_cache_folder().is_dir()


@pytest.mark.parametrize("below", [".", "deeper"])
def test_a_folder_that_cannot_be_made_is_none(untold, below):
    """A file is in the way: root, too, is refused."""
    (untold / "file").write_text("")
    before = settings()
    assert use_compilation_cache(untold / "file" / below) is None
    assert settings() == before and (untold / "file").read_text() == ""


PROGRAM = """
import json
import jax
events = []
jax.monitoring.register_event_listener(lambda event, **kwargs: events.append(event.split("/")[-1]))
from gomoku_jax.compilation import use_compilation_cache
folder = use_compilation_cache()
from gomoku_jax.config import NetworkConfig
from gomoku_jax.game import Gomoku
from gomoku_jax.network import init_network
# Two seconds of compilation, and nothing else is compiled.
config, key = NetworkConfig(channels=4, num_blocks=1), jax.eval_shape(lambda: jax.random.key(0))
jax.jit(init_network, static_argnums=(0, 1)).lower(config, Gomoku(3, 3, 3), key).compile()
counts = {name: events.count(name) for name in ("cache_hits", "cache_misses")}
print(json.dumps({"folder": folder and str(folder), **counts}))
"""


def compile_in_a_process(**variables: str) -> dict[str, Any]:
    told = {name.upper() for name in SETTINGS}
    environment = {name: value for name, value in os.environ.items() if name not in told}
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        cwd=ROOT,
        env=environment | {"JAX_PLATFORMS": "cpu"} | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return json.loads(result.stdout)


def test_a_second_process_compiles_nothing(tmp_path):
    folder = tmp_path / "gomoku_jax" / "compiled"
    first = compile_in_a_process(XDG_CACHE_HOME=str(tmp_path))
    assert first == {"folder": str(folder), "cache_hits": 0, "cache_misses": 1}
    files = {path.name: path.stat().st_mtime_ns for path in folder.iterdir() if path.name.endswith("-cache")}
    assert len(files) == 1 and next(iter(files)).startswith("jit_init_network")
    second = compile_in_a_process(XDG_CACHE_HOME=str(tmp_path))
    assert second == {"folder": str(folder), "cache_hits": 1, "cache_misses": 0}
    assert {path.name for path in folder.iterdir() if path.name.endswith("-cache")} == {*files}


def test_switched_off_by_the_environment(tmp_path):
    report = compile_in_a_process(XDG_CACHE_HOME=str(tmp_path), JAX_ENABLE_COMPILATION_CACHE="false")
    assert report == {"folder": None, "cache_hits": 0, "cache_misses": 0}
    assert list(tmp_path.iterdir()) == []


def test_without_a_home_there_is_no_cache(untold, monkeypatch):
    """As for a user without an entry, in a container."""

    def fail():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(pathlib.Path, "home", fail)
    before = settings()
    assert use_compilation_cache() is None and settings() == before


def test_a_folder_that_cannot_be_written_is_none(untold, monkeypatch):
    """Or JAX warns at every compilation. Root may write anywhere, so the system's answer is given here."""
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    (untold / "folder").mkdir()
    before = settings()
    assert use_compilation_cache(untold / "folder") is None and settings() == before
