"""Values as fastavro takes them: what a value of Python is in each type of Avro, and the limits of both.

A schema compiles to one function for each of its types, once (:class:`Forms`). The function checks a value and returns
what fastavro writes for it, so nothing is written that fastavro would read as another value. A value that does not fit
raises :class:`Misfit`, with its place. :class:`AvroJson` has values as JSON.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import math
import uuid
from collections.abc import Callable, Mapping, Set
from functools import partial
from typing import Any, NamedTuple, SupportsIndex

from processor_api.texts import MOST_VALUE, cut, repr_of
from processor_api.user_code.given_values import exact_text
from streams.registry.avro_schemas import MOST_DEFAULTS, NAMED, RECORDS, AvroSchema, kind_of, short, unreadable
from streams.registry.schemas import SchemaError, SchemaText
from streams.schemas.avro_models import RecordClass

_LARGEST_FLOAT = 3.4028235677973366e38
_MOST_DIGITS = 1_000
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_NAIVE_EPOCH, _FIRST_DAY = EPOCH.replace(tzinfo=None), EPOCH.toordinal()
_MICROSECOND = datetime.timedelta(microseconds=1)


class Misfit(SchemaError):
    """A value that is not of its type; the place is added on the way up."""

    _place = ""

    def below(self, step: str) -> Misfit:
        """Returns the error with one more step in front of its place."""
        self._place = step + self._place
        return self

    def __str__(self) -> str:
        return (f"field {self._place.lstrip('.')}" if self._place else "the value") + str(self.args[0])


def _no(expected: str, value: Any) -> Misfit:
    return Misfit(f" must be {expected}, got {cut(repr_of(value), MOST_VALUE)}")


# ---------------------------------------------------------------------- values that keep the name of their type


class GenericRecord(dict[str, Any]):
    """A record that was read without a model: a dict that is written again as what it was read from.

    The outermost record of a value has its schema; one that is in a union with others has the name of its type.
    """

    __slots__ = ("branch", "schema")

    schema: SchemaText | None
    branch: str | None

    def __init__(self, fields: Mapping[str, Any], schema: SchemaText | None = None, branch: str | None = None) -> None:
        super().__init__(fields)
        self.schema, self.branch = schema, branch

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return GenericRecord, (dict(self), self.schema, self.branch)


class GenericSymbol(str):
    """A symbol of an enum that was read without a model, and has texts or other enums next to it in a union."""

    branch: str | None = None


class GenericFixed(bytes):
    """A ``fixed`` that was read without a model, and has bytes or others of its kind next to it in a union."""

    branch: str | None = None


_GENERIC = frozenset((GenericRecord, GenericSymbol, GenericFixed))


def generic(node: Any) -> Callable[[Any], Any]:
    """Returns the function that lets the values of a type keep its name."""
    kind, name = kind_of(node), node["name"]
    if kind in RECORDS:
        return partial(GenericRecord, branch=name)

    def named(value: Any) -> Any:
        found = GenericSymbol(value) if kind == "enum" else GenericFixed(value)
        found.branch = name
        return found

    return named


# ---------------------------------------------------------------------- logical types


class Logical(NamedTuple):
    """A logical type of one node of a schema."""

    kind: type
    write: Callable[[Any], Any]
    """Returns what is written for a value; raises :class:`Misfit` if it would not come back equal."""
    read: Callable[[Any], Any]


def logical_of(node: Any) -> Logical | None:
    """Returns the logical type of a node; ``None`` if it has none, or one that is not valid, which Avro ignores. Raises
    `SchemaError` if it has more digits than can be read in a bounded time."""
    name = node.get("logicalType") if isinstance(node, dict) else None
    kind = kind_of(node)
    if name == "decimal" and kind in ("bytes", "fixed"):
        return _decimal(node)
    return _LOGICAL.get((kind, name)) if isinstance(name, str) else None


def _decimal(node: Any) -> Logical | None:
    precision, scale, size = node.get("precision"), node.get("scale", 0), node.get("size")
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or not precision:
        return None
    if precision > _MOST_DIGITS:
        raise SchemaError(f"a decimal of the Avro schema has {precision} digits, but {_MOST_DIGITS} are the limit")
    limit, most, last_digit = 10**precision, 10 ** (precision - scale), decimal.Decimal((0, (1,), -scale))
    context = decimal.Context(prec=precision, traps=[decimal.InvalidOperation, decimal.Inexact])

    def write(value: decimal.Decimal) -> bytes:
        if not value.is_finite():
            raise _no("number", value)
        try:
            unscaled = int(context.scaleb(context.quantize(value, last_digit), scale))
            return unscaled.to_bytes((unscaled.bit_length() + 8) >> 3 if size is None else size, "big", signed=True)
        except (decimal.Inexact, decimal.InvalidOperation):
            wrong = f"has more than {precision - scale} digits before the point"
            if value.copy_abs() < most:
                wrong = f"has {-int(value.as_tuple().exponent)} digits after the point, but its type has {scale}"
        except OverflowError:
            wrong = f"does not fit in {size} bytes"
        raise Misfit(f" {wrong}: {repr_of(value)}")

    def read(data: bytes) -> decimal.Decimal:
        unscaled = int.from_bytes(data, "big", signed=True)
        if not -limit < unscaled < limit:
            raise SchemaError(f"{len(data)} bytes of a decimal have more than {precision} digits")
        return decimal.Decimal(unscaled).scaleb(-scale, context)

    return Logical(decimal.Decimal, write, read)


def _time(name: str, unit: int, epoch: datetime.datetime, *, of_day: bool = False) -> Logical:
    """Returns the logical type of times since an epoch, or of the day of that, in units of as many microseconds."""

    def write(value: Any) -> int:
        time = datetime.datetime.combine(epoch, value) if of_day else value
        if (time.utcoffset() is None) is not (epoch.tzinfo is None):
            lost = f"has a time zone, which {name} does not store"
            what = "has no time zone: give it one, such as datetime.UTC" if epoch.tzinfo else lost
            raise Misfit(f": the time {value.isoformat()} {what}")
        number, rest = divmod((time - epoch) // _MICROSECOND, unit)
        if rest:
            how = "truncate them, such as with .replace(microsecond=time.microsecond // 1000 * 1000)"
            raise Misfit(f": the time {value.isoformat()} has microseconds, but {name} stores milliseconds: {how}")
        return number

    def read(number: int) -> Any:
        time = epoch + datetime.timedelta(microseconds=number * unit)
        if of_day and time.date() != epoch.date():
            raise SchemaError(f"{number} is not a time of day")
        return time.time() if of_day else time

    return Logical(datetime.time if of_day else datetime.datetime, write, read)


def _days(value: datetime.date) -> int:
    if isinstance(value, datetime.datetime):
        raise _no("date", value)
    return value.toordinal() - _FIRST_DAY


_LOGICAL: dict[tuple[str, Any], Logical] = {
    ("string", "uuid"): Logical(uuid.UUID, str, uuid.UUID),
    ("int", "date"): Logical(datetime.date, _days, lambda days: datetime.date.fromordinal(days + _FIRST_DAY)),
}
for _kind, _name, _unit in (("int", "millis", 1000), ("long", "micros", 1)):
    _LOGICAL[_kind, f"time-{_name}"] = _time(f"time-{_name}", _unit, _NAIVE_EPOCH, of_day=True)
    _LOGICAL["long", f"timestamp-{_name}"] = _time(f"timestamp-{_name}", _unit, EPOCH)
    _LOGICAL["long", f"local-timestamp-{_name}"] = _time(f"local-timestamp-{_name}", _unit, _NAIVE_EPOCH)

# ---------------------------------------------------------------------- forms


class Form(NamedTuple):
    """The form of the values of one type of a schema, as fastavro writes them."""

    branch: str
    """The name of the type in a union."""
    write: Callable[[Any], Any]
    """Returns what fastavro takes of a value; raises :class:`Misfit` if there is nothing."""
    kinds: frozenset[type]
    """The types of Python whose values belong to it, of all types in a union."""
    as_is: type | None = None
    """The type of Python of which each value is what fastavro takes, so that it need not be looked at."""


class Forms:
    """The functions of one schema, for objects of classes by the short names of their types, and for dicts.

    :param root: the class of the outermost record, whatever its name.
    :param thorough: whether each value is looked at: what is as it is may still be an integer beyond 64 bits.
    """

    def __init__(
        self, schema: AvroSchema, classes: Mapping[str, Any], root: RecordClass | None = None, *, thorough: bool = False
    ) -> None:
        self.schema, self._classes, self._thorough = schema, classes, thorough
        self._records: dict[str, Form] = {}
        top = schema.meant(schema.root)
        self._top = top if root is not None and kind_of(top) == "record" else None
        self._root = root

    def of(self, given: Any) -> Form:
        """Returns the form of a node."""
        node = self.schema.meant(given)
        if isinstance(node, list):
            return self._union(node)
        kind = kind_of(node)
        if (logical := logical_of(node)) is not None:
            return _logical_form(node.get("name", kind), logical)
        if kind in _PRIMITIVES:
            return _PRIMITIVES[kind]._replace(as_is=None) if self._thorough else _PRIMITIVES[kind]
        made: Form = getattr(self, f"_{kind}")(node)
        return made

    def _array(self, node: Any) -> Form:
        items = self.of(node["items"])
        as_is, write_item = frozenset((items.as_is,)), items.write

        def write(value: Any) -> Any:
            if not isinstance(value, (list, tuple, set, frozenset)):
                raise _no("array", value)
            if as_is.issuperset(map(type, value)):
                found = value if type(value) is list else list(value)
            else:
                found = []
                for one in value:
                    try:
                        found.append(write_item(one))
                    except Misfit as error:
                        raise error.below(f"[{len(found)}]") from None
            # A set has another order in each process.
            return sorted(found, key=repr) if isinstance(value, (set, frozenset)) else found

        return Form("array", write, frozenset((list, tuple, set, frozenset)))

    def _map(self, node: Any) -> Form:
        values = self.of(node["values"])
        write_value = values.write

        def write(value: Any) -> Any:
            if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
                raise _no("map with strings as keys", value)
            found = {}
            for key, one in value.items():
                try:
                    found[exact_text(key)] = write_value(one)
                except Misfit as error:
                    raise error.below(f"[{key!r}]") from None
            return found

        return Form("map", write, frozenset((dict,)))

    def _fixed(self, node: Any) -> Form:
        size, name = node["size"], node["name"]

        def write(value: Any) -> bytes:
            if not isinstance(value, (bytes, bytearray)) or len(value) != size:
                raise _no(f"fixed of {size} bytes", value)
            return bytes(value)

        return Form(name, write, frozenset((bytes, GenericFixed)))

    def _enum(self, node: Any) -> Form:
        symbols, name = frozenset(node["symbols"]), node["name"]
        known = self._classes.get(short(name))
        kind = known if isinstance(known, type) and issubclass(known, enum.Enum) else None

        def write(value: Any) -> Any:
            if kind is not None and type(value) is not kind:
                raise _no(kind.__name__, value)
            symbol = value.value if isinstance(value, enum.Enum) else value
            if not isinstance(symbol, str) or symbol not in symbols:
                raise _no(f"symbol of {name}", value)
            return exact_text(symbol)

        return Form(name, write, frozenset((str, GenericSymbol) if kind is None else (kind,)))

    def _union(self, branches: list[Any]) -> Form:
        forms = [self.of(one) for one in branches]
        order = sorted(forms, key=lambda form: form.branch == "float")  # a double keeps all of a number
        by_name = {form.branch: form for form in forms}
        by_short = {short(form.branch): form for form in reversed(forms)}
        kinds = frozenset[type]().union(*(form.kinds for form in forms))
        by_kind = {kind: [form for form in order if kind in form.kinds] for kind in kinds}
        nullable = "null" in by_name
        others = [form for form in order if form.branch != "null"]

        def write_optional(value: Any) -> Any:
            if value is None:
                return None
            if type(value) is tuple and len(value) == 2 and value[0] == only.branch:
                value = value[1]
            return only.branch, value if type(value) is only.as_is else only.write(value)

        def write(value: Any) -> Any:
            if value is None and nullable:
                return None
            kind = type(value)
            if kind is tuple and len(value) == 2 and type(value[0]) is str and value[0] in by_name:
                form = by_name[value[0]]
                return form.branch, form.write(value[1])
            if kind in _GENERIC and value.branch is not None:
                own = by_name.get(value.branch) or by_short.get(short(value.branch))
                if own is not None:
                    return own.branch, own.write(value)
            found = by_kind.get(kind) or others
            if len(found) == 1:
                return found[0].branch, found[0].write(value)
            for form in found:
                try:
                    return form.branch, form.write(value)
                except Misfit:
                    continue
            raise _no(f"one of {', '.join(short(form.branch) for form in forms)}", value)

        only, is_optional = others[0] if others else order[0], nullable and len(others) == 1
        as_is = type(None) if nullable and not self._thorough else None
        return Form("union", write_optional if is_optional else write, kinds, as_is)

    def _record(self, node: Any) -> Form:
        name = node["name"]
        if name in self._records:
            return self._records[name]
        known = self._root if node is self._top else self._classes.get(short(name))
        record = known if isinstance(known, RecordClass) else None
        kinds: frozenset[type] = frozenset((dict, GenericRecord) if record is None else (record.kind,))
        # A record may have itself among its fields: the function is made when it is first called.
        self._records[name] = found = Form(name, lambda value: write(value), kinds)
        write = self._record_writer(node, record)
        return found._replace(write=write)

    _error = _record

    def _record_writer(self, node: Any, record: RecordClass | None) -> Callable[[Any], Any]:
        """Returns the function from a record to the dict that fastavro takes: that of the record itself, if all its
        values are."""
        types = {field["name"]: field["type"] for field in node["fields"]}
        plan = [(name, form.as_is, form.write) for name, form in zip(types, map(self.of, types.values()), strict=True)]
        given = (field for field in node["fields"] if "default" in field)
        defaults = {field["name"]: raw_default(self.schema, field["type"], field["default"]) for field in given}
        count, dicts = len(plan), dict if record is None else None
        whole = record.kind if record is not None and record.has_fields([*types]) else None

        def fields_of(value: Any) -> dict[str, Any]:
            if record is not None:
                return _fields_of_object(record, types.keys(), value)
            if not isinstance(value, Mapping):
                raise _no(f"record {node['name']}", value)
            return dict(value)

        def check_names(fields: Mapping[str, Any]) -> None:
            for name in fields:
                if name not in types:
                    raise Misfit(f" is not in the schema of {node['name']}").below(f".{name}")

        def default_of(name: str, fields: Mapping[str, Any]) -> Any:
            check_names(fields)
            if name not in defaults:
                raise Misfit(" is missing and does not have a default").below(f".{name}")
            return defaults[name]

        def write(value: Any) -> Any:
            kind, fields = type(value), value
            if kind is not dicts and (kind is not whole or len(fields := vars(value)) != count):
                fields = fields_of(value)
            if len(fields) > count:
                check_names(fields)
            found = fields
            for name, as_is, write_value in plan:
                try:
                    if type(fields[name]) is as_is:
                        continue
                    one = fields[name]
                except KeyError:
                    found = {**found, name: default_of(name, fields)}
                else:
                    if found is fields:
                        found = dict(fields)
                    try:
                        found[name] = write_value(one)
                    except Misfit as error:
                        raise error.below(f".{name}") from None
            return found

        return write


def _fields_of_object(record: RecordClass, names: Set[str], value: Any) -> dict[str, Any]:
    """Returns the fields of an object of a class that a schema has under these names, and those that pydantic calls
    extra."""
    kind = record.kind
    if type(value) is not kind:
        if isinstance(value, kind):
            raise Misfit(f": it would come back as {kind.__name__}, not {type(value).__name__}")
        raise Misfit(f": expected {kind.__name__}, got {type(value).__name__}")
    extras = getattr(value, "__pydantic_extra__", None) or {}
    if more := extras.keys() - names:
        raise Misfit(f": {kind.__name__} has fields that its schema does not have: {', '.join(sorted(more))}")
    try:
        own = {field.name: getattr(value, field.attribute) for field in record.fields if field.name in names}
    except AttributeError as error:
        raise Misfit(f": a field is missing: {error}") from error
    return {**own, **extras}


def _logical_form(branch: str, logical: Logical) -> Form:
    kind, write_kind, read = logical

    def write(value: Any) -> Any:
        if not isinstance(value, kind):
            raise _no(kind.__name__, value)
        found = write_kind(value)
        if type(value) is not kind and read(found) != value:  # a class with more in it
            raise Misfit(f" would come back as {repr_of(read(found))}, not {repr_of(value)}")
        return found

    return Form(branch, write, frozenset((kind,)))


def _float(branch: str, value: Any) -> float:
    """Returns a number as a float that is equal; one of 32 bits is rounded by fastavro."""
    try:
        found = float(value)
    except OverflowError:
        raise _no(branch, value) from None
    is_large = branch == "float" and _LARGEST_FLOAT < abs(found) < math.inf
    if is_large or (found != value and value == value):
        raise _no(branch, value)
    return found


def _integer(branch: str, most: int, value: Any) -> int:
    if not -most <= value < most:
        raise _no(branch, value)
    return int.__index__(value)


def _simple(branch: str, kinds: tuple[type, ...], exact: Callable[[Any], Any], *, as_is: bool = True) -> Form:
    """Returns the form of a type that is one of Python's: the first kind is that whose values belong to it in a union,
    and ``exact`` returns what is written for a value of one of them."""

    def write(value: Any) -> Any:
        plain = value.value if isinstance(value, enum.Enum) else value
        if not isinstance(plain, kinds) or (isinstance(plain, bool) and bool not in kinds):
            raise _no(branch, value)
        return exact(plain)

    return Form(branch, write, frozenset(kinds[:1]), kinds[0] if as_is else None)


_SIMPLE = (
    _simple("null", (type(None),), lambda value: None),
    _simple("boolean", (bool,), bool),
    _simple("string", (str,), exact_text),
    _simple("bytes", (bytes, bytearray), bytes),
    _simple("int", (int,), partial(_integer, "int", 1 << 31), as_is=False),
    _simple("long", (int,), partial(_integer, "long", 1 << 63)),
    _simple("float", (float, int), partial(_float, "float"), as_is=False),
    _simple("double", (float, int), partial(_float, "double")),
)
_PRIMITIVES = {form.branch: form for form in _SIMPLE}

# ---------------------------------------------------------------------- defaults


def raw_default(schema: AvroSchema, given: Any, default: Any) -> Any:
    """Returns what fastavro writes for a default, from the JSON of the schema: bytes are texts there, and the first
    branch of a union is meant; raises `SchemaError` if the defaults of the schema have too many values: each record may
    double them."""
    schema.defaults_left -= 1
    if schema.defaults_left < 0:
        raise unreadable(f"its defaults have more than {MOST_DEFAULTS} values")
    node = schema.meant(given)
    if isinstance(node, list):
        first = schema.meant(node[0])
        found = raw_default(schema, node[0], default)
        kind = kind_of(first)
        return None if kind == "null" else (first["name"] if kind in NAMED else kind, found)
    kind = kind_of(node)
    if kind in ("bytes", "fixed"):
        return default.encode("latin-1")
    if kind == "array":
        return [raw_default(schema, node["items"], one) for one in default]
    if kind == "map":
        return {key: raw_default(schema, node["values"], one) for key, one in default.items()}
    if kind in RECORDS:
        fields = {one["name"]: one for one in node["fields"]}
        whole = {**{name: one["default"] for name, one in fields.items() if name not in default}, **default}
        return {name: raw_default(schema, one["type"], whole[name]) for name, one in fields.items()}
    return float(default) if kind in ("float", "double") else default


def without_names(value: Any, of_bytes: Callable[[bytes], Any] = bytes) -> Any:
    """Returns what fastavro writes, without the names of the branches of unions."""
    if isinstance(value, tuple):
        return without_names(value[1], of_bytes)
    if isinstance(value, dict):
        return {name: without_names(one, of_bytes) for name, one in value.items()}
    if isinstance(value, list):
        return [without_names(one, of_bytes) for one in value]
    return of_bytes(value) if isinstance(value, bytes) else value
