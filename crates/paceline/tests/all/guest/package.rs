// SPDX-License-Identifier: GPL-2.0-only
//! The packages that `script/package` has built, on bare systems with systemd.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use vm::{Clock, System, take_cores};

/// The beginning of each script.
const SYSTEM: &str = include_str!("scripts/system.sh");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("it is there")
}

/// A root file system of this release of Debian, with these packages.
fn system(release: &str, packages: &[&str]) -> PathBuf {
    let mut make = Command::new(root().join("script/system"));
    let made = make.arg(release).args(packages).output().unwrap();
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{said}");
    PathBuf::from(String::from_utf8_lossy(&made.stdout).trim())
}

/// The command of the packages.
pub fn command() -> PathBuf {
    let command = root().join("target/dist/paceline");
    assert!(command.exists(), "there is no such command: build it first, by script/package deb");
    command
}

/// The package of this kind: `script/package` leaves one.
fn package(ending: &str) -> PathBuf {
    let folder = root().join("target/packages");
    let mut files =
        std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|file| file.path());
    let found = files.find(|file| file.to_string_lossy().ends_with(ending));
    found.unwrap_or_else(|| panic!("there is no package: build it first, by script/package deb"))
}

/// A system and what is in it.
struct Bare<'a> {
    release: &'a str,
    packages: &'a [&'a str],
    memory_mib: usize,
    /// What `script/package` left, by the ends of their names: it is in `/srv`.
    files: &'a [&'a str],
}

impl Bare<'_> {
    /// Runs a script there. `says`: a part of what it says at its end. Only root can make a system.
    fn run(&self, limit_s: u64, script: &str, says: &str) {
        if !rustix::process::geteuid().is_root() {
            eprintln!("not tried: script/system needs root");
            return;
        }
        let files: Vec<PathBuf> = self.files.iter().map(|ending| package(ending)).collect();
        let name = |file: &PathBuf| format!("/srv/{}", file.file_name().unwrap().display());
        let names: Vec<String> = files.iter().map(name).collect();
        let files: Vec<(&str, &Path)> =
            names.iter().zip(&files).map(|(name, file)| (&**name, &**file)).collect();
        let root = system(self.release, self.packages);
        let script = format!("{SYSTEM}\n{script}");
        let _cores = take_cores(Clock::Threads, 2);
        let guest = System {
            root: &root,
            cpus: 2,
            memory_mib: self.memory_mib,
            files: &files,
            script: &script,
            limit: Duration::from_secs(limit_s),
        };
        let said = guest.run().unwrap_or_else(|error| panic!("{error:#}"));
        assert!(said.contains(says), "{said}");
        // Figures, for those who look.
        eprintln!("{}", said.lines().find(|line| line.contains(says)).unwrap_or_default());
    }
}

/// Installs the .deb in a guest so many times.
fn installs(release: &str, rounds: u32) {
    let script = format!("ROUNDS={rounds}\n{}", include_str!("scripts/package.sh"));
    let bare = Bare { release, packages: &[], memory_mib: 1536, files: &[".deb"] };
    bare.run(600 + 300 * u64::from(rounds), &script, &format!("{rounds} rounds"));
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

#[test]
#[ignore = "night: needs all packages"]
fn the_tarball_and_the_wheel_come_and_go() {
    let files = &[".tar.gz", ".whl"];
    let packages = &["python3-venv"];
    let bare = Bare { release: "bookworm", packages, memory_mib: 2048, files };
    bare.run(900, include_str!("scripts/archives.sh"), "both archives came and went");
}

#[test]
#[ignore = "night: another system"]
fn the_policy_follows_the_power_profile() {
    let packages = &["power-profiles-daemon", "polkitd", "libpam-systemd"];
    let bare = Bare { release: "bookworm", packages, memory_mib: 1536, files: &[".deb"] };
    bare.run(900, include_str!("scripts/power.sh"), "the profile was followed");
}

#[test]
#[ignore = "night: another system"]
fn a_real_prometheus_scrapes_the_service() {
    let packages = &["prometheus", "iproute2"];
    let bare = Bare { release: "bookworm", packages, memory_mib: 3072, files: &[".deb"] };
    bare.run(1200, include_str!("scripts/prometheus.sh"), "scraped; ");
}
