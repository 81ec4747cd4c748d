# SPDX-License-Identifier: GPL-2.0-only
# What was recorded is kept, whatever ends it: Ctrl-C, a full disk, a lack of rights.
replayed() {
    $P compare --on sim --machine icount-1 --policy default --workload $1 --report $1.html \
        >$1.out 2>$1.err || fail "$1: $(cat $1.err)"
}
$P record -o ctrl-c -- hackbench -g 1 -l 300 >/dev/null 2>err & pid=$!
await '[ "$(cat .tmp* 2>/dev/null | wc -c)" -gt 20000 ]'
kill -INT $pid
wait $pid || fail "its command's status was 0, and it gave $?"
grep -q 'ctrl-c: .* events in' err || fail "what it said: $(cat err)"
replayed ctrl-c
grep -q 'cut off' ctrl-c.err && fail "it has an end"

$P record -o whole --for 1h 2>err & pid=$!
await '[ "$(cat .tmp* 2>/dev/null | wc -c)" -gt 1000 ]'
kill -INT $pid
wait $pid; status=$?; [ $status = 130 ] || fail "no status but its own: $status"
grep -q 'whole: .* events in' err && [ -s whole ] || fail "what it said: $(cat err)"

mkdir small; mount -t tmpfs -o size=48k none small
$P record -o small/trace -- hackbench -g 1 -l 300 >/dev/null 2>err
status=$?; [ $status = 1 ] || fail "a full disk: $status"
grep -q 'ends early' err || fail "what it said: $(cat err)"
cp small/trace full
replayed full
grep -q 'cut off' full.err || fail "it has no end: $(cat full.err)"
echo before >small/trace; head -c 1048576 /dev/zero >small/rest 2>err
$P record -o small/trace -- true 2>err && fail "there is no room: $(cat err)"
grep -q 'cannot write small/trace: No space left' err || fail "what it said: $(cat err)"
[ "$(cat small/trace)" = before ] || fail "the file is gone"
[ "$(ls -A small | wc -l)" = 2 ] || fail "left: $(ls -A small)"
umount small

chmod 755 $(dirname $P)
mkdir -m 777 open; cd open
echo before >there; chmod 666 there
su nobody -s /bin/sh -c "$P record --calls -o there -- true" 2>err
status=$?; [ $status = 2 ] || fail "no rights: $status"
[ $(wc -l <err) = 1 ] && grep -q 'lacks CAP_SYS_ADMIN' err || fail "said: $(cat err)"
[ "$(cat there)" = before ] || fail "the file is gone"
su nobody -s /bin/sh -c "$P record -o there -- sh -c 'sleep 0.1; exit 3'" 2>err
status=$?; [ $status = 3 ] || fail "its command's status was 3, and it gave $status: $(cat err)"
grep -q 'so the recording is coarse' err || fail "said: $(cat err)"
replayed there
grep -q 'coarse: sampled from procfs' there.out || fail "it does not say so: $(cat there.out)"
