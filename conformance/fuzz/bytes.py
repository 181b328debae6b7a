"""Random changes of bytes."""

from __future__ import annotations

from random import Random


def mutated(
    random: Random, data: bytes, other: bytes = b"", *, keep: int = 0, size_max: int | None = None
) -> bytes:
    """Change bytes here and there: set, drop, insert, cut, flip a bit, or go on as ``other``.

    The first ``keep`` bytes stay, and no more than ``size_max`` come back.
    """
    out = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        at = random.randrange(keep, len(out) + 1)
        match random.randint(0, 6) if at < len(out) else 1:
            case 0:
                out[at] = random.choice((0, 1, 2, 0x7F, 0x80, 0xFF, random.randint(0, 255)))
            case 1:
                out.insert(at, random.randint(0, 255))
            case 2:
                del out[at]
            case 3:
                del out[at:]
            case 4:
                out[at:] = other[random.randrange(len(other) + 1) :]
            case 5:
                # A length prefix of old versions: the four bytes of an int32.
                out[at : at + 4] = random.choice((-1, -2, 1 << 30, 2**31 - 1)).to_bytes(
                    4, "big", signed=True
                )
            case _:
                out[at] ^= 1 << random.randint(0, 7)
    return bytes(out[:size_max])
