# SPDX-License-Identifier: MIT
# tools/need.sh -- sourced by try.sh and test.sh: installs from the distribution's packages whatever is missing.
# need PACKAGE... installs those that dpkg does not know as installed; on other systems it only names them.
need() {
    missing=
    for package in "$@"; do
        if command -v dpkg-query >/dev/null 2>&1; then
            dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $package"
        fi
    done
    if ! command -v dpkg-query >/dev/null 2>&1; then
        echo "This is no Debian-like system; the build needs what these packages hold: $*" >&2
        return 0
    fi
    [ -n "$missing" ] || return 0
    echo "Installing:$missing" >&2
    sudo=
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null 2>&1 || { echo "Please install (as root): apt-get install$missing" >&2; return 1; }
        sudo=sudo
    fi
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086
    $sudo apt-get install -y --no-install-recommends $missing >/dev/null 2>&1 ||
        { $sudo apt-get update >&2 && $sudo apt-get install -y --no-install-recommends $missing >&2; }
}
# What building the library and the program takes.
need_build() { need gcc libc6-dev cmake ninja-build pkg-config libpcre2-dev libutf8proc-dev zlib1g-dev libjansson-dev libedit-dev libmicrohttpd-dev libgnutls28-dev opencl-c-headers; }
jobs=$(nproc 2>/dev/null || echo 2)
