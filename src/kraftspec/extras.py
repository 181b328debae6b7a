"""Which extra brings a package that is missing; importing it loads nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

# Module → the extra that brings it.
EXTRAS = {
    "prompt_toolkit": "node", "prometheus_client": "node", "cryptography": "node",
    "ruamel": "proxy",
    "jinja2": "codegen", "jsonschema": "codegen", "markupsafe": "codegen",
    "watchfiles": "codegen",
    "kraftspec_vectors": "vectors",
    "pyarrow": "arrow", "fsspec": "arrow", "pyspark": "spark",
}  # fmt: skip


@contextmanager
def extras_named(extras: Mapping[str, str] = EXTRAS) -> Iterator[None]:
    """Say of a package that is missed inside which of the extras brings it.

    Raises:
        ModuleNotFoundError: one that an extra brings is missing; or another, as it was raised.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        extra = extras.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        raise ModuleNotFoundError(
            f"this needs {error.name}, which is not installed: pip install 'kraftspec[{extra}]'",
            name=error.name,
        ) from error
