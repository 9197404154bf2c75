#!/bin/sh
# What the tests in a browser need: Playwright, a Chromium of the system, axe-core.
# Usage: tools/browser.sh VENV FOLDER, e.g. .venv build/browser; axe.min.js is put there.
set -eu
venv=$1
folder=$2

fail() {
    printf '\nThe tests in a browser cannot run: %s\n' "$1" >&2
    exit 1
}

found=${MERCER_CHROMIUM:-}
for candidate in chromium chromium-browser google-chrome google-chrome-stable; do
    [ -n "$found" ] || found=$(command -v "$candidate" || true)
done
if [ -z "$found" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get install -y -q chromium && found=$(command -v chromium || true)
fi
[ -n "$found" ] || fail "no Chromium was found.
Install one (Debian: apt-get install chromium), or name it: make test-browser MERCER_CHROMIUM=/path"

"$venv/bin/python" -m pip install --disable-pip-version-check --quiet 'playwright>=1.40' ||
    fail "pip could not install playwright."

if [ ! -f "$folder/axe.min.js" ]; then
    command -v npm >/dev/null || fail "npm is needed to fetch axe-core (Debian: apt-get install npm)."
    mkdir -p "$folder"
    (cd "$folder" && npm pack --silent axe-core >/dev/null &&
        tar -xzf axe-core-*.tgz package/axe.min.js && mv package/axe.min.js . &&
        rm -rf package axe-core-*.tgz) || fail "npm could not fetch axe-core."
fi
