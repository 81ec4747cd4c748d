// SPDX-License-Identifier: GPL-2.0-only
//! Does what is missing of a sweep, on all cores.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;

use terminal::Failure;

use crate::design::Design;
use crate::digest::Digest;
use crate::input::Inputs;
use crate::run::{Came, Run, Stages};
use crate::store::Store;

/// Results that may wait for the disk, for each thread.
const WAITING: usize = 4;

/// What of a sweep is known, and what is missing.
#[derive(Debug)]
pub struct Missing {
    /// Different runs of the sweep.
    pub runs: usize,
    /// Those without a result.
    pub left: Vec<(Digest, Run)>,
}

/// Finds the runs that have no result yet; without a store none has.
pub fn missing<'s>(
    design: &Design,
    store: impl Into<Option<&'s Store>>,
    program: Digest,
) -> Missing {
    let store = store.into();
    let (mut seen, mut left) = (BTreeSet::new(), Vec::new());
    for setting in &design.settings {
        for variant in setting.variants.iter() {
            for seed in &design.seeds {
                let run = design.run(setting, variant, *seed);
                let key = run.key(program);
                if seen.insert(key) && !store.is_some_and(|store| store.has(key)) {
                    left.push((key, run));
                }
            }
        }
    }
    Missing { runs: seen.len(), left }
}

/// Checks that each policy can be simulated, each workload on each machine, and that the objective's programs are there.
/// Returns stages that it has made, for the runs.
///
/// # Errors
/// The user's input is bad.
pub fn check(design: &Design) -> Result<Stages, Failure> {
    let (mut seen, stages) = (BTreeSet::new(), Stages::default());
    for setting in design.settings.iter().chain(&design.held_out) {
        for variant in setting.variants.iter() {
            let run = design.run(setting, variant, 0);
            let policy = design.policies[variant.policy].clone();
            let place = (run.machine.clone(), run.workload.clone(), run.pressure);
            if seen.insert((place, policy)) {
                stages.check(&run, &design.inputs)?;
                stages.check_programs(&run, &design.inputs, &design.objective)?;
            }
        }
    }
    Ok(stages)
}

/// Does these runs, so many at a time, and keeps each result when it is there; then it calls `step`, whose error ends it.
///
/// # Errors
/// The user's input is bad, or a result cannot be kept, or that of `step`. Results before are kept.
pub fn perform(
    left: &[(Digest, Run)],
    (inputs, stages): (&Inputs, &Stages),
    store: &mut Store,
    threads: usize,
    mut step: impl FnMut() -> Result<(), Failure>,
) -> Result<(), Failure> {
    each(
        left.len(),
        threads,
        |at| left[at].1.simulate(inputs, stages),
        |at, came| {
            store.put(left[at].0, &left[at].1, came)?;
            step()
        },
    )
}

/// Calls `work` for each number on so many threads, and `take` with each result on this one. The first error ends it:
/// work under way is finished, and its results are taken if that is possible.
fn each(
    count: usize,
    threads: usize,
    work: impl Fn(usize) -> Result<Came, Failure> + Sync,
    mut take: impl FnMut(usize, Came) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (sender, results) = sync_channel(WAITING * threads);
    thread::scope(|scope| {
        for _ in 0..threads.min(count) {
            let (sender, next, stop, work) = (sender.clone(), &next, &stop, &work);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= count || sender.send((at, work(at))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let ended = results.iter().try_for_each(|(at, came)| take(at, came?));
        stop.store(true, Ordering::Relaxed);
        // After an error only; else all have been taken.
        for (at, came) in &results {
            let _ = came.and_then(|came| take(at, came));
        }
        ended
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::Purpose;

    #[test]
    fn each_is_done_once_on_all_threads() {
        for threads in [1, 2, 7] {
            let mut taken = vec![0; 500];
            let work = |at: usize| Ok(Came::Failed(at.to_string()));
            let take = |at: usize, came: Came| {
                assert_eq!(came, Came::Failed(at.to_string()));
                taken[at] += 1;
                Ok(())
            };
            each(500, threads, work, take).unwrap();
            assert_eq!(taken, [1; 500]);
        }
    }

    #[test]
    fn the_first_error_ends_it_and_what_is_done_is_kept() {
        let mut kept = 0;
        let work = |at: usize| match at {
            50 => Err(Failure::input("bad")),
            _ => Ok(Came::Failed(String::new())),
        };
        let ended = each(1_000_000, 2, work, |_, _| {
            kept += 1;
            Ok(())
        });
        assert_eq!(ended, Err(Failure::input("bad")));
        assert!((50..1_000).contains(&kept), "{kept}");
    }

    #[test]
    fn a_full_disk_ends_it() {
        let work = |_: usize| Ok(Came::Failed(String::new()));
        let ended = each(1_000_000, 2, work, |at, _| match at {
            10.. => Err(Failure::run("full")),
            _ => Ok(()),
        });
        assert_eq!(ended, Err(Failure::run("full")));
    }

    const DESIGN: &str = "policy = ['default', 'flsched']\nmachine = 'plain-2'\nworkload = 'agree-1'\n\
                          seeds = 2\nlimit = '60s'\n[knobs.flsched]\nslice = ['5ms', '9ms']\n";

    #[test]
    fn what_was_done_is_not_done_again_and_the_number_of_threads_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (design, program) = (
            Design::parse("it.toml", DESIGN, "".as_ref(), Purpose::Sweep).unwrap(),
            Digest::of(b"it"),
        );
        let stages = check(&design).unwrap();
        let results = |threads: usize| {
            let mut store = Store::open(&folder.path().join(threads.to_string())).unwrap();
            let all = missing(&design, &store, program);
            assert_eq!((all.runs, all.left.len()), (6, 6));
            let some = &all.left[..4];
            perform(some, (&design.inputs, &stages), &mut store, threads, || Ok(())).unwrap();
            let rest = missing(&design, &store, program);
            assert_eq!((rest.runs, rest.left.len()), (6, 2));
            perform(&rest.left, (&design.inputs, &stages), &mut store, threads, || Ok(())).unwrap();
            assert!(missing(&design, &store, program).left.is_empty());
            assert_eq!(missing(&design, &store, Digest::of(b"new")).left.len(), 6);
            let came = |(key, _): &(Digest, Run)| store.get(*key).unwrap().unwrap();
            all.left.iter().map(came).collect::<Vec<Came>>()
        };
        let one = results(1);
        assert_eq!(one, results(2));
        assert!(matches!(&one[0], Came::Measured(of) if of.elapsed_ns > 0 && of.wait.p99_ns > 0));
    }

    #[test]
    fn a_workload_that_the_machine_cannot_run_is_refused_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        std::fs::write(&path, r#"{"tasks": {"a": {"run": 10, "loop": 1, "cpus": [7]}}}"#).unwrap();
        let text = DESIGN.replace("agree-1", path.to_str().unwrap());
        let refused = check(&Design::parse("it.toml", &text, "".as_ref(), Purpose::Sweep).unwrap())
            .unwrap_err()
            .to_string();
        assert!(refused.contains("may run on none of the machine's CPUs"), "{refused}");
    }
}
