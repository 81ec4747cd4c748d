# SPDX-License-Identifier: GPL-2.0-only
# A storm of forks and execs: 16 shells, each of which starts 12 programs one after another.
shell=0
while [ $shell -lt 16 ]; do
    (
        n=0
        while [ $n -lt 12 ]; do
            env true
            n=$((n + 1))
        done
    ) &
    shell=$((shell + 1))
done
wait
