// SPDX-License-Identifier: GPL-2.0-only
//! Passes on where libbpf-sys unpacked libbpf's headers.

fn main() {
    let include = std::env::var("DEP_BPF_INCLUDE").expect("libbpf-sys exports its headers");
    println!("cargo:rustc-env=LIBBPF_INCLUDE={include}");
}
