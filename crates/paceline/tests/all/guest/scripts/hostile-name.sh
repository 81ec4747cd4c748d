# SPDX-License-Identifier: GPL-2.0-only
# A task's name commands neither a page nor a terminal.
escape=$(printf '\033')
$P record -o named -- sh -c 'printf "\033[2J<i>&" >/proc/self/comm; sleep 0.01; sleep 0.01' 2>err ||
    fail "$?: $(cat err)"
$P compare --on sim --machine icount-1 --policy default --workload named --report named.html >out 2>&1 ||
    fail "$(cat out)"
grep -q '&lt;i&gt;&amp;' named.html || fail "it is not there"
grep -q '<i>' named.html && fail "it is HTML"
grep -q "$escape" named.html out err && fail "it commands"; true
