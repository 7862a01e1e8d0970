"""Classes, written as the decompiler writes them."""


class Plain:
    pass


class Child(Plain, metaclass=type):
    'What it is.'
    count: int = 0
    name: str
    def __init__(self, value):
        super().__init__()
        self._value = value
    @property
    def value(self):
        return self._value
    @staticmethod
    def made(*, key=None):
        return Child(key)


@print
class Decorated:
    class Inner:
        x = 1
