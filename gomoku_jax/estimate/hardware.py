"""What devices can do: data sheets of some accelerators, and the memory of those that are here."""

import dataclasses
import os
import pathlib
import re
from typing import Literal

import jax

Platform = Literal["cpu", "gpu", "tpu"]
Range = tuple[float, float]  # a cautious and a hopeful value


@dataclasses.dataclass(frozen=True)
class DeviceSpec:
    """One device. The data sheet's numbers stand beside assumptions, which are ranges.

    Attributes:
        name: as in `DEVICES`.
        platform: "cpu", "gpu" or "tpu".
        float32_flops: FLOP/s at most of float32 convolutions in JAX's default precision, which is TF32 on
            recent GPUs and one bfloat16 pass on TPUs (https://docs.jax.dev/en/latest/201/precision.html).
        bfloat16_flops: FLOP/s at most of bfloat16 ones.
        memory_bytes: of one device.
        memory_bandwidth: bytes/s, reading and writing together.
        interconnect_bandwidth: bytes/s to its neighbours, one way, all links together.
        memory_share: how much of the memory JAX takes by default.
        efficiency: share of the peak that convolutions of a residual tower reach while they are bound by it.
        update_efficiency: share of that rate which forward and backward pass together reach.
        link_seconds: one step of an exchange with a neighbour, however little is exchanged.
        one_exchange: whether XLA averages all gradients in one exchange, or every array in its own.
        kernel_seconds: between the starts of two dependent small kernels.
        loop_seconds: one round of a loop whose end the data decide.
        channel_tile: output channels are computed in multiples of this.
    """

    name: str
    platform: Platform
    float32_flops: float
    bfloat16_flops: float
    memory_bytes: int
    memory_bandwidth: float
    interconnect_bandwidth: float
    memory_share: float = 1.0
    efficiency: Range = (1.0, 1.0)
    update_efficiency: Range = (1.0, 1.0)
    link_seconds: float = 0.0
    one_exchange: bool = True
    kernel_seconds: Range = (0.0, 0.0)
    loop_seconds: Range = (0.0, 0.0)
    channel_tile: int = 1

    def peak_flops(self, dtype: str) -> float:
        """FLOP/s at most of convolutions in "float32" or "bfloat16"."""
        return self.bfloat16_flops if dtype == "bfloat16" else self.float32_flops

    @property
    def usable_memory(self) -> int:
        """Bytes that JAX takes by default."""
        return int(self.memory_share * self.memory_bytes)


# Published shares of the peak that residual towers of convolutions reach, counting 8.2 GFLOP an image of
# ResNet-50 and three times that to train on one: 14 % training on a V100 (727 images/s, NVIDIA's
# DeepLearningExamples), 35 % of a TPU v3 core answering queries (2,629 images/s, MLPerf inference v1.0), 42 %
# on a V100 with TensorRT (6,444 images/s, https://gist.github.com/1duo/efd3be1dc8eb2c45863b75f20a76f8b2).
_EFFICIENCY = (0.15, 0.40)
# A CUDA kernel starts every few microseconds; a loop's condition travels to the host and back, 8 µs a round
# in https://github.com/QuantEcon/lecture-python-programming/issues/440 (see also jax-ml/jax issue 2491).
_GPU = DeviceSpec(
    name="",
    platform="gpu",
    float32_flops=0.0,
    bfloat16_flops=0.0,
    memory_bytes=0,
    memory_bandwidth=0.0,
    interconnect_bandwidth=0.0,
    memory_share=0.75,  # https://docs.jax.dev/en/latest/201/gpu-memory.html
    efficiency=_EFFICIENCY,
    update_efficiency=(0.7, 1.0),
    link_seconds=2e-6,
    kernel_seconds=(5e-6, 2e-6),
    loop_seconds=(16e-6, 8e-6),
    channel_tile=64,
)
# A TPU runs a whole program, loops included, without its host; an operation on small arrays takes about a
# microsecond. Gathers of single rows, of which a search has many, are what it does worst: hence the range.
_TPU = dataclasses.replace(
    _GPU,
    platform="tpu",
    memory_share=1.0,
    kernel_seconds=(5e-6, 1e-6),
    loop_seconds=(2e-6, 1e-6),
    channel_tile=128,  # the matrix units are 128 wide
)


def _spec(
    like: DeviceSpec, name: str, flops: tuple[float, float], gigabytes: float, bandwidth: float, links: float
) -> DeviceSpec:
    """A device of the table: FLOP/s in (float32, bfloat16), GB of memory, bytes/s of memory and of links."""
    return dataclasses.replace(
        like,
        name=name,
        float32_flops=flops[0],
        bfloat16_flops=flops[1],
        memory_bytes=round(gigabytes * 1e9),
        memory_bandwidth=bandwidth,
        interconnect_bandwidth=links,
    )


# From the makers' data sheets. FLOP/s are without sparsity, which NVIDIA's state doubled; NVLink and ICI are
# stated both ways, so halved here. 1 GB is 10^9 bytes, but Google's are 2^30.
DEVICES: dict[str, DeviceSpec] = {
    spec.name: spec
    for spec in (
        # https://www.nvidia.com/en-us/data-center/h100/ (SXM): TF32 989, BF16 1,979 with sparsity; NVLink 900
        _spec(_GPU, "h100", (494.7e12, 989.4e12), 80, 3.35e12, 450e9),
        # https://www.nvidia.com/en-us/data-center/h200/ (SXM): the H100's chip with more and faster memory
        _spec(_GPU, "h200", (494.7e12, 989.4e12), 141, 4.8e12, 450e9),
        # https://www.nvidia.com/en-us/data-center/a100/ (SXM, 80 GB): TF32 156, BF16 312; NVLink 600
        _spec(_GPU, "a100", (156e12, 312e12), 80, 2.039e12, 300e9),
        # https://docs.cloud.google.com/tpu/docs/v5e, a chip: 16 GiB, 819 GB/s, ICI 400 GB/s
        _spec(_TPU, "v5e", (197e12, 197e12), 17.18, 819e9, 200e9),
        # https://docs.cloud.google.com/tpu/docs/v4, a chip: 32 GiB, 1,200 GB/s; six links of 50 GB/s each way
        # (Jouppi et al. 2023, https://arxiv.org/abs/2304.01433)
        _spec(_TPU, "v4", (275e12, 275e12), 34.36, 1.2e12, 300e9),
    )
}
# How JAX calls them, `jax.Device.device_kind`; other kinds of the same chips differ in clock and memory.
_KINDS = {
    "NVIDIA H100 80GB HBM3": "h100",
    "NVIDIA H200": "h200",
    "NVIDIA A100-SXM4-80GB": "a100",
    "TPU v5 lite": "v5e",
    "TPU v5e": "v5e",
    "TPU v4": "v4",
}


def known_device(kind: str) -> DeviceSpec | None:
    """The data sheet of a `jax.Device.device_kind`, if it is in the table."""
    name = _KINDS.get(kind)
    return None if name is None else DEVICES[name]


def parse_devices(text: str) -> tuple[DeviceSpec, int]:
    """Devices by name and number: "h200" is one, "h200x8" eight.

    Raises:
        ValueError: no such device, or none of them.
    """
    match = re.fullmatch(r"(.+?)(?:x(\d+))?", text)
    name, count = (match[1], int(match[2] or 1)) if match else (text, 1)
    if name not in DEVICES or count < 1:
        names = ", ".join(DEVICES)
        raise ValueError(f"{text!r}: write one of {names}, with x and how many of them, such as h200x8")
    return DEVICES[name], count


def device_memory(devices: list | None = None) -> int:
    """Bytes that each of this process's devices may use: of the device that may use the least.

    On the CPU they share what is free of the machine's memory, or of the container's.
    """
    devices = jax.local_devices() if devices is None else devices
    limits = [(device.memory_stats() or {}).get("bytes_limit") for device in devices]
    known = [limit for limit in limits if limit]
    return min(known) if len(known) == len(devices) else available_memory() // len(devices)


def available_memory(root: str | pathlib.Path = "/") -> int:
    """Bytes of the host's memory that are free for programs.

    Args:
        root: where /proc and /sys are looked for.
    """
    root = pathlib.Path(root)
    limits = [left for left in (_meminfo(root), *_cgroups(root)) if left is not None]
    if limits:
        return max(min(limits), 0)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _meminfo(root: pathlib.Path) -> int | None:
    try:
        match = re.search(r"MemAvailable:\s+(\d+) kB", (root / "proc/meminfo").read_text())
    except OSError:
        return None
    return int(match[1]) * 1024 if match else None


def _cgroups(root: pathlib.Path) -> list[int | None]:
    """What is left of the container's limit, where there is one: version 2 of cgroups, then version 1."""
    folder = root / "sys/fs/cgroup"
    return [
        _cgroup(folder, "memory.max", "memory.current", "inactive_file"),
        _cgroup(folder / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ]


def _cgroup(folder: pathlib.Path, limit: str, usage: str, cache: str) -> int | None:
    try:
        most, used = (folder / limit).read_text().strip(), int((folder / usage).read_text())
    except (OSError, ValueError):
        return None
    if not most.isdigit():  # "max"
        return None
    with_cache = re.search(rf"^{cache} (\d+)$", _read(folder / "memory.stat"), re.MULTILINE)
    return int(most) - used + (int(with_cache[1]) if with_cache else 0)  # files' caches give way


def _read(path: pathlib.Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
