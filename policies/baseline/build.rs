// SPDX-License-Identifier: GPL-2.0-only
//! Builds the data planes.

fn main() {
    policy_build::policy("fifo", "src/bpf/fifo.bpf.c");
}
