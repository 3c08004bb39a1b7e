"""What a sweep is: tasks x variants x seeds, from a definition to a list of checked configurations.

A definition is a table, from a TOML file or a command line:

    preset = "tictactoe"                    # or presets = ["tictactoe", "6x6x4"], or tables [tasks.NAME]
    seeds = [0, 1, 2]

    [common]                                # fields of the configuration, of all runs
    evaluation.playouts_step = 0

    [variants.default]                      # one table of fields for each variant; it may be empty
    [variants.puct]
    search.algorithm = "puct"

    [grid]                                  # lists, all crossed with each other and with the variants
    learn.learning_rate = [2e-3, 4e-3]

    [tasks.wide]                            # a preset and its own fields, in place of preset and presets
    preset = "tictactoe"
    game.width = 4

A field that several set is the task's rather than the common one; grid and variants come last, and may not
set the same.
"""

import dataclasses
import difflib
import itertools
import json
import pathlib
import re
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from gomoku_jax.config import TrainConfig, from_dict, to_dict
from gomoku_jax.presets import DEFAULT_PRESET, PRESETS

DEFINITION_FILE = "sweep.json"  # in the sweep's folder
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.,=+-]*")  # of a folder, on any system and without quotes
_ALLOWED = ("preset", "presets", "tasks", "seeds", "common", "variants", "grid")

Fields = dict[str, Any]  # values by dotted name, as "learn.learning_rate"


@dataclasses.dataclass(frozen=True)
class PlannedRun:
    """One training run of a sweep.

    Attributes:
        variant: its name.
        task: its name, a preset's or a table's of [tasks].
        seed: of the run.
        place: the run's folder below the sweep's.
        preset: what the fields change.
        fields: all that differs from the preset by the definition, without the seed.
        varied: those of `fields` that make the variant.
        config: the whole.
    """

    variant: str
    task: str
    seed: int
    place: pathlib.PurePosixPath
    preset: str
    fields: Fields
    varied: Fields
    config: TrainConfig


def read_definition(path: pathlib.Path) -> dict[str, Any]:
    """A sweep's table from a TOML file, or from a sweep folder's JSON.

    Raises:
        ValueError: the file is no TOML, or no JSON.
        OSError: it cannot be read.
    """
    try:
        text = path.read_text()
        return json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:  # of either parser, and of text that is not UTF-8
        raise ValueError(f"{path}: {error}") from None


def parse_value(text: str) -> Any:
    """A value of a command line: a number, true, false or a list as TOML writes them; any other is text."""
    for attempt in (text, text.lower()):  # True, as Python writes it
        try:
            values = tomllib.loads(f"value = {attempt}")
        except tomllib.TOMLDecodeError:
            continue
        return values["value"] if len(values) == 1 else text
    try:
        return float(text)  # .5, which is no TOML
    except ValueError:
        return text


def plan(definition: Mapping[str, Any]) -> tuple[PlannedRun, ...]:
    """All runs of a sweep, every configuration made and checked.

    They are ordered by seed, then task, then variant, so that a part of a sweep can be compared already, and
    the runs of a seed added at the end come last.

    Raises:
        ValueError: something is wrong in the definition; names the field, its value and what is allowed.
    """
    unknown = [key for key in definition if key not in _ALLOWED]
    if unknown:
        raise ValueError(f"{unknown[0]}: a sweep has {', '.join(_ALLOWED)}; fields go into common")
    common = _fields(_table(definition, "common"), "common")
    tasks = _tasks(definition)
    variants = _variants(definition)
    runs = []
    for seed in _seeds(definition):
        for task, (preset, of_task) in tasks.items():
            for variant, varied in variants.items():
                fields = common | of_task | varied
                where = f"variant {variant}" + (f", task {task}" if len(tasks) > 1 else "")
                config = with_fields(PRESETS[preset], fields | {"seed": seed}, where)
                parts = (variant, task, f"seed_{seed}") if len(tasks) > 1 else (variant, f"seed_{seed}")
                place = pathlib.PurePosixPath(*parts)
                runs.append(PlannedRun(variant, task, seed, place, preset, fields, varied, config))
    return tuple(runs)


def with_fields(config: TrainConfig, fields: Fields, where: str) -> TrainConfig:
    """The configuration with some fields replaced, by dotted names; they are checked together.

    Raises:
        ValueError: a value that is not allowed; it begins with `where`.
    """
    values = to_dict(config)
    for name, value in fields.items():
        *parts, last = name.split(".")
        table = values
        for part in parts:
            table = table[part]
        table[last] = value
    try:
        return from_dict(TrainConfig, values)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def flags(fields: Fields) -> list[str]:
    """Fields as arguments of train.py."""
    found = []
    for name, value in fields.items():
        *parts, last = name.replace("_", "-").split(".")
        if isinstance(value, bool):
            found.append("--" + ".".join([*parts, last if value else f"no-{last}"]))
            continue
        values = value if isinstance(value, tuple) else (value,)
        found += [f"--{'.'.join([*parts, last])}", *map(str, values)]
    return found


def differences(ours: TrainConfig, theirs: TrainConfig) -> list[str]:
    """The fields in which two configurations differ, each with both values."""
    mine, other = _flat(to_dict(ours)), _flat(to_dict(theirs))
    return [f"{name} = {other[name]!r}, not {mine[name]!r}" for name in mine if mine[name] != other[name]]


def _table(definition: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = definition.get(key, {})
    if not isinstance(value, Mapping):
        raise ValueError(f"{key} = {value!r}: a table, [{key}]")
    return value


def _seeds(definition: Mapping[str, Any]) -> list[int]:
    seeds = definition.get("seeds", [0])
    whole = isinstance(seeds, Sequence) and all(type(seed) is int for seed in seeds)
    if not whole or not seeds or len(set(seeds)) != len(seeds):
        raise ValueError(f"seeds = {seeds!r}: a list of different whole numbers, as [0, 1, 2]")
    return list(seeds)


def _tasks(definition: Mapping[str, Any]) -> dict[str, tuple[str, Fields]]:
    """Preset and fields of each task."""
    given = [key for key in ("preset", "presets", "tasks") if key in definition]
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)}: choose one of them")
    if given == ["tasks"]:
        tasks = {}
        for name, table in _table(definition, "tasks").items():
            if not isinstance(table, Mapping) or "preset" not in table:
                raise ValueError(f"tasks.{name}: a table with a preset, as preset = 'tictactoe'")
            own = {key: value for key, value in table.items() if key != "preset"}
            tasks[_named("task", name)] = _preset(table["preset"]), _fields(own, f"tasks.{name}")
    else:
        presets = definition.get("presets", [definition.get("preset", DEFAULT_PRESET)])
        if not isinstance(presets, Sequence) or isinstance(presets, str):
            raise ValueError(f"presets = {presets!r}: a list, as ['tictactoe', '6x6x4']")
        tasks = {_preset(preset): (preset, {}) for preset in presets}
        if len(tasks) < len(presets):
            raise ValueError(f"presets = {list(presets)!r}: each once")
    if not tasks:
        raise ValueError(f"{given[0]}: at least one")
    return tasks


def _preset(name: Any) -> str:
    if not isinstance(name, str) or name not in PRESETS:
        raise ValueError(f"preset = {name!r}: choose one of {', '.join(PRESETS)}")
    return name


def _variants(definition: Mapping[str, Any]) -> dict[str, Fields]:
    """Fields of each variant: the named ones crossed with the grid."""
    named: dict[str, Fields] = {}
    for name, table in _table(definition, "variants").items():
        if not isinstance(table, Mapping):
            raise ValueError(f"variants.{name} = {table!r}: a table of fields, [variants.{name}]")
        named[_named("variant", name)] = _fields(table, f"variants.{name}")
    grid = _grid(_table(definition, "grid"))
    variants: dict[str, Fields] = {}
    short = _short_names(list(grid))
    for (name, fields), *values in itertools.product(named.items() or [("", {})], *grid.values()):
        point = dict(zip(grid, values, strict=True))
        twice = sorted(set(fields) & set(point))
        if twice:
            raise ValueError(f"{twice[0]}: set by variant {name} and by the grid")
        parts = [f"{short[key]}={_slug(value)}" for key, value in point.items()]
        whole = ",".join([name, *parts] if name else parts) or "default"
        if whole in variants:
            raise ValueError(f"grid: two points are called {whole}; give them as named variants")
        variants[whole] = fields | point
    return variants


def _grid(table: Mapping[str, Any]) -> dict[str, list[Any]]:
    grid = {}
    for name, values in _flat(table).items():
        if not isinstance(values, list) or not values:
            raise ValueError(f"grid: {name} = {values!r}: a list of at least one value")
        field, hint = _field(name, "grid")
        if field in grid:
            raise ValueError(f"grid: {field} is set twice")
        grid[field] = [_convert(field, hint, value, "grid") for value in values]
        twice = [value for i, value in enumerate(grid[field]) if value in grid[field][:i]]
        if twice:
            raise ValueError(f"grid: {name} has {twice[0]!r} twice")
    return grid


def _short_names(names: list[str]) -> dict[str, str]:
    """The last part of a field's name, or all of it where two end alike."""
    last = {name: name.rpartition(".")[2] for name in names}
    return {name: short if list(last.values()).count(short) == 1 else name for name, short in last.items()}


def _slug(value: Any) -> str:
    """A value in a folder's name."""
    text = "-".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return re.sub(r"[^A-Za-z0-9_.+-]", "-", text)


def _named(kind: str, name: str) -> str:
    if not _NAME.fullmatch(name) or name.startswith("seed_"):
        raise ValueError(
            f"{kind} {name!r}: letters, digits and _.,=+- are allowed, as it names a folder, "
            "and not seed_ at its beginning"
        )
    return name


def _flat(table: Mapping[str, Any]) -> dict[str, Any]:
    """Nested tables as one, with dotted names."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        inner = _flat(value) if isinstance(value, Mapping) else {"": value}
        for name, part in inner.items():
            whole = f"{key}.{name}" if name else key
            if whole in found:
                raise ValueError(f"{whole} is set twice")
            found[whole] = part
    return found


def _fields(table: Mapping[str, Any], where: str) -> Fields:
    """Checked names and values; `learn.learning-rate` is `learn.learning_rate`."""
    found = {}
    for name, value in _flat(table).items():
        field, hint = _field(name, where)
        if field in found:
            raise ValueError(f"{where}: {field} is set twice")
        found[field] = _convert(field, hint, value, where)
    return found


def _hints(cls: type, prefix: str = "") -> dict[str, Any]:
    """The type of every field of a configuration, by dotted name."""
    found: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(cls).items():
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            found |= _hints(hint, f"{prefix}{name}.")
        else:
            found[prefix + name] = hint
    return found


def _field(name: str, where: str) -> tuple[str, Any]:
    """A field's own name and type."""
    field = name.removeprefix("--").replace("-", "_")
    hints = _hints(TrainConfig)
    if field == "seed":
        raise ValueError(f"{where}: seed: list the seeds in seeds, as seeds = [0, 1, 2]")
    if field not in hints:
        last = {known.rpartition(".")[2]: known for known in hints}
        close = difflib.get_close_matches(field, hints, n=2) or [
            last[match] for match in difflib.get_close_matches(field.rpartition(".")[2], last, n=2)
        ]
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise ValueError(f"{where}: the configuration has no field {name!r}{hint}")
    return field, hints[field]


def _convert(name: str, hint: Any, value: Any, where: str) -> Any:
    """A value of a definition as the configuration's type; what it may be is the configuration's to check."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):  # of a type and None, which TOML lacks
        if value is None or (isinstance(value, str) and value.lower() == "none"):
            return None
        (hint,) = (part for part in typing.get_args(hint) if part is not types.NoneType)
    if typing.get_origin(hint) is tuple and isinstance(value, list | tuple):
        inner = typing.get_args(hint)[0]
        return tuple(_convert(name, inner, part, where) for part in value)
    expected, kinds = {
        bool: ("true or false", (bool,)),
        int: ("a whole number", (int,)),
        float: ("a number", (int, float)),
    }.get(hint, ("a list", ()) if typing.get_origin(hint) is tuple else ("text", (str,)))
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise ValueError(f"{where}: {name} = {value!r}: {expected}")
    return float(value) if hint is float else value
