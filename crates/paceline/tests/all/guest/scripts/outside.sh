# SPDX-License-Identifier: GPL-2.0-only
# Schedulers that other programs load: the command itself as one, and programs that fail.
own="exec:$P run flsched"
# Process ids of loaders.
cat >loaders <<'END'
for line in /proc/[0-9]*/cmdline; do
    [ "$(tr '\0' ' ' <$line 2>/dev/null | cut -d ' ' -f 2)" != run ] || echo $line | cut -d / -f 3
done
END
cat >kill-loader <<'END'
sleep 0.5
kill -9 $(sh /tmp/loaders)
sleep 1
END
compare() {
    $P compare --on here "$@" >out 2>err
    status=$?
}
ended() {
    [ $status = "$1" ] || fail "status $status: $(cat err)"
    grep -q "$2" err || fail "no \"$2\" in: $(cat err)"
    [ "$(state)" = disabled ] || fail "it is $(state)"
    [ -z "$(sh loaders)" ] || fail "it still runs: $(sh loaders)"
}

compare --policy "default,$own" --json -- sleep 0.2
ended 0 ''
grep -q '"policy": *"[^"]*run flsched"' out || fail "$(cat out)"

compare --policy 'exec:sh -c "echo torn >&2; exit 3"' -- sleep 0.2
ended 1 'ended with status 3 before it was in charge: torn'

compare --policy 'exec:/none/such' -- sleep 0.2
ended 2 '/none/such is not a program on this machine'

compare --policy "$own" -- sh /tmp/kill-loader
ended 1 'was killed by signal 9 while it was in charge'

$P run fifo >lines 2>&1 & other=$!
await '[ "$(state)" = enabled ]'
[ "$(sh loaders)" = $other ] || fail "loaders: $(sh loaders), not $other"
compare --policy "$own" -- sleep 0.2
[ $status = 2 ] && grep -q 'stop it first' err || fail "status $status beside another: $(cat err)"
[ "$(state)" = enabled ] || fail "the other one is gone"
kill -INT $other
wait $other; status=$?
[ $status = 130 ] || fail "the other one ended with $status"
