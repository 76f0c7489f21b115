#!/usr/bin/env bash
# dojoir on an Arm processor (aarch64 Linux), emulated: a Debian python unpacked into a folder, wheels for it, and
# qemu-user. Sets that up in $1 (a temporary folder by default) and runs tests/helpers/on_arm.py there: a dozen kernels,
# `verify`, and the first example. Status 77 where it cannot be set up (no Debian, no network, no emulator).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=${1:-$(mktemp -d)}
[ $# -gt 0 ] || trap 'rm -rf "$work"' EXIT
python=${PYTHON:-python3}

cannot() { echo "cannot run on Arm here: $*"; exit 77; }

qemu=$(command -v qemu-aarch64 || command -v qemu-aarch64-static) || cannot "there is no qemu-user"
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || cannot "this is no Debian"
grep -q bookworm /etc/os-release || cannot "the packages are those of Debian 12"

if [ ! -x "$work/python" ]; then
    mkdir -p "$work"/{lists/partial,cache/archives/partial,root,debs,site}
    : > "$work/status"
    apt=(apt-get -qq -o "Dir::State::lists=$work/lists" -o "Dir::State::status=$work/status"
         -o "Dir::Cache=$work/cache" -o APT::Architecture=arm64 -o APT::Architectures=arm64
         -o APT::Sandbox::User=root -o Acquire::Languages=none)
    "${apt[@]}" update >/dev/null 2>&1 || cannot "no lists of packages"
    (cd "$work/debs" && "${apt[@]}" download libc6 libgcc-s1 libstdc++6 zlib1g libffi8 libexpat1 libbz2-1.0 liblzma5 \
        libssl3 libuuid1 libcrypt1 python3.11-minimal libpython3.11-minimal libpython3.11-stdlib >/dev/null 2>&1) ||
        cannot "no packages"
    for package in "$work"/debs/*.deb; do dpkg-deb -x "$package" "$work/root"; done
    platforms=()
    for version in 2_28 2_27 2_24 2_17; do platforms+=(--platform "manylinux_${version}_aarch64"); done
    "$python" -m pip install -q --disable-pip-version-check --target "$work/site" "${platforms[@]}" \
        --platform manylinux2014_aarch64 --python-version 3.11 --implementation cp --only-binary=:all: \
        lark numpy sympy islpy llvmlite rich 2>/dev/null || cannot "no wheels"
    # Child processes start sys.executable, which has to be what a processor like this one runs.
    printf '#!/bin/sh\nexec env PYTHONHOME=%s QEMU_LD_PREFIX=%s %s -E LD_LIBRARY_PATH= %s "$@"\n' \
        "$work/root/usr" "$work/root" "$qemu" "$work/root/usr/bin/python3.11" > "$work/python"
    printf 'import sys\nsys.executable = "%s"\n' "$work/python" > "$work/site/sitecustomize.py"
    chmod +x "$work/python"
fi
"$python" - "$here" "$work/site" <<'PYTHON'
import shutil
import sys
from pathlib import Path

here, site = Path(sys.argv[1]), Path(sys.argv[2], "dojoir")
shutil.rmtree(site, ignore_errors=True)
for source, target in (("dojoir", site), *((part, site / part) for part in ("grammar", "passes", "codegen", "runtime"))):
    shutil.copytree(here / source, target, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
PYTHON
# Compiled here in seconds, and for the same Python, or each process would do so, emulated.
"$python" -m compileall -q -j 0 "$work/site" "$work/root/usr/lib/python3.11" >/dev/null || true
cd "$here"
PYTHONPATH=$work/site PYTHONDONTWRITEBYTECODE=1 DOJOIR_CACHE="$work/kept" OMP_NUM_THREADS=1 \
    "$work/python" tests/helpers/on_arm.py
