"""Lets two substances react and diffuse (Gray and Scott), plain and under evalframe; writes the pattern as a picture.

    python examples/heat.py [--size 256] [--steps 2000] [--output pattern.png]
"""

import argparse
import struct
import time
import zlib
from pathlib import Path

import numpy as np

import evalframe


def laplacian(a):
    return a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] - 4.0 * a[1:-1, 1:-1]


def step(u, v, feed, kill):
    """One step of time, in place; the border keeps its values."""
    reaction = u[1:-1, 1:-1] * v[1:-1, 1:-1] ** 2
    du = 0.16 * laplacian(u) - reaction + feed * (1.0 - u[1:-1, 1:-1])
    dv = 0.08 * laplacian(v) + reaction - (feed + kill) * v[1:-1, 1:-1]
    u[1:-1, 1:-1] += du
    v[1:-1, 1:-1] += dv


def start(size: int) -> tuple[np.ndarray, np.ndarray]:
    """A square of the second substance in the middle of the first, with a little noise."""
    noise = np.random.default_rng(1)
    u, v = np.ones((size, size)), np.zeros((size, size))
    middle = slice(size // 2 - size // 8, size // 2 + size // 8)
    u[middle, middle], v[middle, middle] = 0.5, 0.25
    u += 0.02 * noise.random((size, size))
    v += 0.02 * noise.random((size, size))
    return u, v


def simulate(advance, size: int, steps: int) -> tuple[np.ndarray, float]:
    u, v = start(size)
    begin = time.perf_counter()
    for _ in range(steps):
        advance(u, v, 0.035, 0.065)
    return v, time.perf_counter() - begin


def write_png(path: Path, values: np.ndarray) -> None:
    """`values` as a grey picture, dark to bright from the least to the greatest."""
    low, high = values.min(), values.max()
    grey = ((values - low) / max(high - low, 1e-300) * 255).astype(np.uint8)
    lines = b"".join(b"\0" + row.tobytes() for row in grey)  # each line begins with its filter, 0 = none

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width = grey.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--output", type=Path, default=Path("pattern.png"))
    options = parser.parse_args()
    if options.size < 16:
        parser.error("--size must be at least 16")

    expected, plain = simulate(step, options.size, options.steps)
    result, jitted = simulate(evalframe.jit(step), options.size, options.steps)
    if not np.allclose(result, expected, rtol=1e-9, atol=1e-12):
        raise SystemExit(f"results differ by {np.max(np.abs(result - expected)):.1e}")
    write_png(options.output, result)
    print(f"{options.steps} steps of {options.size} x {options.size}: picture in {options.output}")
    print(f"plain NumPy      {plain:7.3f} s")
    print(f"under evalframe  {jitted:7.3f} s   {plain / jitted:.1f} times as fast, first call included")


if __name__ == "__main__":
    main()
