# SPDX-License-Identifier: GPL-2.0-only
# A control: a bystander's affinity mask is not what it was.
load
set -- $witnesses
taskset -p 2 $1
unload
