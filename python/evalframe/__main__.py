"""The command line: ``evalframe`` and ``python -m evalframe``."""


def main() -> int:
    raise SystemExit("evalframe: no commands yet")


if __name__ == "__main__":
    main()
