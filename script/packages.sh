# SPDX-License-Identifier: GPL-2.0-only
# Functions for scripts that need packages of Debian. A list of them has entries NAME|CHECK: Debian's name, and a check
# for it that works without Debian.
# shellcheck shell=bash

# Prints the missing packages of a list.
missing() {
    local entry
    for entry in "$@"; do
        if ! bash -c "${entry#*|}" >/dev/null 2>&1; then
            printf '%s\n' "${entry%%|*}"
        fi
    done
}

is_debian() {
    [[ -r /etc/os-release ]] && grep -qE '^ID(_LIKE)?=.*debian' /etc/os-release &&
        command -v apt-get >/dev/null
}

install() {
    export DEBIAN_FRONTEND=noninteractive
    say "installing $*"
    apt-get -q update >&2 && apt-get -q install -y --no-install-recommends "$@" >&2
}
