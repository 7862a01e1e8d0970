"""Programs with loops, in plain NumPy as its users write them: `KERNELS` has them all, by name, theme after theme."""

from importlib import import_module

from .table import KERNELS, SIZES, Kernel

THEMES = (
    *("products", "factorisations", "stencils", "weather", "dynamics", "tables", "arithmetic"),
    *("sequences", "signals", "samples", "image", "networks", "finance"),
)

for theme in THEMES:
    import_module(f".{theme}", __name__)

__all__ = ["KERNELS", "SIZES", "THEMES", "Kernel"]
