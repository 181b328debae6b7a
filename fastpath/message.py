"""What every generated class inherits: encode, decode, JSON, copies without views."""

from __future__ import annotations

import operator
import uuid
from collections.abc import Callable
from functools import cache, update_wrapper
from importlib import import_module
from typing import Any, ClassVar, Literal, Self

import msgspec

from kraftspec.fastpath import native
from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.plan import Layout, Layouts, is_default
from kraftspec.fastpath.types import ZERO_UUID, Uuid

Buffer = bytes | bytearray | memoryview
Part = bytes | memoryview
PART_BYTES_MIN = 4096  # Copying less costs no more than one more entry of a sendmsg.
_Encode = Callable[[Any, Callable[[Any], None]], None]
_Decode = Callable[[bytes | memoryview, int], tuple[Any, int]]


_engine = native.load("_engine")


class Codec:
    """The plans of one message, and the straight-line functions rendered from them.

    ``plans`` maps a version to the index of its layout in ``layouts``. The rendered functions live
    in a module of their own, which the first encode or decode in Python loads. ``programs`` are the
    plans as the native engine runs them (``_engine.pyx``).
    """

    __slots__ = (
        "decoders", "encoders", "layouts", "plans", "programs", "rendered", "structs", "tables",
    )  # fmt: skip

    encoders: dict[int, _Encode]
    decoders: dict[int, _Decode]
    tables: Any

    def __init__(
        self,
        rendered: str,
        structs: tuple[type[Struct], ...],
        layouts: Layouts,
        plans: dict[int, int],
    ) -> None:
        self.rendered = rendered
        self.structs = structs
        self.layouts = layouts
        self.plans = plans
        self.programs = _engine and _engine.Programs(structs, layouts, plans)

    def __getattr__(self, name: str) -> Any:
        # Only reached while the slots are empty: load what belongs into them.
        if name == "tables":
            self.tables = _late("value_tables").Tables(self.layouts, self.structs)
            return self.tables
        if name not in ("encoders", "decoders"):
            raise AttributeError(name)
        module = import_module(self.rendered)
        self.encoders = {version: module.ENCODE[plan] for version, plan in self.plans.items()}
        self.decoders = {version: module.DECODE[plan] for version, plan in self.plans.items()}
        return getattr(self, name)

    def make(self, index: int, fields: dict[str, Any]) -> Any:
        """Make the struct with that index."""
        return self.structs[index](**fields)

    def layout(self, version: int) -> Layout:
        """Return the layout of the message at a version, or refuse the version."""
        try:
            return self.layouts[self.plans[version]]
        except (KeyError, TypeError):
            name = self.structs[0].__name__
            known = f"{min(self.plans)} to {max(self.plans)}" if self.plans else "none"
            raise CodecError(
                ErrorClass.UNSUPPORTED_VERSION, f"{name} has versions {known}, not {version!r}"
            ) from None


class Struct(msgspec.Struct, kw_only=True, gc=False):
    """A struct of a message: typed, mutable, compared by value.

    Not tracked by the cyclic collector: a message is a tree. Views of the input (``records``)
    become bytes when a struct is pickled or copied deeply. A list is equal to a tuple of the same
    elements: ``encode`` takes either, and ``decode`` returns one of them.
    """

    def __eq__(self, other: object) -> bool:
        equal = super().__eq__(other)  # First: it is ten times as fast, and most are equal.
        if equal is NotImplemented or equal:
            return equal
        return all(
            _is_same(getattr(self, name), getattr(other, name)) for name in self.__struct_fields__
        )

    __hash__ = None  # type: ignore[assignment] # It is mutable.

    def __reduce__(self) -> tuple[Any, ...]:
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        for name, value in fields.items():
            if isinstance(value, memoryview):
                fields[name] = bytes(value)
        return _rebuild, (type(self), fields)


def _is_same(a: Any, b: Any) -> bool:
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_is_same, a, b))
    return bool(a == b)


def _rebuild(cls: type[Struct], fields: dict[str, Any]) -> Struct:
    return cls(**fields)


class Message(Struct, kw_only=True, gc=False):
    """A message: a request, a response, a header, a record or a file of the protocol."""

    API_KEY: ClassVar[int | None] = None
    TYPE: ClassVar[str]
    VALID_VERSIONS: ClassVar[range]
    FLEXIBLE_VERSIONS: ClassVar[range]
    CODEC: ClassVar[Codec]

    def encode(self, version: int) -> bytes:
        """Return the message's bytes at a version; ``CodecError`` names the field refused."""
        encoders = self.CODEC.encoders
        parts: list[Part] = []
        try:
            encoders[version](self, parts.append)
            return b"".join(parts)
        except Exception:
            return self._explained(version)

    def encode_parts(self, version: int) -> list[Part]:
        """Return the bytes that ``encode`` joins, in pieces for ``sendmsg`` or ``writelines``.

        A bytes or records field of ``PART_BYTES_MIN`` bytes or more is a piece of its own, and not
        a copy: what it is a view of must not change before the pieces are written. ``CodecError``
        as for ``encode``.
        """
        encoders = self.CODEC.encoders
        parts: list[Part] = []
        try:
            encoders[version](self, parts.append)
            return _gathered(parts)
        except Exception:
            return [self._explained(version)]

    def _explained(self, version: int) -> bytes:
        """Encode by the interpreter: the optimistic code only detects an error, this names it."""
        codec = self.CODEC
        layout = codec.layout(version)
        encoder = _late("interpret").Encoder(codec.layouts, codec.structs)
        return encoder.struct(layout, self)  # type: ignore[no-any-return]  # loaded late

    def encode_into(self, buffer: bytearray | memoryview, offset: int, version: int) -> int:
        """Write the message into ``buffer`` from ``offset`` on; return the offset after it.

        A buffer that is too small, or not of writable bytes, is a ``CodecError``, as is what
        ``encode`` refuses; it is then as it was.
        """
        offset = operator.index(offset)
        encoded = self.encode(version)
        end = offset + len(encoded)
        if offset < 0 or end > len(buffer):
            raise CodecError(
                ErrorClass.LENGTH_TOO_LONG,
                f"{len(encoded)} bytes do not fit from byte {offset} of a buffer of {len(buffer)}",
            )
        try:
            buffer[offset:end] = encoded
        except (TypeError, ValueError):
            raise CodecError(
                ErrorClass.WRONG_TYPE,
                f"a bytearray or a writable memoryview of bytes wanted, not {buffer!r:.80}",
            ) from None
        return end

    @classmethod
    def decode(
        cls, data: Buffer, version: int, *, lenient: bool = False, copy: bool = False
    ) -> Self:
        """Read a whole message: every byte of ``data`` belongs to it, or it is refused.

        ``lenient`` lets pass what Kafka's own decoder does (trailing bytes, varints longer than
        needed, invalid UTF-8, disordered tags). ``records`` are views of ``data`` unless ``copy``.
        """
        flat = _flat(data)
        value, end = cls._read(flat, 0, version, lenient, whole=True)
        if end != len(flat) and not lenient:
            raise CodecError(
                ErrorClass.TRAILING, f"{len(flat) - end} bytes follow the message", offset=end
            )
        if copy:
            _own(value)
        return value

    @classmethod
    def decode_from(
        cls, data: Buffer, offset: int, version: int, *, lenient: bool = False, copy: bool = False
    ) -> tuple[Self, int]:
        """Read a message that starts at ``offset``; return it and the offset after it."""
        offset = operator.index(offset)
        flat = _flat(data)
        if not 0 <= offset <= len(flat):
            raise CodecError(
                ErrorClass.TRUNCATED, f"the input has {len(flat)} bytes", offset=max(offset, 0)
            )
        value, end = cls._read(flat, offset, version, lenient, whole=False)
        if copy:
            _own(value)
        return value, end

    @classmethod
    def _read(
        cls, data: bytes | memoryview, offset: int, version: int, lenient: bool, *, whole: bool
    ) -> tuple[Self, int]:
        """Read by the rendered code; what it does not take (or ``lenient``) by the interpreter."""
        if not lenient:
            decoders = cls.CODEC.decoders
            try:
                value, end = decoders[version](data, offset)
                if end == len(data) or (end < len(data) and not whole):
                    return value, end
            except Exception:
                pass
        return cls._interpret(data, offset, version, lenient)

    @classmethod
    def _interpret(
        cls, data: bytes | memoryview, offset: int, version: int, lenient: bool
    ) -> tuple[Self, int]:
        codec = cls.CODEC
        layout = codec.layout(version)
        decoder = _late("interpret").Decoder(
            data, offset, codec.layouts, codec.make, lenient=lenient
        )
        return decoder.struct(layout), decoder.at

    def to_json(self, version: int) -> dict[str, Any]:
        """Return the message in the shape of Kafka's JSON converters (docs: conformance).

        Refuses what ``encode`` refuses, but for tags that only a lenient decode lets in.
        """
        codec = self.CODEC
        try:
            # The rules stand in the encoder alone. The native one takes some 4 % of the time here.
            self.encode(version)
            value: dict[str, Any] = codec.tables.writer(codec.plans[version])(self)
            return value
        except CodecError as error:
            tags = error.path.endswith("_unknownTaggedFields")
            if not tags or version not in self.FLEXIBLE_VERSIONS:
                raise
        layout = codec.layout(version)
        value = _late("values").to_json(codec.layouts, layout, self)
        return value

    @classmethod
    def from_json(cls, value: object, version: int, *, lenient: bool = False) -> Self:
        """Read the shape that ``to_json`` writes; ``CodecError`` names the field refused.

        ``lenient`` passes over names that no version has, as Kafka's converters do.
        """
        codec = cls.CODEC
        try:
            message: Self = codec.tables.reader(codec.plans[version])(value)
            return message
        except Exception:
            layout = codec.layout(version)
        message = _late("values").from_json(
            codec.layouts, layout, value, codec.make, lenient=lenient
        )
        return message

    @classmethod
    def header_version(cls, version: int) -> int:
        """Return the version of the request or response header that goes before this message."""
        return _header_version(cls, version)


API_VERSIONS_KEY = 18
CONTROLLED_SHUTDOWN_KEY = 7


def header_version_of(
    kind: str, api_key: int | None, version: int, is_flexible: bool
) -> int | None:
    """Return the version of the header before a message; None for what has no header.

    Requests: 2 when flexible, else 1. Responses: 1 when flexible, else 0. Two exceptions:

    * ApiVersions responses: always 0. Who asks does not know yet which versions the node has, and
      must be able to read the answer of a node that does not know the version asked (KIP-511).
    * ControlledShutdown requests of version 0: 0, which has no client id. Kafka 4.0 removed them.

    Source: ``ApiMessageType.requestHeaderVersion`` and ``responseHeaderVersion``; docs/headers.md.
    """
    if kind == "request":
        if (api_key, version) == (CONTROLLED_SHUTDOWN_KEY, 0):
            return 0
        return 2 if is_flexible else 1
    if kind == "response":
        return 1 if is_flexible and api_key != API_VERSIONS_KEY else 0
    return None


@cache  # Each frame that a node sends or takes has one.
def _header_version(cls: type[Message], version: int) -> int:
    cls.CODEC.layout(version)
    flexible = version in cls.FLEXIBLE_VERSIONS
    header = header_version_of(cls.TYPE, cls.API_KEY, version, flexible)
    if header is None:
        raise CodecError(
            ErrorClass.UNSUPPORTED_VERSION, f"{cls.__name__} is a {cls.TYPE}: it has no header"
        )
    return header


_METHODS = ("encode", "encode_parts", "encode_into", "decode", "decode_from")
_IN_PYTHON = {name: Message.__dict__[name] for name in _METHODS}
_NATIVE: dict[str, Any] = {}


def use_codec(name: Literal["native", "python"]) -> None:
    """Run messages by the native engine or by the pure codec, from the next call on.

    For tests and the adapter: at import the engine is chosen where it was built. ``RuntimeError``
    says why it cannot be.
    """
    if name == "native" and not _NATIVE:
        raise RuntimeError(f"there is no native codec, but {native.describe()}")
    for method, function in (_NATIVE if name == "native" else _IN_PYTHON).items():
        setattr(Message, method, function)


def _bind() -> None:
    """Put the engine's functions in place of the methods, which it falls back on."""
    methods = [getattr(method, "__func__", method) for method in _IN_PYTHON.values()]
    _engine.bind(Codec, Struct, Uuid, ZERO_UUID, uuid.UUID, is_default, _flat, tuple(methods))
    for method in methods:
        compiled = update_wrapper(getattr(_engine, method.__name__), method)
        of_class = method.__name__.startswith("decode")
        _NATIVE[method.__name__] = classmethod(compiled) if of_class else compiled
    use_codec("native")


@cache
def _late(module: str) -> Any:
    """Load what most programs never run: half of the import time of a message class."""
    return import_module(f"kraftspec.fastpath.{module}")


def _gathered(parts: list[Part]) -> list[Part]:
    """Join what is small, and leave what is large."""
    gathered: list[Part] = []
    small: list[Part] = []
    for part in parts:
        if len(part) < PART_BYTES_MIN:
            small.append(part)
            continue
        if small:
            gathered.append(b"".join(small))
            small = []
        gathered.append(part)
    if small:
        gathered.append(b"".join(small))
    return gathered


def _own(value: Any) -> None:
    """Replace the views of the input in a struct by bytes of its own."""
    if isinstance(value, list):
        for item in value:
            _own(item)
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            field = getattr(value, name)
            if isinstance(field, memoryview):
                setattr(value, name, bytes(field))
            else:
                _own(field)


def _flat(data: object) -> bytes | memoryview:
    """Return the input as something that indexes and slices to bytes."""
    if data.__class__ is bytes:
        return data
    try:
        view = memoryview(data)  # type: ignore[arg-type]  # refused below
        return view.cast("B")
    except (TypeError, ValueError, BufferError):
        raise CodecError(
            ErrorClass.WRONG_TYPE, f"contiguous bytes wanted, not {type(data).__name__}", offset=0
        ) from None


if _engine is not None:
    _bind()
