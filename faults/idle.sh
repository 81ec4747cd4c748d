# SPDX-License-Identifier: GPL-2.0-only
# A machine with nothing to do: what the loader takes of a CPU in a minute, all its threads.
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
