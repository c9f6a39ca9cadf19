#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/debian.sh FOLDER -- what a stranger does on a bare Debian 12, in a chroot that is made in FOLDER (as root, with debootstrap and
# the network; kept for the next time): builds from source without cmocka as README has it, makes the package there, installs it, reads a
# manual page, completes in bash, generates text, builds a program with the development package, and takes all off again.
set -eu
[ $# -eq 1 ] || { echo "usage: tests/debian.sh FOLDER" >&2; exit 2; }
cd "$(dirname "$0")/.."
root=$1
[ -e "$root/etc/debian_version" ] || debootstrap --variant=minbase bookworm "$root" >&2
mkdir -p "$root/proc" "$root/src"
mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
trap 'umount "$root/proc"' EXIT
rm -rf "$root/src/quern"
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$(mkdir -p "$root/src/quern" && echo "$root/src/quern")"
cat >"$root/src/try.sh" <<'END'
set -eu
export DEBIAN_FRONTEND=noninteractive
say() { echo "== $*"; }
apt-get update -qq
install() { apt-get install -y -qq --no-install-recommends "$@" >/tmp/apt.log 2>&1 || { cat /tmp/apt.log; exit 1; }; }
install gcc libc6-dev cmake make pkg-config libpcre2-dev libutf8proc-dev zlib1g-dev libjansson-dev libedit-dev dpkg-dev file
if dpkg -s libcmocka-dev >/dev/null 2>&1; then apt-get purge -y -qq libcmocka-dev libcmocka0 >/dev/null; fi

say "a build without cmocka, as README has it"
cd /src/quern
cmake -B build -DCMAKE_INSTALL_PREFIX=/usr | tee /tmp/cmake.log | grep cmocka
cmake --build build -j "$(nproc)" >/tmp/build.log 2>&1 || { tail -n 50 /tmp/build.log; exit 1; }
build/quern run models/shakespeare.gguf "ROMEO:" -n 8 --temp 0

say "the package"
(cd build && cpack -G DEB >/tmp/cpack.log 2>&1) || { cat /tmp/cpack.log; exit 1; }
for package in build/*.deb; do dpkg-deb -f "$package" Package Version Depends; done

say "installed where no compiler is"
apt-get purge -y -qq gcc libc6-dev cmake libpcre2-dev libutf8proc-dev zlib1g-dev libjansson-dev libedit-dev >/dev/null 2>&1
apt-get autoremove -y -qq --purge >/dev/null 2>&1
install man-db bash-completion ./build/quern_*.deb
quern --version
quern run models/shakespeare.gguf "JULIET:" -n 8 --temp 0
MANWIDTH=80 man quern-run | sed -n 1,12p
man -w quern-export-lora
ldconfig -p | grep libquern

say "completion in an interactive bash"
cd models
complete() { # LINE: what follows two tabs
    printf '%s\t\t\n\n' "$1" | TERM=dumb bash --norc -i -c '. /usr/share/bash-completion/bash_completion; exec bash --rcfile /usr/share/bash-completion/bash_completion -i' 2>&1 | tr -d '\a\r'
}
complete "quern exp" | grep -q "quern export-lora " || { echo "no command is completed"; exit 1; }
complete "quern run --mirostat-e" | grep -q -- "--mirostat-ent " || { echo "no option is completed"; exit 1; }
complete "quern inspect sh" | grep -q "quern inspect shakespeare.gguf " || { echo "no file is completed"; exit 1; }
complete "quern run --kv-type IQ" | grep -q -- "--kv-type IQ4_NL " || { echo "no value is completed"; exit 1; }
echo "commands, options, files and values"

say "a program with the development package"
cd /src/quern
install gcc libc6-dev pkg-config ./build/libquern-dev_*.deb
cc examples/generate.c -o /tmp/generate $(pkg-config --cflags --libs quern)
/tmp/generate models/shakespeare.gguf "ROMEO:" 8

say "taken off"
apt-get purge -y -qq quern libquern-dev >/dev/null 2>&1
left=$(find /usr -name '*quern*' | head)
[ -z "$left" ] || { echo "left: $left"; exit 1; }
echo "nothing is left"
END
chroot "$root" sh /src/try.sh
