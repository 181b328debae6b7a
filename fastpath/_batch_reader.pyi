from collections.abc import Callable

from kraftspec.fastpath.records import BatchHeader, RawRecord, Record

_Inflate = Callable[[int, memoryview, int, int, int], bytes]

def read_header(data: memoryview, position: int, check_crc: bool) -> BatchHeader | None: ...
def read_records(
    view: memoryview, position: int, inflate: _Inflate, size_max: int, ratio_max: int
) -> list[RawRecord] | None: ...
def decode_batch(
    view: memoryview,
    position: int,
    check_crc: bool,
    inflate: _Inflate,
    size_max: int,
    ratio_max: int,
) -> tuple[list[Record], int] | None: ...
def walk(view: memoryview, position: int, check_crc: bool) -> tuple[int, int, int]: ...
