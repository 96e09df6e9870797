#!/usr/bin/env bash
# Creates the environments of the benchmarks' peers, each in its own folder beside this file:
#   .venv-brian2  Brian2 2.9 (its C++ standalone mode needs a C++ compiler)
#   .venv-nest    NEST 3.10
#   .venv-torch   PyTorch 2.13.0, CPU
# Usage: benchmarks/setup.sh [brian2] [nest] [torch]      (without an argument: all of them)
# A second call does nothing: a finished environment carries a stamp with the requirements it was made from.
set -euo pipefail
cd "$(dirname "$0")"
python="${PYTHON:-python3}"

environment() {  # environment NAME REQUIREMENT...
    local name=$1 folder=".venv-$1"
    shift
    if [ -f "$folder/.stamp" ] && [ "$(cat "$folder/.stamp")" = "$*" ]; then
        echo "$folder: ready"
        return
    fi
    echo "$folder: installing $*"
    rm -rf "$folder"
    "$python" -m venv "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
    echo "$*" > "$folder/.stamp"
}

[ $# -gt 0 ] || set -- brian2 nest torch
for peer in "$@"; do
    case "$peer" in
        # setuptools: Brian2 asks it for the C++ compiler's name.
        brian2) environment brian2 "brian2==2.9.*" "numpy<2.4" "setuptools<81" ;;
        nest) environment nest "nest-simulator==3.10.*" "numpy" ;;
        # The CPU build is a file of this exact version; a range would bring gigabytes of CUDA packages.
        torch) environment torch "torch==2.13.0" "numpy" ;;
        *) echo "unknown peer: $peer (brian2, nest, torch)" >&2; exit 2 ;;
    esac
done
