# SPDX-License-Identifier: GPL-2.0-only
# 200 threads that never sleep, half of them devils by a profile: what the control plane and the mover take of a CPU, once
# everybody has a place and while classes stay.
cat >devil <<'C'
#!/bin/sh
while :; do :; done
C
cp devil turtle; chmod +x devil turtle
printf '[programs]\ndevil = 30\nturtle = 0.5\n' >profile.toml
load --profile profile.toml --stats 1s
n=0; while [ $n -lt 100 ]; do
    n=$((n+1))
    ./devil & spinners="$spinners $!"
    ./turtle & spinners="$spinners $!"
done
await 'grep -q "200 threads placed in 4 domains" err'
taken() { cat /proc/$pid/task/*/schedstat | awk '{ ns += $1 } END { printf "%d", ns / 1000 }'; }
sleep 2
before=$(taken)
sleep 10
us=$((($(taken) - before) / 10))
unload
kill $spinners; spinners=
[ $us -gt 0 ] || fail "it took nothing at all"
[ $us -le 10000 ] || fail "it took $us us of a second, more than 1 %"
echo "took $us us of a second"
