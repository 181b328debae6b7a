from collections.abc import Callable

class Table:
    inflated_bytes: int
    def __init__(
        self, data: object, names: tuple[str, ...], values: str, timestamps: str
    ) -> None: ...
    def __len__(self) -> int: ...
    def let_go(self) -> None: ...
    def run(
        self,
        position: int,
        check_crc: bool,
        rows_max: int,
        batches_max: int,
        inflate: Callable[[int, bytes, int, int, int], bytes],
        size_max: int,
        ratio_max: int,
        inflated_bytes_max: int,
    ) -> tuple[str, int, int]: ...
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...
