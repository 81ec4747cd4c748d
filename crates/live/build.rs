// SPDX-License-Identifier: GPL-2.0-only
//! Builds the programs that watch the scheduler, or count for it.

fn main() {
    policy_build::program("observe", "src/bpf/observe.bpf.c");
    policy_build::program("record", "src/bpf/record.bpf.c");
    policy_build::program("locks", "src/bpf/locks.bpf.c");
    policy_build::program("address", "src/bpf/address.bpf.c");
    policy_build::program("meter", "src/bpf/meter.bpf.c");
    policy_build::program("switched", "src/bpf/switched.bpf.c");
}
