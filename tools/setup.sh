#!/bin/sh
# Make a virtual environment and install mercer into it, from nothing but Python,
# a C++ compiler and make. Usage: tools/setup.sh VENV EXTRAS, e.g. .venv plot,progress
set -eu
venv=$1
extras=$2

fail() {
    printf '\nmercer cannot be set up: %s\n' "$1" >&2
    exit 1
}

find_python() {
    for candidate in "${PYTHON:-python3}" python3 python3.14 python3.13 python3.12 python3.11; do
        if command -v "$candidate" >/dev/null 2>&1 &&
            "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
            echo "$candidate"
            return
        fi
    done
    fail "Python 3.11 or newer is needed and none was found.
Install one (Debian, Ubuntu: apt-get install python3 python3-venv), or name it:
make PYTHON=/path/to/python3"
}

find_compiler() {
    for candidate in "${CXX:-c++}" c++ g++ clang++; do
        if command -v "$candidate" >/dev/null 2>&1; then
            return
        fi
    done
    fail "a C++20 compiler is needed and none was found.
Install one (Debian, Ubuntu: apt-get install g++; macOS: xcode-select --install), or
name it: make CXX=/path/to/g++"
}

install() {
    "$venv/bin/python" -m pip install --disable-pip-version-check --quiet "$@"
}

if [ ! -x "$venv/bin/python" ] || ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    python=$(find_python)
    echo "Making a virtual environment in $venv with $("$python" --version)"
    rm -rf "$venv"
    "$python" -m venv "$venv" || fail "python -m venv failed.
On Debian and Ubuntu it is a package of its own: apt-get install python3-venv"
fi
find_compiler

echo "Installing the build tools"
# Without build isolation the compiled files are kept from one run to the next.
install 'scikit-build-core>=0.11' 'nanobind>=2.4' cmake ninja ||
    fail "pip could not install the build tools.
Check that the package index can be reached (a proxy? see 'pip config list')."

echo "Building mercer and installing it with the extras: $extras"
install --no-build-isolation ".[$extras]" || fail "the build failed.
The message of the compiler or of pip is above; gcc 10 or clang 12 are new enough."
