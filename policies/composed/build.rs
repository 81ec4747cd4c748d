// SPDX-License-Identifier: GPL-2.0-only
//! Builds the data plane.

fn main() {
    policy_build::policy("paceline", "src/bpf/main.bpf.c");
}
