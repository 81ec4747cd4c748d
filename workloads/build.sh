# SPDX-License-Identifier: GPL-2.0-only
# Builds three crates in parallel, and a program from them.
mkdir /tmp/build; cd /tmp/build
for crate in a b c; do
    mkdir -p $crate/src
    printf '[package]\nname = "%s"\nversion = "0.1.0"\nedition = "2021"\n' $crate >$crate/Cargo.toml
    i=0
    while [ $i -lt 20 ]; do
        echo "pub fn f$i(x: u64) -> u64 { (0..x).map(|n| n * $i).filter(|n| n % 3 == 1).sum() }"
        i=$((i + 1))
    done >$crate/src/lib.rs
done
mkdir src
cat >Cargo.toml <<END
[package]
name = "all"
version = "0.1.0"
edition = "2021"
[dependencies]
a = { path = "a" }
b = { path = "b" }
c = { path = "c" }
[profile.dev]
debug = 0
codegen-units = 1
incremental = false
END
echo 'fn main() { println!("{}", a::f1(5) + b::f2(6) + c::f3(7)); }' >src/main.rs
cargo build --offline && exec target/debug/all
