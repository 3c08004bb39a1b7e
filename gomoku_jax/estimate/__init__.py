"""What a run will take before it starts: memory, arithmetic and speed, on devices here or elsewhere."""

from gomoku_jax.estimate.budget import (
    MOST_POSITIONS,
    MemoryBudgetError,
    changes_that_fit,
    check_memory,
    gib,
    size_replay,
)
from gomoku_jax.estimate.calibration import measure_device, this_device
from gomoku_jax.estimate.hardware import (
    DEVICES,
    DeviceSpec,
    Platform,
    available_memory,
    device_memory,
    known_device,
    parse_devices,
)
from gomoku_jax.estimate.memory import Layout, MemoryEstimate, estimate_memory, layout, nbytes
from gomoku_jax.estimate.report import Estimate, estimate_run, estimate_sections, memory_line
from gomoku_jax.estimate.speed import CAUTIOUS, HOPEFUL, SpeedEstimate, estimate_speed

__all__ = [
    "CAUTIOUS",
    "DEVICES",
    "HOPEFUL",
    "MOST_POSITIONS",
    "DeviceSpec",
    "Estimate",
    "Layout",
    "MemoryBudgetError",
    "MemoryEstimate",
    "Platform",
    "SpeedEstimate",
    "available_memory",
    "changes_that_fit",
    "check_memory",
    "device_memory",
    "estimate_memory",
    "estimate_run",
    "estimate_sections",
    "estimate_speed",
    "gib",
    "known_device",
    "layout",
    "measure_device",
    "memory_line",
    "nbytes",
    "parse_devices",
    "size_replay",
    "this_device",
]
