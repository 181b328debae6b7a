"""Codecs that run a mutant: the interpreter, the native engine, code rendered from it.

Each one answers with replies of the harness protocol, as an adapter does, but without a process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from kraftspec.codegen import python_target
from kraftspec.codegen.model import Message as Spec
from kraftspec.codegen.plan import LayoutTable, StructPlan, class_name
from kraftspec.conformance.strength.mutants import Mutant
from kraftspec.fastpath import interpret, native
from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.message import Codec, Message
from kraftspec.fastpath.plan import Layouts
from kraftspec.fastpath.values import from_json, to_json

Reply = dict[str, Any]

# Wire types that Kafka's plans do not have: integers read without their sign.
UNSIGNED = {"uint8": ("int8", 8), "uint64": ("int64", 64)}

engine = native.load("_engine")


class _Decoder(interpret.Decoder):
    """The interpreter, which also knows the unsigned types."""

    def value(self, wire: str, *rest: Any, **options: Any) -> Any:
        if wire not in UNSIGNED:
            return super().value(wire, *rest, **options)
        signed, bits = UNSIGNED[wire]
        return self.fixed(signed) % (1 << bits)


class _Encoder(interpret.Encoder):
    """The interpreter, which also knows the unsigned types."""

    def value(
        self, wire: str, nullable: bool, element: Any, value: Any, *, in_tag: bool = False
    ) -> bytes:
        if wire not in UNSIGNED:
            return super().value(wire, nullable, element, value, in_tag=in_tag)
        signed, bits = UNSIGNED[wire]
        if value < 0:
            self.refuse(ErrorClass.INTEGER_OUT_OF_RANGE, f"{value} is negative")
        return self.fixed(signed, value - (1 << bits) if value >> (bits - 1) else value)


class Subject:
    """A mutant of a message at a version, ready to run.

    ``spec`` and ``cls`` are those of the right message. A mutant with its own spec (another
    default) runs with classes rendered from that spec.
    """

    def __init__(self, spec: Spec, cls: type[Message], version: int, mutant: Mutant) -> None:
        self.spec = spec
        self.version = version
        self.mutant = mutant
        self.cls = cls if mutant.message is None else _classes(mutant.message)
        self.structs = self.cls.CODEC.structs
        self.table, self.layouts, self.root = self._table(mutant.plan)
        self.shape_layouts, self.shape = self.layouts, self.layouts[self.root]
        if mutant.shape is not mutant.plan:
            _, self.shape_layouts, root = self._table(mutant.shape)
            self.shape = self.shape_layouts[root]

    def _table(self, plan: StructPlan) -> tuple[LayoutTable, Layouts, int]:
        table = LayoutTable([self.spec.name, *self.spec.structs])
        root = table.plans[self.version] = table.number(plan)
        return table, table.literal(), root

    def make(self, number: int, fields: dict[str, Any]) -> Any:
        """Make a struct."""
        return self.structs[number](**fields)

    def from_json(self, value: Any) -> Any:
        """Read a JSON value as the mutant does."""
        return from_json(self.shape_layouts, self.shape, value, self.make)

    def to_json(self, message: Any) -> Any:
        """Write a message as JSON, as the mutant does."""
        return to_json(self.shape_layouts, self.shape, message)

    # The interpreter.

    def encode(self, value: Any) -> Reply:
        """Answer an encode request by the interpreter."""
        return _answered(lambda: {"hex": self._encoded(self.from_json(value)).hex()})

    def decode(self, data: bytes) -> Reply:
        """Answer a decode request by the interpreter."""
        return _answered(lambda: {"value": self.to_json(self._decoded(data))})

    def _encoded(self, message: Any) -> bytes:
        encoder = _Encoder(self.layouts, self.structs)
        return encoder.struct(self.layouts[self.root], message)

    def _decoded(self, data: bytes) -> Any:
        decoder = _Decoder(data, 0, self.layouts, self.make)
        message = decoder.struct(self.layouts[self.root])
        if decoder.at != len(data):
            raise CodecError(ErrorClass.TRAILING, "bytes follow", offset=decoder.at)
        return message

    # The native engine.

    @contextmanager
    def compiled(self) -> Iterator[Any]:
        """Run the mutant in the engine; yield an object with ``encode`` and ``decode``.

        The interpreter answers what the engine gives up on, as in production. Yields None if the
        engine cannot compile the mutant (an unknown type).
        """
        codec = Codec("", self.structs, self.layouts, {self.version: self.root})
        try:
            codec.programs.compile(self.version)
        except (KeyError, ValueError):
            yield None
            return
        original = self.cls.CODEC
        self.cls.CODEC = codec
        try:
            yield SimpleNamespace(encode=self._native_encode, decode=self._native_decode)
        finally:
            self.cls.CODEC = original

    def _native_encode(self, value: Any) -> Reply:
        def encoded() -> Reply:
            message = self.from_json(value)
            data = engine.try_encode(message, self.version)
            return {"hex": (self._encoded(message) if data is None else data).hex()}

        return _answered(encoded)

    def _native_decode(self, data: bytes) -> Reply:
        def decoded() -> Reply:
            message = engine.try_decode(self.cls, data, self.version)
            return {"value": self.to_json(self._decoded(data) if message is None else message)}

        return _answered(decoded)

    # Straight-line code.

    def rendered(self) -> Any:
        """Return an object with ``encode`` and ``decode`` by code rendered from the mutant.

        The interpreter answers what that code gives up on. None for a type without code.
        """
        try:
            text = python_target.render_codec(self.spec, "a mutant", self.table)
        except KeyError:
            return None
        code = _executed(_without_import(text), {"C0": self.cls})
        put, get = code["ENCODE"][self.root], code["DECODE"][self.root]

        def encoded(value: Any) -> Reply:
            message = self.from_json(value)
            parts: list[bytes] = []
            try:
                put(message, parts.append)
                data = b"".join(parts)
            except Exception:
                data = self._encoded(message)  # Straight-line code rejects by any exception.
            return {"hex": data.hex()}

        def decoded(data: bytes) -> Reply:
            try:
                message, end = get(data, 0)
            except Exception:
                end = -1
            return {"value": self.to_json(message if end == len(data) else self._decoded(data))}

        return SimpleNamespace(
            encode=lambda value: _answered(lambda: encoded(value)),
            decode=lambda data: _answered(lambda: decoded(data)),
        )


def _answered(answer: Callable[[], Reply]) -> Reply:
    try:
        return answer()
    except CodecError as error:
        return {"error": {"class": str(error.error_class), "detail": error.detail}}
    except Exception as error:  # A mutant may raise anything; an adapter would crash.
        return {"error": {"class": "crash", "detail": f"{type(error).__name__}: {error}"}}


def _classes(message: Spec) -> type[Message]:
    """Render the classes of a message, and load them."""
    files = python_target.render_message(message, "a mutant")
    text = next(text for name, text in files.items() if not name.startswith("pure/"))
    cls: type[Message] = _executed(text, {})[class_name(message.name)]
    return cls


def _without_import(text: str) -> str:
    """Drop the import of the classes."""
    return re.sub(r"^from \.\.\w+ import .*$", "", text, count=1, flags=re.MULTILINE)


def _executed(text: str, names: dict[str, Any]) -> dict[str, Any]:
    space = {"__name__": "kraftspec.mutant", "__package__": "kraftspec", **names}
    exec(compile(text, "<a mutant>", "exec", dont_inherit=True), space)
    return space
