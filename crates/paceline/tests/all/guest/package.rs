// SPDX-License-Identifier: GPL-2.0-only
//! The packages that `script/package` has built, on bare systems with systemd.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use vm::{Clock, System, take_cores};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("it is there")
}

/// A root file system of this release of Debian.
fn system(release: &str) -> PathBuf {
    let made = Command::new(root().join("script/system")).arg(release).output().unwrap();
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{said}");
    PathBuf::from(String::from_utf8_lossy(&made.stdout).trim())
}

/// The package of this kind: `script/package` leaves one.
fn package(ending: &str) -> PathBuf {
    let folder = root().join("target/packages");
    let mut files =
        std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|file| file.path());
    let found = files.find(|file| file.to_string_lossy().ends_with(ending));
    found.unwrap_or_else(|| panic!("there is no package: build it first, by script/package deb"))
}

/// Installs the .deb in a guest so many times. Only root can make a system for it.
fn installs(release: &str, rounds: u32) {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not tried: script/system needs root");
        return;
    }
    let (root, deb) = (system(release), package(".deb"));
    let script = format!("ROUNDS={rounds}\n{}", include_str!("scripts/package.sh"));
    let files = [("/srv/paceline.deb", deb.as_path())];
    let limit = Duration::from_secs(600 + 300 * u64::from(rounds));
    let _cores = take_cores(Clock::Threads, 2);
    let guest =
        System { root: &root, cpus: 2, memory_mib: 1536, files: &files, script: &script, limit };
    let said = guest.run().unwrap_or_else(|error| panic!("{error:#}"));
    assert!(said.contains(&format!("{rounds} rounds")), "{said}");
}

#[test]
fn the_package_comes_and_goes_on_debian_12() {
    installs("bookworm", 1);
}

#[test]
#[ignore = "night: as on Debian 12"]
fn the_package_comes_and_goes_on_debian_13() {
    installs("trixie", 20);
}
