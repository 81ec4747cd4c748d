// SPDX-License-Identifier: GPL-2.0-only
//! Shell scripts as root in a guest, with the command in it.

mod limits;
mod machine;
mod package;
mod record;
mod run;
mod sched_idle;
mod service;
mod verifier;

use std::time::Duration;

use indicatif::{MultiProgress, ProgressDrawTarget};
use policy::Policy;
use vm::{Clock, PolicyRef, Request, Shape, WorkloadRef};

const BIN: &str = env!("CARGO_BIN_EXE_paceline");

/// The command as `$P`, the state of sched_ext, an end with a reason: `repro live` gives its scripts the same.
const PRELUDE: &str = include_str!("../../../../../faults/prelude.sh");

/// Policies without knobs, for a script.
pub fn names<'a>(policies: impl IntoIterator<Item = &'a &'static Policy>) -> String {
    policies.into_iter().map(|policy| policy.name).collect::<Vec<_>>().join(" ")
}

/// Runs a shell script as root in a guest with two CPUs side by side.
pub fn in_guest(script: &str) {
    in_guest_of(2, script);
}

/// The same for scripts that mostly wait: another guest may run beside it.
pub fn in_guest_that_waits(script: &str) {
    let shape = Shape { cpus: 2, ..Shape::default() };
    run(Request { shape, clock: Clock::Threads, ..request() }, &[], 1, script);
}

/// The same with more CPUs.
pub fn in_guest_of(cpus: usize, script: &str) {
    in_guest_by(Clock::Threads, cpus, script);
}

/// The same on another clock.
pub fn in_guest_by(clock: Clock, cpus: usize, script: &str) {
    in_guest_shaped(Shape { cpus, ..Shape::default() }, clock, script);
}

/// The same with two CPUs side by side and these programs of the host beside the usual ones.
pub fn in_guest_beside(programs: &[&str], script: &str) {
    let shape = Shape { cpus: 2, ..Shape::default() };
    run(Request { shape, clock: Clock::Threads, ..request() }, programs, 2, script);
}

pub fn in_guest_shaped(shape: Shape, clock: Clock, script: &str) {
    in_guest_with(Request { shape, clock, ..request() }, script);
}

/// Other requests: with a kernel of its own, for example.
pub fn request() -> Request {
    let nothing = WorkloadRef::Command { argv: Vec::new(), with: Vec::new() };
    Request::new(vec![PolicyRef::Default], nothing)
}

/// As the request says, except for the workload.
pub fn in_guest_with(request: Request, script: &str) {
    let cores = request.shape.cpus;
    run(request, &[], cores, script);
}

/// Cores are those that this machine has for the guest, if it has CPUs side by side.
fn run(request: Request, beside: &[&str], cores: usize, script: &str) {
    let script = format!("{PRELUDE}\nP={BIN}\n{script}");
    let program = |name: &&str| vm::which(name.as_ref()).expect("it is installed");
    let programs = ["hackbench", "cyclictest", "chrt", "nice", "unshare"];
    let programs = programs.iter().chain(beside);
    let workload = WorkloadRef::Command {
        argv: ["sh", "-c", &script].map(Into::into).to_vec(),
        with: [BIN.into()].into_iter().chain(programs.map(program)).collect(),
    };
    let limit = request.limit.max(Duration::from_secs(1200));
    let request = Request { workload, limit, or_in_turn: true, ..request };
    let hidden = MultiProgress::with_draw_target(ProgressDrawTarget::hidden());
    let _cores = vm::take_cores(request.clock, cores);
    match vm::run(&request, BIN.as_ref(), &hidden) {
        // Figures, for those who look.
        Ok(outcomes) => outcomes.iter().for_each(|outcome| eprint!("{}", outcome.output)),
        Err(error) => {
            let said = format!("{error:#}");
            // an error begins with the whole script
            panic!("{}", said.rsplit_once("failed with status").map_or(&*said, |(_, why)| why));
        }
    }
}

/// A guest with Debian's oldest kernel with sched_ext.
pub fn oldest(cpus: usize) -> Request {
    let hidden = MultiProgress::with_draw_target(ProgressDrawTarget::hidden());
    let oldest = vm::kernel::oldest(None, &hidden).expect("Debian has one");
    Request {
        shape: Shape { cpus, ..Shape::default() },
        clock: Clock::Threads,
        kernel: Some(oldest.image),
        ..request()
    }
}
