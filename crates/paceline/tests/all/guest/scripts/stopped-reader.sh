# SPDX-License-Identifier: GPL-2.0-only
# A pager that is not scrolled, with a full pipe: neither the time nor a signal waits for it, and lines stay whole.
mkfifo lines
yes "" | head -c 65536 >blank
for how in "--for 2s" ""; do
    sh -c 'kill -STOP $$; exec cat' <lines >got & reader=$!
    exec 3>lines
    # Page by page: else the pipe may be full before that.
    dd if=blank bs=4096 >&3 2>/dev/null
    $P run fifo --json --stats 100ms $how >&3 2>err 3>&- & pid=$!
    await '[ "$(state)" = enabled ]'
    [ "$how" ] || { sleep 1; kill -INT $pid; }
    await '[ "$(state)" = disabled ]'
    exec 3>&-
    kill -CONT $reader
    wait $pid
    wait $reader
    grep -q '"ended":' got || fail "$how: $(tail -n 1 got)"
    [ $(grep -c . got) -gt 2 ] || fail "$how: $(grep . got)"
    grep . got | grep -v '^{.*}$' && fail "$how: a line was cut"
done; true
