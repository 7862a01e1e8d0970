"""Programs that once differed, as files in `kept/`."""

from __future__ import annotations

from pathlib import Path

from fuzz.programs import RANDOM_SYNTAX, Program

FOLDER = Path(__file__).resolve().parent / "kept"


def save(program: Program, name: str, kind: str) -> Path:
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.py"
    path.write_text(f'"""Once differed in: {kind}."""\n\n{program.source}\n')
    return path


def load(path: Path) -> Program:
    """As it was generated: how a program runs goes by its strategy, the first word of the name."""
    strategy = path.name.split("_")[0]
    return Program(path.read_text(), strategy)


def paths() -> list[Path]:
    return sorted(FOLDER.glob("*.py"))
