#!/usr/bin/env bash
# Build the compiled modules with AddressSanitizer and UndefinedBehaviorSanitizer into .cache/sanitize,
# and run tests with them: tests/sanitize.sh [pytest arguments]. Python's own allocator is put aside,
# so that a byte read past any object is seen. Leaks are for tests/leaks.py to find. A module is built
# again when one of its sources is newer.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
out=.cache/sanitize

flags="-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g -O1"
test ! -d "$out/lib" || find "$out/lib" -type f \( ! -name '*.so' -o ! -newer "$0" \) -delete
CFLAGS="$flags" LDFLAGS="$flags" "$python" setup.py -q build_py --build-lib "$PWD/$out/lib" \
    build_ext --build-lib "$PWD/$out/lib" --build-temp "$PWD/$out/temp" \
    --parallel "$(getconf _NPROCESSORS_ONLN)"
# The golden vectors are no part of the package.
for set in kafka kip-595 kip-853 kip-996 captured node; do
    ln -sfn "$PWD/conformance/vectors/$set" "$out/lib/kraftspec/conformance/vectors/$set"
done

preload=$("${CC:-gcc}" -print-file-name=libasan.so)
test -e "$preload" || { echo "There is no libasan. Install it: sudo apt-get install gcc" >&2; exit 1; }
export LD_PRELOAD="$preload" PYTHONMALLOC=malloc PYTHONPATH="$PWD/$out/lib"
export ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1
"$python" - "$out" <<'PYTHON'
import sys
from pathlib import Path

import kraftspec
from kraftspec.fastpath import native

assert sys.argv[1] in kraftspec.__file__, kraftspec.__file__
missing = [path.stem for path in Path("fastpath").glob("_*.pyx") if native.load(path.stem) is None]
sys.exit(f"not built: {missing}" if missing else 0)
PYTHON
# A finding ends the process: what it says must not end in a buffer of pytest's.
exec "$python" -m pytest -q -p no:cacheprovider --capture=sys "$@"
