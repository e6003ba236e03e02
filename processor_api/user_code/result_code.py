"""The results of the user's functions, read from their bytecode: no function of the user is called.

Only what is certain is known: code with loops, exception handlers or instructions that are not listed here has no known
result. The work is bounded by the number of instructions and of branches.
"""

from __future__ import annotations

import builtins
import dis
import heapq
import inspect
import operator
import random
import re
import sys
from array import array
from bisect import insort, insort_left
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import CodeType, FunctionType, GenericAlias, MethodType, ModuleType
from typing import Any, cast

from processor_api.user_code.function_code import function_name
from processor_api.user_code.given_values import attribute_of

MUTABLE = (list, dict, set, bytearray, deque, defaultdict, OrderedDict, Counter, array)
"""The built-in containers that their methods change in place."""

_MOST_STEPS = 4_000
_MOST_PATHS = 64
_MOST_CALLS = 4
_UNSET: Any = object()
_NULL: Any = object()

_RETURN_NOTHING = frozenset(
    {
        "append", "appendleft", "extend", "extendleft", "insert", "remove", "reverse", "rotate", "sort", "add",
        "discard", "clear", "update", "subtract", "difference_update", "intersection_update",
        "symmetric_difference_update", "move_to_end", "byteswap", "frombytes", "fromlist", "__setitem__", "__delitem__",
    }
)  # fmt: skip
_CHANGING_METHODS = {
    id(found): found
    for kind in MUTABLE
    for name in _RETURN_NOTHING
    for owner in kind.__mro__
    if (found := vars(owner).get(name)) is not None
}
_CHANGING_FUNCTIONS: dict[int, object] = {
    id(function): function
    for function in (
        heapq.heapify, heapq.heappush, random.shuffle, insort, insort_left, operator.setitem, operator.delitem,
        setattr, delattr, print,
    )
}  # fmt: skip
_CONTAINERS = {kind.__name__: kind for kind in MUTABLE} | {"List": list, "Dict": dict, "Set": set}
_TEXT_OF_CONTAINER = re.compile(r"(?:typing\.)?(\w+)(?:\[.*\])?")


@dataclass(frozen=True, eq=False)
class KnownValue:
    """The known facts about a value in the user's code."""

    kinds: tuple[type, ...] = ()
    """The classes of which it may be; none if they are not known."""
    nothing: str = ""
    """If it is None because a call returned nothing: the call, such as ``list.append()``."""
    known: Any = _UNSET
    """The object itself, for constants and for what is defined outside of the function."""
    receiver: KnownValue | None = None
    """Whose attribute it is."""
    name: str = ""
    """The name of the attribute."""
    item: KnownValue | None = None
    """Its items, or those of a value of JSON, which are again such values."""
    plain: bool = False
    """Whether it is a value of JSON, so that its items are such values again."""

    @property
    def is_none(self) -> bool:
        """Whether it is certainly None."""
        return bool(self.nothing) or self.known is None

    @property
    def is_known(self) -> bool:
        """Whether the object itself is known."""
        return self.known is not _UNSET


ANYTHING = KnownValue()
JSON = KnownValue(kinds=(dict, list), plain=True)
"""A value that the serde ``json`` reads, if a method of a container is called on it."""


def value_of(thing: Any) -> KnownValue:
    """Returns what is known of an object."""
    return KnownValue(kinds=(type(thing),), known=thing)


def instance_of(annotation: Any) -> KnownValue:
    """Returns what is known of a value with an annotation, which may be a string."""
    if isinstance(annotation, str):
        found = _TEXT_OF_CONTAINER.fullmatch(annotation.strip())
        kind = None if found is None else _CONTAINERS.get(found[1])
        return ANYTHING if kind is None else KnownValue(kinds=(kind,))
    if isinstance(annotation, GenericAlias):
        annotation = annotation.__origin__
    return KnownValue(kinds=(annotation,)) if isinstance(annotation, type) else ANYTHING


def change_in_place(function: Any, arguments: Sequence[KnownValue]) -> str | None:
    """Returns the call whose result a function returns each time, and which is None since it changes something in
    place, such as ``list.append()``; ``None`` if the function returns anything else, or it is not certain.

    :param arguments: what is known of each argument.
    """
    results = _results(function, arguments)
    if not results or not all(result.is_none for result in results):
        return None
    return next((result.nothing for result in results if result.nothing), None)


def made_by(function: Any) -> KnownValue:
    """Returns what is known of the result of a function without arguments, such as an initializer."""
    return _common(_results(function, ()))


def result_of(function: Any, arguments: Sequence[KnownValue]) -> KnownValue:
    """Returns what is known of the result of a function."""
    return _common(_results(function, arguments))


def _common(results: Sequence[KnownValue] | None) -> KnownValue:
    if not results:
        return ANYTHING
    first = results[0]
    if all(result is first or _is_same(result, first) for result in results[1:]):
        return first
    kinds = {kind for result in results for kind in result.kinds}
    return KnownValue(kinds=tuple(kinds)) if all(result.kinds for result in results) else ANYTHING


def _is_same(one: KnownValue, other: KnownValue) -> bool:
    # By identity: a comparison would call the user's methods.
    return one.is_known and one.known is other.known


def _results(function: Any, arguments: Sequence[KnownValue], depth: int = 0) -> list[KnownValue] | None:
    """Returns what a call may return, on each way through the function; ``None`` if that is not known."""
    if isinstance(function, partial):
        if function.keywords:
            return None
        return _results(function.func, [*map(value_of, function.args), *arguments], depth)
    if id(function) in _CHANGING_METHODS or id(function) in _CHANGING_FUNCTIONS:
        return [KnownValue(nothing=_call_text(function))]
    if isinstance(function, type):
        return [_instance(function, arguments)]
    if isinstance(function, MethodType):
        return _results(function.__func__, [value_of(function.__self__), *arguments], depth)
    if not isinstance(function, FunctionType):
        method = _method(type(function), "__call__")
        if not isinstance(method, FunctionType):
            return None
        function, arguments = method, [value_of(function), *arguments]
    return None if depth > _MOST_CALLS else _run(function, arguments, depth)


def _instance(kind: type, arguments: Sequence[KnownValue]) -> KnownValue:
    if kind is defaultdict and arguments and isinstance(arguments[0].known, type):
        return KnownValue(kinds=(kind,), item=KnownValue(kinds=(arguments[0].known,)))
    return KnownValue(kinds=(kind,))


def _call_text(function: Any) -> str:
    return f"{function_name(function)}()"


def _method(kind: type, name: str) -> Any:
    """Returns what a class has under a name, without running a descriptor."""
    return inspect.getattr_static(kind, name, None)


def _run(function: FunctionType, arguments: Sequence[KnownValue], depth: int) -> list[KnownValue] | None:
    code = function.__code__
    generates = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    if code.co_flags & (generates | inspect.CO_VARARGS | inspect.CO_VARKEYWORDS) or code.co_exceptiontable:
        return None
    try:
        return _Walk(function, depth).results(_parameters(function, code, arguments))
    except _NotKnownError:
        return None


def _parameters(function: FunctionType, code: CodeType, arguments: Sequence[KnownValue]) -> dict[str, KnownValue]:
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    found = {name: _annotated(function, name) for name in names}
    defaults = function.__defaults__ or ()
    for name, default in zip(names[code.co_argcount - len(defaults) : code.co_argcount], defaults, strict=True):
        found[name] = value_of(default)
    for name, default in (function.__kwdefaults__ or {}).items():
        found[name] = value_of(default)
    for name, value in zip(names, arguments, strict=False):
        found[name] = _annotated(function, name) if value is ANYTHING else value
    return found


def _annotated(function: FunctionType, name: str) -> KnownValue:
    annotations = attribute_of(function, "__annotations__", {})
    return instance_of(annotations.get(name)) if isinstance(annotations, dict) else ANYTHING


class _NotKnownError(Exception):
    """Raised where the code does something that is not followed."""


_EFFECTS = {  # how many values an instruction takes off the stack, and how many that are not known it puts there
    "BINARY_OP": (2, 1), "COMPARE_OP": (2, 1), "IS_OP": (2, 1), "CONTAINS_OP": (2, 1), "BINARY_SLICE": (3, 1),
    "UNARY_NEGATIVE": (1, 1), "UNARY_NOT": (1, 1), "UNARY_INVERT": (1, 1), "UNARY_POSITIVE": (1, 1),
    "STORE_SUBSCR": (3, 0), "DELETE_SUBSCR": (2, 0), "STORE_ATTR": (2, 0), "DELETE_ATTR": (1, 0), "POP_TOP": (1, 0),
    "STORE_SLICE": (4, 0), "STORE_GLOBAL": (1, 0), "FORMAT_SIMPLE": (1, 1), "FORMAT_WITH_SPEC": (2, 1),
    "CONVERT_VALUE": (1, 1), "LIST_TO_TUPLE": (1, 1), "LIST_APPEND": (1, 0), "SET_ADD": (1, 0), "MAP_ADD": (2, 0),
    "LIST_EXTEND": (1, 0), "SET_UPDATE": (1, 0), "DICT_UPDATE": (1, 0), "DICT_MERGE": (1, 0),
    "CALL_INTRINSIC_1": (1, 1), "GET_LEN": (0, 1), "DELETE_FAST": (0, 0), "GET_ITER": (1, 1),
    "SET_FUNCTION_ATTRIBUTE": (2, 1),
}  # fmt: skip
_NO_EFFECT = frozenset(
    {
        "RESUME", "NOP", "CACHE", "PRECALL", "COPY_FREE_VARS", "MAKE_CELL", "EXTENDED_ARG", "TO_BOOL", "NOT_TAKEN",
        "KW_NAMES",
    }
)  # fmt: skip
_BUILT: dict[str, type] = {"BUILD_LIST": list, "BUILD_SET": set, "BUILD_TUPLE": tuple, "BUILD_STRING": str}
_HAS_METHOD_BIT = sys.version_info >= (3, 12)
_MAKES_PLAIN_FUNCTIONS = sys.version_info >= (3, 13)

_State = tuple[int, tuple[Any, ...], Mapping[str, KnownValue]]
"""An index of an instruction, the stack, and the local variables."""


class _Walk:
    """Follows each way through the code of one function."""

    def __init__(self, function: FunctionType, depth: int) -> None:
        self._function = function
        self._depth = depth
        self._steps = [step for step in dis.get_instructions(function.__code__) if step.opname not in _NO_EFFECT]
        self._at = self._targets()

    def _targets(self) -> dict[int, int]:
        """Returns the index of the first instruction from each offset on."""
        found, index, last = {}, 0, self._steps[-1].offset if self._steps else -1
        for offset in range(0, last + 1, 2):
            while self._steps[index].offset < offset:
                index += 1
            found[offset] = index
        return found

    def results(self, variables: Mapping[str, KnownValue]) -> list[KnownValue]:
        found: list[KnownValue] = []
        waiting: list[_State] = [(0, (), variables)]
        paths = taken = 0
        while waiting:
            state: _State | None = waiting.pop()
            paths += 1
            while state is not None:
                taken += 1
                if taken > _MOST_STEPS or paths > _MOST_PATHS:
                    raise _NotKnownError
                index, stack, local = state
                step = self._steps[index]
                if step.opname in ("RETURN_VALUE", "RETURN_CONST"):
                    found.append(stack[-1] if step.opname == "RETURN_VALUE" else value_of(step.argval))
                    state = None
                elif step.opname in ("RAISE_VARARGS", "RERAISE"):
                    state = None
                elif "JUMP" in step.opname:
                    state, *others = self._jump(step, index, stack, local)
                    waiting.extend(others)
                else:
                    stack, local = self._step(step, list(stack), local)
                    state = index + 1, stack, local
        return found

    def _jump(
        self, step: dis.Instruction, index: int, stack: tuple[Any, ...], local: Mapping[str, KnownValue]
    ) -> list[_State]:
        name = step.opname.replace("_FORWARD_", "_")
        target = self._at.get(step.argval)
        if target is None or target <= index:  # a loop
            raise _NotKnownError
        if name == "JUMP_FORWARD":
            return [(target, stack, local)]
        keeps = name.endswith("_OR_POP")
        wanted = name.removesuffix("_OR_POP").rpartition("_IF_")[2]
        verdict = _verdict(stack[-1], wanted)
        rest = stack[:-1]
        jumps, stays = (target, stack if keeps else rest, local), (index + 1, rest, local)
        return [jumps, stays] if verdict is None else [jumps if verdict else stays]

    def _step(
        self, step: dis.Instruction, stack: list[Any], local: Mapping[str, KnownValue]
    ) -> tuple[tuple[Any, ...], Mapping[str, KnownValue]]:
        name, given = step.opname, step.argval
        if name.startswith("LOAD_FAST") and name != "LOAD_FAST_AND_CLEAR":
            names = given if isinstance(given, tuple) else (given,)
            stack.extend(local.get(one, ANYTHING) for one in names)
        elif name == "STORE_FAST":
            local = {**local, given: stack.pop()}
        elif name == "STORE_FAST_LOAD_FAST":
            local = {**local, given[0]: stack.pop()}
            stack.append(local.get(given[1], ANYTHING))
        elif name == "STORE_FAST_STORE_FAST":
            local = {**local, given[0]: stack.pop()}
            local = {**local, given[1]: stack.pop()}
        elif name in ("STORE_DEREF", "DELETE_DEREF"):
            raise _NotKnownError
        elif name in ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_CLOSURE"):
            stack.append(self._outer(given, local))
        else:
            self._on_stack(step, stack)
        return tuple(stack), local

    def _on_stack(self, step: dis.Instruction, stack: list[Any]) -> None:
        name, number = step.opname, step.arg or 0
        if name in _EFFECTS:
            taken, put = _EFFECTS[name]
            item = name == "BINARY_OP" and step.argrepr == "[]"
            values = [stack.pop() for _ in range(taken)]
            stack.extend([_item(values[-1])] if item else [ANYTHING] * put)
        elif name in ("LOAD_CONST", "LOAD_SMALL_INT"):
            stack.append(value_of(step.argval))
        elif name == "LOAD_GLOBAL":
            stack.extend([_NULL, self._global(step.argval)] if number & 1 else [self._global(step.argval)])
        elif name == "PUSH_NULL":
            stack.append(_NULL)
        elif name in ("LOAD_ATTR", "LOAD_METHOD"):
            has_self = name == "LOAD_METHOD" or (_HAS_METHOD_BIT and number & 1)
            stack[-1:] = [_attribute(stack[-1], step.argval), *([_NULL] if has_self else ())]
        elif name in ("CALL", "CALL_KW"):
            self._called(stack, number, named=name == "CALL_KW")
        elif name == "BINARY_SUBSCR":
            stack.pop()
            stack.append(_item(stack.pop()))
        elif name == "COPY":
            stack.append(stack[-number])
        elif name == "SWAP":
            stack[-1], stack[-number] = stack[-number], stack[-1]
        else:
            _built(name, number, stack)

    def _called(self, stack: list[Any], count: int, *, named: bool) -> None:
        if named:
            stack.pop()
        arguments = [stack.pop() for _ in range(count)][::-1]
        pair = [one for one in (stack.pop(), stack.pop()) if one is not _NULL]
        stack.append(self._call(pair[0], arguments) if len(pair) == 1 else ANYTHING)

    def _call(self, callee: KnownValue, arguments: list[KnownValue]) -> KnownValue:
        if callee.is_known:
            return self._merged(callee.known, arguments)
        if callee.receiver is None or not callee.receiver.kinds:
            return ANYTHING
        results = [self._call_method(kind, callee, arguments) for kind in callee.receiver.kinds]
        found = [result for result in results if result is not None]
        return _common(found) if found else ANYTHING

    def _call_method(self, kind: type, callee: KnownValue, arguments: list[KnownValue]) -> KnownValue | None:
        """Returns the result of the method of a class; ``None`` if it has none of that name."""
        assert callee.receiver is not None
        method = _method(kind, callee.name)
        if method is None:
            return None
        if id(method) in _CHANGING_METHODS:
            return KnownValue(nothing=f"{kind.__name__}.{callee.name}()")
        if kind in MUTABLE and callee.name == "setdefault" and len(arguments) == 2:
            return replace(arguments[1], known=_UNSET)
        if isinstance(method, FunctionType):
            return self._merged(method, [callee.receiver, *arguments])
        return ANYTHING

    def _merged(self, function: Any, arguments: list[KnownValue]) -> KnownValue:
        results = _results(function, arguments, self._depth + 1)
        if results and all(result.is_none for result in results):
            inner = next((result.nothing for result in results if result.nothing), "")
            return KnownValue(nothing=inner if isinstance(function, type) else _call_text(function))
        return _common(results)

    def _outer(self, name: str, local: Mapping[str, KnownValue]) -> KnownValue:
        names = self._function.__code__.co_freevars
        if name not in names:
            return local.get(name, ANYTHING)
        try:
            return value_of((self._function.__closure__ or ())[names.index(name)].cell_contents)
        except ValueError:  # nothing was assigned to it yet
            return ANYTHING

    def _global(self, name: str) -> KnownValue:
        outside = self._function.__globals__
        if name in outside:
            return value_of(outside[name])
        return value_of(vars(builtins)[name]) if name in vars(builtins) else ANYTHING


def _built(name: str, number: int, stack: list[Any]) -> None:
    if name in ("BUILD_MAP", "BUILD_CONST_KEY_MAP"):
        taken, kind = (number * 2 if name == "BUILD_MAP" else number + 1), cast(type, dict)
    elif name in _BUILT:
        taken, kind = number, _BUILT[name]
    elif name == "FORMAT_VALUE":
        taken, kind = 1 + (number & 4 == 4), str
    elif name == "BUILD_SLICE":
        taken, kind = number, slice
    elif name == "MAKE_FUNCTION":
        taken, kind = 1 + (0 if _MAKES_PLAIN_FUNCTIONS else number.bit_count()), FunctionType
    else:
        raise _NotKnownError
    if taken:
        del stack[-taken:]
    stack.append(KnownValue(kinds=(kind,)))


def _verdict(value: KnownValue, wanted: str) -> bool | None:
    """Returns whether a value makes code jump that wants it ``TRUE``, ``FALSE``, ``NONE`` or ``NOT_NONE``."""
    if value.is_none:
        return wanted in ("FALSE", "NONE")
    if value.is_known and type(value.known) in (bool, int, str):
        return {"TRUE": bool(value.known), "FALSE": not value.known}.get(wanted, wanted == "NOT_NONE")
    return None


def _item(value: KnownValue) -> KnownValue:
    return JSON if value.plain else value.item or ANYTHING


def _attribute(value: KnownValue, name: str) -> KnownValue:
    if value.is_known and isinstance(value.known, ModuleType):
        inside = vars(value.known)
        return value_of(inside[name]) if name in inside else ANYTHING
    if value.is_known and isinstance(value.known, type):
        found = _method(value.known, name)
        return value_of(found) if callable(found) else ANYTHING
    declared = ANYTHING
    if len(value.kinds) == 1:
        annotations = attribute_of(value.kinds[0], "__annotations__", {})
        if isinstance(annotations, dict) and name in annotations:
            declared = instance_of(annotations[name])
    return replace(declared, receiver=value, name=name)


# The variables of the surroundings that a function reads.


def outer_values(function: Any) -> Iterator[tuple[str, object, Any]]:
    """Yields the name, the place and the value now of each variable outside of a function that its code reads and
    that may be assigned again: functions, classes and modules are left out.

    :param function: what a ``def`` or ``lambda`` made; nothing is yielded of others.
    """
    if not isinstance(function, FunctionType):
        return
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:
            continue
        yield name, cell, value
    outside = function.__globals__
    for name in {step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL"}:
        if name in outside and not (isinstance(outside[name], ModuleType) or callable(outside[name])):
            yield name, None, outside[name]
