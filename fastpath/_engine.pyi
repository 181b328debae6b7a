"""The native codec: the compiled twins of the methods of ``message.Message``."""

from collections.abc import Callable
from typing import Any

from kraftspec.fastpath.message import Buffer, Message, Part
from kraftspec.fastpath.plan import Layouts

DEPTH_MAX: int

class Programs:
    """The compiled plans of one message, each made when its version is first asked for."""

    def __init__(
        self, structs: tuple[type, ...], layouts: Layouts, plans: dict[int, int]
    ) -> None: ...
    def compile(self, version: int) -> None:
        """Compile the plan of a version; raises what says why it cannot be."""

def bind(
    codec_class: type,
    struct_class: type,
    uuid_class: type,
    zero_uuid: object,
    standard_uuid: type,
    is_default: Callable[..., bool],
    flatten: Callable[..., Any],
    methods: tuple[Callable[..., Any], ...],
) -> None:
    """Tell the engine what it needs of the modules above it, which it does not import."""

def try_encode(message: object, version: int) -> bytes | None:
    """Return the bytes of a message, or None where the engine gives up."""

def try_decode(cls: type, data: Buffer, version: int) -> Any:
    """Return the message that is all of ``data``, or None where the engine gives up."""

def encode(self: Message, version: int) -> bytes:
    """See ``Message.encode``."""

def encode_parts(self: Message, version: int) -> list[Part]:
    """See ``Message.encode_parts``."""

def encode_into(self: Message, buffer: Any, offset: int, version: int) -> int:
    """See ``Message.encode_into``."""

def decode(
    cls: type, data: Buffer, version: int, *, lenient: bool = False, copy: bool = False
) -> Any:
    """See ``Message.decode``."""

def decode_from(
    cls: type, data: Buffer, offset: int, version: int, *, lenient: bool = False, copy: bool = False
) -> tuple[Any, int]:
    """See ``Message.decode_from``."""
