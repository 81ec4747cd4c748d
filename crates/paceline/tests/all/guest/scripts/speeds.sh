# SPDX-License-Identifier: GPL-2.0-only
# Speeds come from counters, a profile or memory. A counter that every CPU has stands in for that of instructions: read
# by the policy and by the program at switches.
echo '[programs]
nobody = 2' >nobody.toml
kinds="--core-types 0=fast,1=slow"
for one in 1 2 3; do spin; done
for by in either switches; do
    $P run min-fair:interval=500ms,memo=on $kinds --counter cpu-clock --counted-by $by --memo memo.toml \
        --profile nobody.toml --json --stats 1s --for 6s >out 2>err || fail "$by: $?"
    grep -q 'counters: cpu-clock on 0-1' err || fail "$by: what is counted"
    grep -q 'nobody.toml: nothing that runs is called nobody' err || fail "$by: no warning"
    grep -q '"speeds_from":{"counters":[345]' out || fail "$by: $(tail -n 2 out)"
    # A nanosecond is as long on each kind, as far as a busy host lets CPUs tick.
    grep -q '"build-id:.*" = \[1\.[0-2][0-9]*, 1\.0\]' memo.toml || fail "$by: $(cat memo.toml)"
    mv memo.toml kept.toml
done
# Without counters: what was measured before, else what the profile says, else nothing is known. This shell may be
# one that runs, and so may a child that it has just forked.
run() { $P run min-fair $kinds --counter off --json --stats 1s --for 3s "$@" >out 2>err || fail "$*: $?"; }
run --memo kept.toml
grep -q '"profile":0,"memory":[345]' out || fail "not remembered: $(cat out)"
printf '[programs]\nsh = [2e9, 1e9]' >sh.toml
run --memo kept.toml --profile sh.toml
grep -q '"profile":[345],"memory":0' out || fail "not told: $(cat out)"
run
grep -q '"memory":0,"unknown":[345]' out || fail "known: $(cat out)"
grep -q 'taken for one that gains most' err || fail "what it said"
kill $spinners

refused $P run flsched --memo m;                      grep -q 'such as min-fair' err || fail memo
refused $P run min-fair --profile sh.toml;            grep -q 'are alike' err || fail alike
refused $P run min-fair $kinds --profile none.toml;   grep -q 'none.toml' err || fail none
[ ! -e m ] || fail "a file is left"
