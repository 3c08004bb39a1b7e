"""The direction of imports: a module imports only from rows above its own."""

import ast
import pathlib

import pytest

PACKAGE = pathlib.Path(__file__).resolve().parent.parent / "gomoku_jax"
EXPERIMENTS = PACKAGE.parent / "experiments"

LAYERS = (
    {"files", "system"},
    {"config", "metrics", "event_file", "run_log", "profiling", "presets", "compilation"},
    {"game"},
    {"encode", "symmetry", "tactics"},
    {"conv", "network", "inference", "solver", "openings"},
    {"search"},
    {"players", "selfplay", "selfplay_rules"},
    {"replay", "replay_rings", "learn", "arena", "rating"},
    {"suites"},
    {"checkpoint", "sharding", "distributed", "agent", "published"},
    {"estimate"},
    {"programs", "swap_arena"},
    {"run_agents", "saving", "divergence"},
    {"evaluation", "iteration"},
    {"train"},
    {"play"},
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
# Pairs within a row, where one module is a part of the other that has its own file.
PARTS = {
    ("published", "agent"),
    ("agent", "published"),
    ("network", "conv"),
    ("inference", "conv"),
    ("inference", "network"),
    ("presets", "config"),
    ("metrics", "event_file"),
    ("selfplay_rules", "selfplay"),
    ("replay_rings", "replay"),
    ("distributed", "sharding"),
}


def imported_modules(path: pathlib.Path) -> set[str]:
    """Full names of everything a file imports, wherever the import stands."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def violations(module: str, imports: set[str]) -> list[str]:
    """The imports of a first-level module that cross a layer."""
    found = []
    for name in imports:
        parts = name.split(".")
        if parts[0] != "gomoku_jax" or len(parts) < 2 or parts[1] == module or parts[1] not in RANK:
            continue
        if RANK[parts[1]] >= RANK[module] and (module, parts[1]) not in PARTS:
            found.append(f"{module} imports {parts[1]}")
    return found


FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_upwards(path):
    module = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    assert module in RANK, f"{module} has no layer"
    imports = imported_modules(path)
    assert not violations(module, imports)
    assert not {name for name in imports if name.split(".")[0] in ("experiments", "tests")}
    if module != "search":
        assert "mctx" not in {name.split(".")[0] for name in imports}
    if module in ("learn", "replay", "replay_rings"):  # they see arrays
        assert not {name for name in imports if name.startswith(("gomoku_jax.game", "gomoku_jax.search"))}
    if module == "play":
        assert not {name for name in imports if name.startswith("gomoku_jax.train")}


def test_the_check_sees_a_crossing():
    assert violations("game", {"gomoku_jax.search.types"}) == ["game imports search"]
    assert violations("players", {"gomoku_jax.selfplay"}) == ["players imports selfplay"]
    assert violations("train", {"gomoku_jax.learn", "gomoku_jax.config"}) == []


def test_nothing_imports_the_experiments():
    for path in EXPERIMENTS.glob("*.py"):
        assert "experiments" not in {name.split(".")[0] for name in imported_modules(path)}
