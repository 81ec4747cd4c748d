// SPDX-License-Identifier: GPL-2.0-only
//! The policies' own C under AddressSanitizer and UndefinedBehaviorSanitizer.
//!
//! Their runtimes have to be in the process before anything else, so each test runs this program
//! again, under `LD_PRELOAD`, and asks for the part below that is ignored otherwise.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;

use policies::HONEST;
use policy::{Build, Instance, Object, Policy};
use sim::{Scenario, Scheduler, run, swarm};

#[path = "all/common/mod.rs"]
#[allow(dead_code, reason = "this takes a part of it")]
mod common;

#[test]
fn policies_have_no_fault_under_sanitizers() {
    let output = under_sanitizers("watched_policies");
    assert!(output.status.success(), "{}", words(&output));
}

#[test]
fn a_planted_overflow_is_caught_under_sanitizers() {
    let output = under_sanitizers("watched_overflow");
    assert!(!output.status.success(), "the sanitizers did not run");
    let words = words(&output);
    assert!(words.contains("overflow.bpf.c:"), "{words}");
}

#[test]
#[ignore = "runs under sanitizers: policies_have_no_fault_under_sanitizers"]
fn watched_policies() {
    let registry: Vec<&Policy> = HONEST.iter().map(|policy| watched(policy)).collect();
    let failures = swarm(0..300, &registry).failures;
    assert!(failures.is_empty(), "seed {}: {}", failures[0].seed, failures[0].error);
}

#[test]
#[ignore = "runs under sanitizers: a_planted_overflow_is_caught_under_sanitizers"]
fn watched_overflow() {
    let policy = watched(&OVERFLOW);
    let tasks = (0..16).map(|at| common::task(&format!("burn-{at}"), vec![common::burn(5)]));
    let workload = common::workload(tasks.collect());
    let scheduler = Scheduler::Policy(Instance::default(policy));
    run(&Scenario::new(common::cores(8), workload, scheduler)).unwrap();
}

static OVERFLOW: Policy = Policy {
    name: "overflow",
    build: Build {
        ops: "overflow",
        source: "crates/sim/tests/policies/overflow.bpf.c",
        ..Build::NONE
    },
    ..Policy::BARE
};

/// The policy with a sanitized native build.
fn watched(policy: &'static Policy) -> &'static Policy {
    let build = Build { native: Object::Plain(sanitized(policy.build.source)), ..policy.build };
    Box::leak(Box::new(Policy { build, ..*policy }))
}

/// The sanitized native build of a source. Policies of a family share one.
fn sanitized(source: &'static str) -> &'static [u8] {
    static KNOWN: Mutex<BTreeMap<&str, &[u8]>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap();
    known.entry(source).or_insert_with(|| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(source);
        let out = format!("sanitized-{}-{}", source.replace('/', "-"), std::process::id());
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(out);
        std::fs::create_dir_all(&out).unwrap();
        let native = std::fs::read(policy_build::sanitized(&path, &out)).unwrap().leak();
        std::fs::remove_dir_all(&out).unwrap();
        native
    })
}

fn under_sanitizers(test: &str) -> Output {
    let runtimes =
        ["libasan.so", "libubsan.so"].map(runtime).map(|path| path.display().to_string());
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", test, "--nocapture"])
        .env("LD_PRELOAD", runtimes.join(":"))
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .env("UBSAN_OPTIONS", "print_stacktrace=1")
        .output()
        .unwrap()
}

/// A library of the C compiler's own.
fn runtime(name: &str) -> PathBuf {
    let output = Command::new("cc").arg(format!("-print-file-name={name}")).output().unwrap();
    let path = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
    assert!(path.is_absolute(), "the C compiler has no {name}: install gcc (script/setup)");
    path
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}
