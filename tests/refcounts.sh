#!/usr/bin/env bash
# Run tests under a debug interpreter and compare the total of all reference counts before and after
# each: tests/refcounts.sh [pytest arguments]. msgspec is built for that interpreter too, or the
# counts that it takes and ours gives back would not be the same ones.
set -euo pipefail
cd "$(dirname "$0")/.."
debug=${DEBUG_PYTHON:-python3.11-dbg}
out=.cache/refcounts

command -v "$debug" > /dev/null || {
    echo "There is no $debug. Install it: sudo apt-get install python3.11-dbg libpython3.11-dev python3.11-venv" >&2
    echo "(or name another debug interpreter: DEBUG_PYTHON=…)" >&2
    exit 1
}
if ! test -e "$out/.ready" || test constraints.txt -nt "$out/.ready"; then
    rm -rf "$out"
    "$debug" -m venv "$out"
    "$out/bin/pip" install --quiet --disable-pip-version-check -c constraints.txt --no-binary msgspec \
        msgspec cython setuptools pytest pytest-benchmark hypothesis pyarrow isal cramjam lz4 \
        backports.zstd click rich jinja2 jsonschema watchfiles aiokafka kafka-python
    touch "$out/.ready"
fi
"$out/bin/python" setup.py -q build_ext --inplace --build-temp "$out/temp"
PYTHONPATH=src exec "$out/bin/python" -W ignore -m pytest -q -p tests.leaks -p no:cacheprovider \
    -o addopts="--import-mode=importlib --strict-markers --benchmark-disable" -m "not kafka" "$@"
