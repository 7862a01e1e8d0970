"""Swings many driven, damped pendulums at once, written as a beginner's script: a loop, no function, no decorator.

    python examples/pendulums.py [pendulums] [steps]
    evalframe run examples/pendulums.py
"""

import sys
import time

import numpy as np

count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 2_500

angle = np.linspace(-1.0, 1.0, count)
speed = np.zeros(count)
push = np.linspace(0.9, 1.5, count)
now, dt = 0.0, 0.01
turns_over = 0

start = time.perf_counter()
for step in range(steps):
    drive = push * np.cos(2 / 3 * now)
    acceleration = drive - np.sin(angle) - 0.5 * speed
    speed = speed + dt * acceleration
    angle = angle + dt * speed
    now += dt
    if step % 500 == 499:
        over = np.abs(angle) > np.pi
        turns_over = int(over.sum())
        print(f"step {step + 1:5}: {turns_over:6} of {count} have turned over, mean speed {np.abs(speed).mean():.6f}")
seconds = time.perf_counter() - start

print(f"{steps} steps of {count} pendulums", file=sys.stderr)
print(f"{seconds:.3f} seconds", file=sys.stderr)
