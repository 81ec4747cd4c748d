# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# The service follows the profile of power-profiles-daemon as it changes, as the daemon goes and as it comes back.
dpkg -i "$deb" >log 2>&1 || fail "not installed: $(cat log)"
cat >/etc/paceline/paceline.toml <<'END'
policy = "paceline"
[power_profiles]
power-saver = "cas"
performance = "default"
END
strict
systemctl start power-profiles-daemon || fail 'no daemon of profiles'
bus=net.hadess.PowerProfiles
profile() { busctl set-property $bus /net/hadess/PowerProfiles $bus ActiveProfile s "$1" 2>err || fail "no profile: $(cat err)"; }
profile power-saver
systemctl start paceline || fail 'no start'
# Known from the start on: no other policy is loaded before.
[ "$(ops)" = cas ] || fail "$(ops) at the start"
[ "$(cat /sys/kernel/sched_ext/enable_seq)" = 1 ] || fail 'another policy was loaded before'
paceline status | grep -q '^power profile: power-saver' || fail "$(paceline status)"

profile balanced
await '[ "$(ops)" = paceline ]'
profile power-saver
await '[ "$(ops)" = cas ]'
# An administrator's choice is before it, until the next reload.
paceline switch flsched >out || fail 'no switch'
profile balanced
sleep 1
[ "$(ops)" = flsched ] || fail "$(ops) after an administrator chose flsched"
profile power-saver
systemctl reload paceline || fail 'no reload'
[ "$(ops)" = cas ] || fail "$(ops) after the reload"

# Without the daemon there is no profile, and it is not started again.
systemctl stop power-profiles-daemon
await '[ "$(ops)" = paceline ]'
sleep 2
[ "$(systemctl is-active power-profiles-daemon)" = inactive ] || fail 'the daemon was started'
systemctl start power-profiles-daemon
profile power-saver
await '[ "$(ops)" = cas ]'

# Without the bus the service goes on.
systemctl stop dbus.socket dbus.service
await '[ "$(ops)" = paceline ]'
systemctl start dbus.socket dbus.service
systemctl restart power-profiles-daemon
profile power-saver
await '[ "$(ops)" = cas ]'
# Linux's own class is a profile's choice as well.
sed -i 's/^power-saver.*/power-saver = "default"/' /etc/paceline/paceline.toml
systemctl reload paceline || fail 'no reload'
[ "$(state)" = disabled ] || fail "$(state) in a profile of Linux's own class"
journalctl -q -u paceline PACELINE_EVENT=power-profile -o cat | grep -q 'power profile power-saver: cas is preferred' ||
    fail 'the journal has no profile'
systemctl stop paceline || fail 'it ended badly'
echo 'the profile was followed'
