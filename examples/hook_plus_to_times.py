"""Runs other bytecode in a function's place: each `+` becomes a `*`, while the hook is there.

    python examples/hook_plus_to_times.py
"""

import evalframe
from evalframe.bytecode import Bytecode


def total(a: int, b: int, c: int) -> int:
    return a + b + c


def main() -> None:
    body = Bytecode.from_code(total)
    for instruction in body:
        if instruction.opname == "BINARY_OP" and instruction.argval == "+":
            instruction.argval = "*"
    product = body.assemble()

    def replace(frame: evalframe.FrameInfo) -> object:
        return product if frame.code is total.__code__ else None

    print("total(2, 3, 4) =", total(2, 3, 4))
    with evalframe.hook(replace):
        print("total(2, 3, 4) =", total(2, 3, 4), "while the hook is there")
    print("total(2, 3, 4) =", total(2, 3, 4))


if __name__ == "__main__":
    main()
