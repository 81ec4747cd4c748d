// SPDX-License-Identifier: GPL-2.0-only
//! Builds the data plane twice: as `cas`, and as `o1`, which is the same with the rule left out.

fn main() {
    policy_build::policy("cas", "src/bpf/main.bpf.c");
    policy_build::policy("o1", "src/bpf/o1.bpf.c");
}
