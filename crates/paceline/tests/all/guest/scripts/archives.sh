# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# The tarball and the wheel on a bare system: installed as they say, in charge, and gone without a trace.
# The commands of a part of the file INSTALL, one after the other.
follow() {
    sed -n "$1" INSTALL | sed -n 's/^    //p' >../commands
    [ -s ../commands ] || fail "INSTALL has no commands for $1"
    sh -ex ../commands >../log 2>&1 || fail "INSTALL: $(cat ../log)"
}
mkdir work
mkdir -p /usr/share/{man/man1,bash-completion/completions,fish/vendor_completions.d,zsh/vendor-completions}
files >before

(
    cd work
    tar -xzf ../paceline-*.tar.gz
    cd paceline-* || fail "no folder: $(ls)"
    bin/paceline list >../out || fail 'it does not run where it is'
    follow '/^It needs/,/^The service is/p'
    systemctl enable --now paceline 2>../log || fail "not enabled: $(cat ../log)"
    await '[ "$(ops)" = paceline ]'
    follow '/^To remove it/,$p'
    [ "$(state)" = disabled ] || fail "$(state) after it was removed"
) || exit 1
rm -r work/*
systemctl daemon-reload
files >after
diff before after || fail 'files of the tarball are left'

python3 -m venv --system-site-packages work/python || fail 'no environment of Python'
work/python/bin/pip install --quiet --no-index --no-deps paceline*.whl >log 2>&1 || fail "no wheel: $(cat log)"
work/python/bin/paceline run cas --for 1s >out 2>log || fail "the wheel's command: $(cat log)"
work/python/bin/pip uninstall --quiet --yes paceline || fail 'it stays'
[ ! -e work/python/bin/paceline ] || fail 'its command stays'
echo 'both archives came and went'
