#!/bin/sh
# Bring what test_crc_driver.py needs for ARMv8: a cross compiler and an emulator of single programs.
# Debian and Ubuntu have them as packages, which root can install; `make test` calls this when it is
# root. Elsewhere it says what is missing and leaves it at that: those tests are then skipped.
set -eu

command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64 >/dev/null && exit 0

packages="gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086  # Three packages, not one.
    apt-get install -y -qq --no-install-recommends $packages >/dev/null 2>&1 || {
        apt-get update -qq && apt-get install -y -qq --no-install-recommends $packages >/dev/null
    }
else
    echo "The ARMv8 tests of CRC-32C will be skipped. Install: sudo apt-get install $packages" >&2
fi
