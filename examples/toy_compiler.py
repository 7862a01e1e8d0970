"""A compiler of one's own in 30 lines: gets each graph, prints it, and makes a Python function of it.

    python examples/toy_compiler.py
"""

import numpy as np

import evalframe


def toy_compiler(graph: evalframe.Graph, example_inputs: list):
    """Writes the graph as Python source, one line for each node, and compiles that."""
    print(graph)
    names = {value: f"i{number}" for number, value in enumerate(graph.inputs)}
    namespace: dict[str, object] = {}

    def argument(arg: object) -> str:
        if isinstance(arg, evalframe.Value):
            return names[arg]
        namespace[f"c{len(namespace)}"] = arg  # a constant of the program
        return f"c{len(namespace) - 1}"

    lines = [f"def compiled({', '.join(names.values())}):"]
    for node in graph:
        arguments = [argument(arg) for arg in node.args]
        arguments += [f"{name}={argument(arg)}" for name, arg in node.kwargs.items()]
        call = f"{argument(node.target)}({', '.join(arguments)})"
        lines.append(f"    {node.name} = {call}  # {node.op}, line {node.line}")
        names[node] = node.name
    lines.append(f"    return {', '.join(names[output] for output in graph.outputs)},")
    source = "\n".join(lines)
    print("compiled to\n" + source + "\n")
    exec(source, namespace)
    return namespace["compiled"]


def toy_function(a, b):
    x = a / (np.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def main() -> None:
    a, b = np.linspace(-1.0, 1.0, 10), np.arange(10.0) - 3.0
    evalframe.register_backend("toy", toy_compiler)  # or backend=toy_compiler
    compiled = evalframe.jit(toy_function, backend="toy")
    for b_now in (b, -b, b, -b):
        if not np.array_equal(compiled(a, b_now), toy_function(a, b_now)):
            raise SystemExit("results differ")
    print("both sides of the branch agree with plain Python")


if __name__ == "__main__":
    main()
