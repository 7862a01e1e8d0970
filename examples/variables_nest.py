"""Nested functions with variables of every kind, and the table of their kinds as seen from `function_2`.

    python examples/variables_nest.py
    evalframe variables examples/variables_nest.py:function_1.function_2
"""

import evalframe


def function_1(arg1):
    def function_2(arg2):
        def function_3(arg3):
            return value + arg3

        tmp = arg1 + arg2
        value = tmp + global_var
        return value + function_3("3 ")

    return function_2


global_var = "global_var "


if __name__ == "__main__":
    function_2 = function_1("1 ")
    print(function_2("2 "))
    print(evalframe.variables(function_2))
