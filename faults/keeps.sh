# SPDX-License-Identifier: GPL-2.0-only
# A control: a loader that does not unload its policy.
load
hackbench -g 1 -l 20 -p >out 2>&1 || fail "hackbench: $?"
