# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# The beginning of scripts for a system with systemd: an end with a reason, and what is in charge.
set -uo pipefail
cd /srv
# shellcheck disable=SC2034 # scripts install it
deb=$(echo paceline_*.deb)
fail() { echo "failed: $*"; journalctl -q -u paceline -n 15 --no-pager -o cat; journalctl -q -k -g 'audit|seccomp' --no-pager -o cat | tail -n 5; exit 1; }
await() { for ((i = 0; i < 600; i++)); do eval "$1" && return; sleep 0.1; done; fail "never: $1"; }
state() { cat /sys/kernel/sched_ext/state; }
ops() { (cd /sys/kernel/sched_ext && cat root/ops) 2>/dev/null; }
pid() { systemctl show -P MainPID paceline; }
# A call that the service may not make ends it, instead of an error that it may get over.
strict() {
    mkdir -p /run/systemd/system/paceline.service.d
    printf '[Service]\nSystemCallErrorNumber=kill\n' >/run/systemd/system/paceline.service.d/strict.conf
    systemctl daemon-reload
}
# Files of the system, without those of processes and of dpkg's own log and database.
files() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run/systemd -o -path /run/udev -o -path /tmp \
        -o -path /srv -o -path /var/log -o -path /var/tmp -o -path /var/lib/dpkg -o -path /var/cache/debconf \
        -o -path /var/lib/systemd -o -path /run/log -o -path /run/credentials \) -prune -o -print | LC_ALL=C sort
}
