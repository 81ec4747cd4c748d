// SPDX-License-Identifier: GPL-2.0-only
//! Builds the data planes.

fn main() {
    for name in ["fifo", "rr", "pile", "starve", "probe"] {
        policy_build::policy(name, &format!("src/bpf/{name}.bpf.c"));
    }
}
