# SPDX-License-Identifier: GPL-2.0-only
# An idle machine: the CPU time that the loader's threads take in a minute.
load
sleep 5
taken() { cat /proc/$pid/task/*/schedstat | awk '{ ns += $1 } END { printf "%d", ns / 1000 }'; }
before=$(taken)
sleep 60
us=$(($(taken) - before))
unload
[ $us -gt 0 ] || fail "it took nothing at all"
[ $us -le 60000 ] || fail "it took $us us of a minute, more than 0.1 %"
echo "took $us us"
