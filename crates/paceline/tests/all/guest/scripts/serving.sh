# SPDX-License-Identifier: GPL-2.0-only
# The service for a script: its config file, its start, and what is in charge.
mkdir -p /etc/paceline
config=/etc/paceline/paceline.toml
begin() { $P serve >log 2>&1 & pid=$!; }
in_charge_is() { [ "$(ops 2>/dev/null)" = "$1" ]; }
