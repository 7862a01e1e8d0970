"""Filters in the frequency domain, windows, spectra of chirps."""

import numpy as np
from numpy.fft import fft, ifft, irfft, rfft, rfftfreq


def low_pass(signal, rate, cut):
    spectrum = rfft(signal)
    frequencies = rfftfreq(signal.size, d=1 / rate)
    spectrum[frequencies > cut] = 0
    return irfft(spectrum, n=signal.size)


def gaussian(signal, width):
    k = np.fft.fftfreq(len(signal))
    return ifft(fft(signal) * np.exp(-2 * (np.pi * k * width) ** 2)).real


def power(signal, size, hop):
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)
    frames = [signal[i : i + size] * window for i in range(0, len(signal) - size + 1, hop)]
    spectrum = np.abs(rfft(frames, axis=-1)) ** 2
    with np.errstate(divide="ignore"):
        return 10 * np.log10(spectrum + 1e-12)


TOLERANCE = 1e-8


def main():
    out = []
    for n, rate in [(256, 100.0), (300, 50), (128, 8)]:
        t = np.arange(n) / rate
        x = np.sin(2 * np.pi * 3 * t) + 0.3 * np.sin(2 * np.pi * 17 * t)
        out += [low_pass(x, rate, 5), gaussian(x, 2.5), power(x, 64, 16), low_pass(x.astype("f4"), rate, 2)]
    return out
