# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# The .deb on a bare system: installed, enabled, in charge, killed in each way, upgraded, removed and purged, ROUNDS
# times. Nothing is left of it.
# Starts it again, without a memory of failures.
anew() {
    systemctl stop paceline
    rm -f /var/lib/paceline/state.json
    systemctl start paceline || fail 'no start'
}
packages() { ls /var/lib/dpkg/info; }

# The next version of the same.
dpkg-deb -R "$deb" next
sed -i 's/^Version: .*/&+next/' next/DEBIAN/control
dpkg-deb -b next next.deb >/dev/null
rm -r next

# Commands of the service that are started meanwhile.
hogs=
for n in 1 2; do (while :; do :; done) & hogs="$hogs $!"; done

for ((round = 1; round <= ROUNDS; round++)); do
    files >before
    packages >packages-before
    dpkg -i "$deb" >log 2>&1 || fail "not installed: $(cat log)"
    [ "$(systemctl is-enabled paceline)" = disabled ] || fail 'it is enabled'
    [ "$(systemctl is-active paceline)" = inactive ] || fail 'it runs'
    paceline list >/dev/null || fail 'it does not run'
    strict
    systemctl enable --now paceline 2>log || fail "not enabled: $(cat log)"
    await '[ "$(ops)" = paceline ]'

    # What users may ask, and what they may not.
    as_nobody='setpriv --reuid 65534 --regid 65534 --clear-groups'
    $as_nobody paceline status >out || fail 'no status for a user'
    grep -q '^paceline is in charge' out || fail "$(cat out)"
    $as_nobody paceline switch cas 2>err && fail 'a user switches'
    grep -q 'only root may change' err || fail "$(cat err)"

    paceline switch cas >out || fail 'no switch'
    [ "$(ops)" = cas ] || fail "$(ops) after the switch"
    sed -i 's/^policy = .*/policy = ["flsched", "cas"]/' /etc/paceline/paceline.toml
    systemctl reload paceline || fail 'no reload'
    [ "$(ops)" = flsched ] || fail "$(ops) after the reload"
    echo 'polcy = 3' >>/etc/paceline/paceline.toml
    systemctl reload paceline 2>/dev/null && fail 'a wrong file is taken'
    [ "$(ops)" = flsched ] || fail "$(ops) after the wrong file"
    sed -i '$d' /etc/paceline/paceline.toml
    event() { journalctl -q -u paceline PACELINE_EVENT="$1" PACELINE_POLICY="$2" -n 1 -o cat; }
    await '[ -n "$(event in-charge flsched)" ]'

    # It is killed, crashes, and stands still: each time a policy is back, by the ladder.
    printf '[Unit]\nStartLimitBurst=100\n[Service]\nWatchdogSec=5s\n' >/run/systemd/system/paceline.service.d/test.conf
    systemctl daemon-reload
    systemctl restart paceline || fail 'no restart'
    for signal in KILL ABRT STOP; do
        await '[ "$(state)" = enabled ]'
        before=$(pid)
        kill -$signal "$before"
        await '[ "$(pid)" != 0 ] && [ "$(pid)" != $before ]'
        await '[ "$(systemctl is-active paceline)" = active ]'
        anew
    done
    await '[ "$(state)" = enabled ]'
    # Out of memory.
    before=$(pid)
    echo 1 >/proc/sys/vm/overcommit_memory
    echo 1000 >/proc/"$before"/oom_score_adj
    echo f >/proc/sysrq-trigger
    await '[ "$(pid)" != 0 ] && [ "$(pid)" != $before ]'
    rm -r /run/systemd/system/paceline.service.d
    systemctl daemon-reload
    anew
    await '[ "$(ops)" = flsched ]'

    # An upgrade keeps it in charge and keeps its config file.
    before=$(pid)
    DEBIAN_FRONTEND=noninteractive dpkg -i --force-confold next.deb >log 2>&1 || fail "no upgrade: $(cat log)"
    dpkg-query -W -f '${Version}' paceline | grep -q next || fail 'it is the old version'
    await '[ "$(ops)" = flsched ]'
    [ "$(pid)" != "$before" ] || fail 'the old program goes on'
    [ "$(readlink /proc/"$(pid)"/exe)" = /usr/bin/paceline ] || fail "$(readlink /proc/"$(pid)"/exe) runs"
    [ "$(systemctl is-enabled paceline)" = enabled ] || fail 'it is not enabled after the upgrade'

    # Removed, it keeps its config file for the next time.
    dpkg --remove paceline >log 2>&1 || fail "not removed: $(cat log)"
    [ "$(state)" = disabled ] || fail "$(state) after it was removed"
    dpkg -i "$deb" >log 2>&1 || fail "not installed again: $(cat log)"
    grep -q '^policy = .*flsched' /etc/paceline/paceline.toml || fail 'the config file is another one'
    [ "$(systemctl is-active paceline)" = inactive ] || fail 'it runs at once'
    dpkg --purge paceline >log 2>&1 || fail "not purged: $(cat log)"
    systemctl reset-failed paceline 2>/dev/null
    files >after
    packages >packages-after
    diff before after || fail 'files are left'
    diff packages-before packages-after || fail 'dpkg has files left'

    # In a system without systemd, as a container or an image that is built.
    unshare --mount sh -c 'mount -t tmpfs none /run && dpkg -i /srv/paceline_*.deb && paceline serve --check && dpkg --purge paceline' \
        >log 2>&1 || fail "without systemd: $(cat log)"
    files >after
    diff before after || fail 'files are left without systemd'
done
echo "$ROUNDS rounds"
