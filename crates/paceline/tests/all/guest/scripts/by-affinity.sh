# SPDX-License-Identifier: GPL-2.0-only
# Without a scheduler in the kernel: six programs on two fast and four slow cores, which differ in name only.
kinds="--core-types 0-1=fast,2-5=slow"
printf '[programs]\ns0 = 3.5\ns1 = 3.1\ns2 = 2.7\ns3 = 2.3\ns4 = 2.0\ns5 = 1.7\n' >six.toml
for n in 0 1 2 3 4 5; do
    ln -s $(readlink -f /bin/sh) s$n
    /tmp/s$n -c 'while :; do :; done' & pids="$pids $!"
done
# How many of the tasks may use so many CPUs, by their masks.
masks() { for p in $pids; do taskset -p $p; done | sed 's/.*: //' | sort | uniq -c | tr -s ' \n' ' '; }
none() { [ ! -e /run/paceline/affinity ]; }
steer() {
    rm -f out err
    $P run min-fair:deviations=0,interval=500ms --by affinity $kinds --profile six.toml "$@" >out 2>err & pid=$!
    await '[ "$(masks)" = "$steered" ]'
}
steered=" 2 3 4 3c "
