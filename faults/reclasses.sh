# SPDX-License-Identifier: GPL-2.0-only
# A control: a bystander is left in another class than it was.
load
set -- $witnesses
chrt -b -p 0 $1
unload
