# SPDX-License-Identifier: GPL-2.0-only
# The loader is killed while pages of one of two devils, both of node 0, are being moved: nothing is lost.
cat >devil <<'C'
#!/bin/sh
x=$(head -c 16777216 /dev/zero | tr '\0' a)
touch ready-$$
while :; do :; done
C
chmod +x devil
printf '[programs]\ndevil = 30\n' >profile.toml
devils=; for n in 1 2; do taskset 3 ./devil & devils="$devils $!"; done
await '[ $(ls ready-* 2>/dev/null | wc -l) = 2 ]'
for devil in $devils; do taskset -p f $devil >out; done
policy=dino:gate=off,rate=1
load --profile profile.toml --stats 1s
await 'grep -q "misses: no counters (.*); 1 program told" err'
await 'grep -q "[1-9] MB moved" err'
kill -KILL $pid; wait $pid
await '[ "$(state)" = disabled ]'
progress $devils
kill $devils
