"""The public names and signatures, the README, and what importing the package does."""

import inspect
import pathlib
import re
import subprocess
import sys

import pytest

import gomoku_jax as gj

ROOT = pathlib.Path(__file__).resolve().parent.parent

SIGNATURES = {
    "init_network": ["net_config", "game", "key"],
    "apply_network": ["net_config", "params", "observations"],
    "search": ["game", "net_config", "params", "key", "states", "search_config"],
    "random_player": ["game"],
    "tactical_player": ["game"],
    "vcf_player": ["game", "max_depth", "max_nodes"],
    "mcts_player": ["game", "num_playouts", "c_puct"],
    "play_match": ["a", "b", "game", "num_games", "seed", "opening_stones", "openings"],
    "load_agent": ["path"],
    "load_checkpoint": ["path"],
    "replay_moves": ["game", "actions"],
    "train": ["config", "workdir", "resume", "quiet", "num_devices", "profile_iterations"],
}
CLASSES = ("Gomoku", "State", "NetworkConfig", "SearchConfig", "TrainConfig")


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures(name):
    assert list(inspect.signature(getattr(gj, name)).parameters) == SIGNATURES[name]


def test_every_public_thing_is_exported_and_documented():
    assert {*SIGNATURES, *CLASSES, "IllegalMoveError"} <= set(gj.__all__)
    for name in gj.__all__:
        if callable(getattr(gj, name)):
            assert (getattr(gj, name).__doc__ or "").strip(), f"{name} has no docstring"


def test_importing_initializes_no_device_and_reads_no_arguments():
    program = (
        "import sys; sys.argv = ['x', '--nonsense']\n"
        "import gomoku_jax\n"
        "from jax._src import xla_bridge\n"
        "assert not xla_bridge._backends, 'a backend was initialized at import'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


def test_ci_runs_the_test_command_as_the_readme_prints_it():
    commands = re.findall(r"```sh\n(.*?)\n```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(commands) == 2
    train, test = commands
    assert "experiments/train.py" in train and "pytest" in test
    assert test in (ROOT / ".ci" / "run").read_text().splitlines()


def test_the_folder_map_names_every_module():
    text = (ROOT / "README.md").read_text()
    for path in (ROOT / "gomoku_jax").iterdir():
        if path.suffix == ".py" and path.name != "__init__.py":
            assert path.name in text, f"README's folder map lacks {path.name}"
