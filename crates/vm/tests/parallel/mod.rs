// SPDX-License-Identifier: GPL-2.0-only
//! The clock `parallel` shows what CPUs side by side would take. Needs the emulator of script/parallel-qemu.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use vm::{Clock, Request, Shape};

use crate::{request, run};

/// Runs `turns.c` with these words, and returns the shortest time of five runs in ms. In about a tenth of them a woken
/// task is left until the next tick, with both CPUs idle. None: there is no emulator.
fn time_ms(clock: Clock, cpus: usize, turn_us: u64, words: [&str; 2]) -> Option<f64> {
    if let Err(why) = vm::emulator(None, Clock::Parallel) {
        eprintln!("skipped: {why}");
        return None;
    }
    let program = program();
    let argv = [program.to_str().unwrap(), words[0], words[1]];
    let (request, turn) = (request(&["default"], &argv), Some(Duration::from_micros(turn_us)));
    let shape = Shape { cpus, ..request.shape.clone() };
    let runs = run(&Request { shape, clock, turn, runs_per_boot: 5, ..request }).unwrap();
    let shortest = runs.iter().map(|outcome| outcome.elapsed_ns).min()?;
    Some(shortest as f64 / 1e6)
}

fn program() -> PathBuf {
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("turns");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/parallel/turns.c");
    let new = program.with_extension(format!("{:?}", std::thread::current().id()));
    let built = Command::new("cc").args(["-O1", source, "-o"]).arg(&new).status().unwrap();
    assert!(built.success());
    std::fs::rename(new, &program).unwrap();
    program
}

fn assert_alike(what: &str, times: &[f64], within: f64) {
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    let most = times.iter().copied().fold(0.0, f64::max);
    assert!(most / least <= 1.0 + within, "{what}: {times:?} ms");
}

/// N tasks that only compute take as long as one, on N CPUs or twice as many, and twice as long on half as many.
fn share_no_time(cpus: usize) {
    let tasks = [1, cpus.div_ceil(2), cpus, 2 * cpus];
    let times = tasks.map(|tasks| time_ms(Clock::Parallel, cpus, 20, ["burn", &tasks.to_string()]));
    let [Some(one), Some(half), Some(all), Some(twice)] = times else { return };
    assert_alike(&format!("{cpus} CPUs"), &[one, half, all, twice / 2.0], 0.01);
}

pub fn two_cpus_side_by_side_share_no_time() {
    share_no_time(2);
}

pub fn more_cpus_side_by_side_share_no_time() {
    [1, 4, 8].into_iter().for_each(share_no_time);
}

/// A wakeup on another CPU takes the same time beside any number of idle CPUs, and with turns of any length.
pub fn idle_cpus_and_turns_change_no_wakeup() {
    let time = |cpus, turn_us| time_ms(Clock::Parallel, cpus, turn_us, ["pass", "3000"]);
    let Some(times) = [2, 4, 8].map(|cpus| time(cpus, 20)).into_iter().collect::<Option<Vec<_>>>()
    else {
        return;
    };
    assert_alike("2, 4 and 8 CPUs", &times, 0.01);
    let turns: Vec<f64> = [10, 20, 50].into_iter().filter_map(|turn_us| time(4, turn_us)).collect();
    assert_alike("turns of 10, 20 and 50 us", &turns, 0.03);
}

/// One CPU is alone on both clocks. On either of them a wakeup may be seen at the next tick only, up to 4 ms later: always
/// or never, as the instructions before it have it.
pub fn one_cpu_has_the_time_of_its_instructions() {
    let time = |clock| time_ms(clock, 1, 20, ["burn", "2"]);
    let (Some(parallel), Some(icount)) = (time(Clock::Parallel), time(Clock::Icount)) else {
        return;
    };
    assert_alike("parallel and icount", &[parallel, icount], 0.01);
}
