#!/bin/sh
# The compiled modules for ARMv8: built by a cross compiler, loaded by Debian's Python for arm64 under
# an emulator, judged by golden vectors. Everything is kept below build/aarch64; this machine's own
# packages stay as they are. It needs Debian 12 or newer, and what arm_crc.sh installs.
set -eu

cd "$(dirname "$0")/.."
tests/fastpath/arm_crc.sh
host=$PWD/.venv/bin/python
home=$PWD/build/aarch64
version=$("$host" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
rm -rf "$home"
mkdir -p "$home/apt/lists/partial" "$home/cache/archives/partial" "$home/debs" "$home/sysroot" "$home/site" "$home/tree"
touch "$home/apt/status"

apt() {
    apt-get -q -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Dir::State="$home/apt" \
        -o Dir::State::status="$home/apt/status" -o Dir::Cache="$home/cache" "$@"
}
apt update
(cd "$home/debs" && apt download "python$version-minimal" "libpython$version-minimal" "libpython$version-stdlib" \
    "libpython$version-dev" libc6 libgcc-s1 libstdc++6 libexpat1 zlib1g libffi8 libbz2-1.0 liblzma5 libuuid1 libcrypt1)
for package in "$home"/debs/*.deb; do dpkg-deb -x "$package" "$home/sysroot"; done

"$host" -m uv pip install --quiet --python-platform aarch64-manylinux_2_28 --python-version "$version" \
    --only-binary :all: --target "$home/site" msgspec click rich
# What builds the modules is no part of .venv.
"$host" -m uv pip install --quiet -c constraints.txt --target "$home/host" cython setuptools
git archive HEAD | tar -x -C "$home/tree"
(
    cd "$home/tree"
    PYTHONPATH="$home/host" CC="aarch64-linux-gnu-gcc -I$home/sysroot/usr/include/python$version -I$home/sysroot/usr/include" \
        LDSHARED="aarch64-linux-gnu-gcc -shared" \
        "$host" setup.py -q build_ext --build-lib "$home/built" --build-temp "$home/temp"
)
for module in "$home"/built/kraftspec/fastpath/*.so; do
    name=$(basename "$module")
    cp "$module" "$home/tree/fastpath/${name%%.*}.cpython-$(echo "$version" | tr -d .)-aarch64-linux-gnu.so"
done

cat > "$home/python" <<END
#!/bin/sh
PYTHONPATH=$home/tree/src:$home/site exec qemu-aarch64 -L $home/sysroot $home/sysroot/usr/bin/python$version "\$@"
END
chmod +x "$home/python"
"$home/python" -c 'import platform; assert platform.machine() == "aarch64"'
"$home/python" -m kraftspec --version | grep 'codec: native'
.venv/bin/kraftspec conform run --exec "$home/python -m kraftspec adapter" --timeout 600 \
    --filter kafka/VoteRequest --filter kafka/FetchResponse --filter kafka/MetadataResponse
