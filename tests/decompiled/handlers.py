"""Statements with handlers, one function each, written as the decompiler writes them."""


def caught(f):
    try:
        f()
    except ValueError as error:
        print(error)
    except (TypeError, KeyError):
        return 1
    except:
        raise
    else:
        print('fine')
    return 2


def last(f):
    try:
        return f()
    finally:
        print('last')


def all_clauses(f):
    try:
        f()
    except ValueError:
        print('value')
    else:
        print('fine')
    finally:
        print('last')


def in_a_loop(values):
    for value in values:
        try:
            print(1 / value)
        except ZeroDivisionError:
            print('zero')
        finally:
            print('turn')


def contexts(a, b):
    with a as f:
        print(f)
    with a:
        with b:
            pass


def returns_from_context(path):
    with open(path) as file:
        for line in file:
            if line:
                return line


def nested(f, g):
    try:
        try:
            f()
        except ValueError:
            g()
    except TypeError as error:
        print(error)


def whatever_is_raised(self, code=None):
    try:
        self.close()
    except:
        pass
    raise SystemExit(code)


def the_rest_is_passed(values):
    for value in values:
        try:
            value.close()
        except ValueError:
            pass
        except (KeyError, TypeError) as error:
            print(error)
            continue
        except:
            pass
        else:
            print(value)
    return values


def star(f, a, b):
    try:
        f()
    except* ValueError as error:
        f(error)
    except* (a, b):
        f(1)
    f(2)


def star_otherwise(f):
    try:
        f()
    except* ValueError:
        pass
    else:
        return 3


def loop_with_otherwise(values, f):
    for value in values:
        try:
            f(value)
        except ValueError:
            pass
        else:
            f(1)
            break
    return value


def ends_in_otherwise(f):
    try:
        f(1)
    except OSError:
        pass
    else:
        raise ValueError
    f(2)
    f(3)


def loop_in_context(f, rows):
    with f:
        for row in rows:
            if row >= f:
                break
        f(1)
        rows = [row for row in rows if f(row)]
    f(rows)


def finally_of_two_ways(f, a):
    try:
        f(1)
    finally:
        if a is f:
            del a.b
        else:
            a.b = f


def finally_that_may_do_nothing(f, a):
    try:
        f(1)
    finally:
        b = a.b
        if b:
            b.c = None
            b.close()


def finally_that_raises(f, a):
    try:
        f(1)
    except ValueError:
        try:
            f(2)
        finally:
            raise
    finally:
        a.b = f


def finally_that_returns(f, a):
    try:
        if a:
            f(1)
    finally:
        if a == f:
            f(2)
            return None
        f(3)


def finally_of_variables(f):
    try:
        a = f(1)
        f(a)
    finally:
        f(2)
        a.close()


def retries(f):
    while True:
        try:
            return f(1)
        except ValueError:
            pass
        try:
            return f(2)
        except KeyError:
            pass


def choice_returned_from_with(f):
    with f() as a:
        row = f(a)
        return row[0] if row else None


def returns_from_handler_in_with(f):
    with f() as a:
        try:
            with f(a):
                f(1)
        except KeyError:
            return False
    return True


def continues_from_inner_handler(f, a):
    for x in a:
        try:
            x.y = int(x)
        except ValueError:
            try:
                x.y = f(x)
            except KeyError:
                f()
                continue
        f(a)


def returned_before_several_choices(f, a, b):
    try:
        return f(a)
    finally:
        if a:
            f(b)
        if b:
            f(1)


def raised_from_inner_handler(f):
    try:
        try:
            raise f(1)
        except KeyError as e:
            raise f(2) from e
    except ValueError as e:
        r = f(e)
    return r
