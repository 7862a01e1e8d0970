"""Type parameters and `type` statements, as the decompiler writes them."""


type Number = int


type Table[Key, *Rest, **Call] = dict[Key, 'Table']


def typed_parameters[T: int, *Ts, **P](first: T, second=3, *, third: int=4) -> T:
    return first


def typed_bounds[T: (int, str)](first: T) -> T:
    def inside[Q](value: Q) -> T:
        return value
    return inside(first)


class Typed[T](list[T], metaclass=type):
    item: T = None
    def method[Q](self, item: Q, *, other=4) -> Q:
        return item
    type Own[R: T] = R
