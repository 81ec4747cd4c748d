// SPDX-License-Identifier: GPL-2.0-only
//! Speeds from counters: which samples count, which are left out, and the resulting speeds.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use uneven::{Counts, Estimator, Rules, interpolate};

const MS: u64 = 1_000_000;

fn rules() -> Rules {
    Rules::new(vec![3.5, 1.0])
}

/// Counts of this many instructions a ns on each type, for a time.
fn counts(ips: &[f64], ms: u64) -> Vec<Counts> {
    ips.iter().map(|ips| counted((ips * (ms * MS) as f64) as u64, ms * MS)).collect()
}

/// Counts whose counter ran all the time.
fn counted(instructions: u64, time_ns: u64) -> Counts {
    Counts { instructions, counted_ns: time_ns, time_ns }
}

#[test]
fn unknown_task_counts_as_gaining_most_and_ranks_last() {
    let task = Estimator::new(2).task(&rules());
    assert_eq!((task.speeds, task.bound), (vec![1.0, 1.0], Some(vec![3.5, 1.0])));
}

#[test]
fn one_type_alone_tells_nothing_and_both_tell_the_speedup() {
    let mut estimator = Estimator::new(2);
    assert!(estimator.update(&counts(&[2.0], 20), &rules()));
    assert_eq!(estimator.mean(&rules()), None);
    assert!(estimator.update(&[Counts::default(), counts(&[1.0], 20)[0]], &rules()));
    assert_eq!(estimator.mean(&rules()), Some(vec![2.0, 1.0]));
    assert!(estimator.bound(&rules())[0] > 2.0);
}

#[test]
fn samples_that_cannot_be_are_left_out() {
    let mut estimator = Estimator::new(2);
    assert!(!estimator.update(&counts(&[2.0, 1.0], 1), &rules()), "too short");
    assert!(!estimator.update(&counts(&[0.9, 1.0], 20), &rules()), "slower on the fast core");
    assert!(!estimator.update(&counts(&[4.1, 1.0], 20), &rules()), "faster than it can be");
    assert_eq!(estimator, Estimator::new(2));
    let now = counted(5, 7);
    assert_eq!(now.since(counted(6, 1)), None, "a counter that wrapped");
    assert_eq!(now.since(counted(2, 1)), Some(counted(3, 6)));
}

/// As if the counter of one CPU of four is lost.
#[test]
fn time_without_a_counter_is_no_sample() {
    let mut estimator = Estimator::new(2);
    let [fast, mut slow] = counts(&[2.0, 1.0], 60)[..] else { unreachable!() };
    slow.time_ns += 20 * MS;
    assert!(estimator.update(&[fast, slow], &rules()));
    assert_eq!(estimator.mean(&rules()), Some(vec![2.0, 1.0]));
    let uncounted = Counts { time_ns: 80 * MS, ..counted(1000, 1000) };
    assert!(!estimator.update(&[uncounted; 2], &rules()), "too little of it");
    assert_eq!(estimator.mean(&rules()), Some(vec![2.0, 1.0]));
    let silent = Counts { time_ns: 80 * MS, ..Counts::default() };
    assert!(!estimator.update(&[fast, silent], &rules()));
    assert_eq!(estimator.mean(&rules()), None, "it is not counted there any more");
}

#[test]
fn five_samples_count_alike_and_later_ones_three_tenths() {
    let mut estimator = Estimator::new(2);
    for fast in [1.0, 2.0, 3.0, 2.0, 2.0] {
        assert!(estimator.update(&counts(&[fast, 1.0], 20), &rules()));
    }
    assert_eq!(estimator.mean(&rules()), Some(vec![2.0, 1.0]));
    assert!(estimator.update(&counts(&[3.0, 1.0], 20), &rules()));
    let mean = estimator.mean(&rules()).unwrap()[0];
    assert!((mean - 2.3).abs() < 1e-9, "{mean}");
}

#[test]
fn the_ranking_stays_until_the_mean_has_clearly_moved() {
    let mut estimator = Estimator::new(2);
    estimator.update(&counts(&[2.0, 1.0], 20), &rules());
    estimator.update(&counts(&[2.04, 1.0], 20), &rules());
    assert_eq!(estimator.task(&rules()).speeds, [2.0, 1.0]);
    estimator.update(&counts(&[3.0, 1.0], 20), &rules());
    assert_eq!(estimator.task(&rules()).speeds, estimator.mean(&rules()).unwrap());
}

#[test]
fn under_noise_the_mean_is_near_and_the_upper_end_is_seldom_too_low() {
    let mut random = Pcg64::seed_from_u64(31);
    let (mut error, mut low, mut width) = (0.0, 0, 0.0);
    const TASKS: usize = 2_000;
    for _ in 0..TASKS {
        let s = 1.7 + 1.8 * random.random::<f64>();
        let mut estimator = Estimator::new(2);
        for _ in 0..10 {
            // The sum of twelve uniform numbers is nearly normal.
            let mut noise =
                || 1.0 + 0.05 * ((0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0);
            estimator.update(&counts(&[s * noise(), noise()], 20), &rules());
        }
        error += (estimator.mean(&rules()).unwrap()[0] / s - 1.0).abs() / TASKS as f64;
        let bound = estimator.bound(&rules())[0];
        low += usize::from(bound < s);
        width += (bound / s - 1.0) / TASKS as f64;
    }
    assert!(error < 0.027, "mean error {error}; the talk has 2.70 % (slide 31)");
    assert!(low < TASKS / 20, "{low} of {TASKS} upper ends are below the truth");
    assert!(width < 0.1, "they are {width} above it");
}

#[test]
fn a_profile_holds_until_both_types_were_measured_and_a_memory_gives_way_faster() {
    let mut estimator = Estimator::profiled(&[3.0, 1.0]);
    assert_eq!(estimator.task(&rules()).speeds, [3.0, 1.0]);
    estimator.update(&counts(&[2.0, 1.0], 20), &rules());
    assert_eq!(estimator.mean(&rules()), Some(vec![2.0, 1.0]));
    for _ in 0..20 {
        estimator.update(&counts(&[2.0, 1.0], 20), &rules());
    }
    let mut again = estimator.remembered();
    assert_eq!(again.mean(&rules()), Some(vec![2.0, 1.0]));
    again.update(&counts(&[3.2, 1.0], 20), &rules());
    estimator.update(&counts(&[3.2, 1.0], 20), &rules());
    assert!(again.mean(&rules()) > estimator.mean(&rules()));
}

#[test]
fn two_types_measured_tell_a_third_that_differs_in_frequency() {
    // 1 cycle and 0.25 ns an instruction: 0.5 ns at 4 GHz, 0.75 ns at 2 GHz, 1.25 ns at 1 GHz.
    let all = interpolate(&[4.0, 2.0, 1.0], (0, 2.0), (2, 0.8)).unwrap();
    assert!((all[1] - 4.0 / 3.0).abs() < 1e-12, "{all:?}");
    let rules = Rules { frequencies: Some(vec![4.0, 2.0, 1.0]), ..Rules::new(vec![3.5, 2.0, 1.0]) };
    let mut estimator = Estimator::new(3);
    let measured = counts(&[2.0, 0.0, 0.8], 20);
    assert!(estimator.update(&measured, &rules));
    let speeds = estimator.mean(&rules).unwrap();
    assert!((speeds[1] - 5.0 / 3.0).abs() < 1e-6, "{speeds:?}");
    assert!(estimator.bound(&rules)[1] > speeds[1]);
    assert_eq!(interpolate(&[2.0, 2.0], (0, 2.0), (1, 1.0)), None, "nothing tells them apart");
}

#[test]
fn a_counter_that_reads_nothing_makes_a_task_unknown_again() {
    let (unknown, known) = (Estimator::new(2), || {
        let mut estimator = Estimator::new(2);
        estimator.update(&counts(&[2.0, 1.0], 20), &rules());
        estimator
    });
    for silent in [[0.0, 0.0], [2.0, 0.0], [0.0, 1.0]] {
        let mut estimator = known();
        assert!(!estimator.update(&counts(&silent, 20), &rules()), "{silent:?} is no sample");
        assert_eq!(estimator.task(&rules()), unknown.task(&rules()), "{silent:?}");
        assert!(!estimator.is_sampled());
    }
    let mut estimator = known();
    estimator.update(&counts(&[2.0, 0.0], 1), &rules());
    assert!(estimator.is_measured(&rules()), "so short a time may retire nothing");
    let mut profiled = Estimator::profiled(&[3.0, 1.0]);
    profiled.update(&counts(&[2.0, 1.0], 20), &rules());
    profiled.update(&counts(&[0.0, 0.0], 20), &rules());
    assert_eq!(profiled.mean(&rules()), Some(vec![3.0, 1.0]), "back to what the profile said");
}

#[test]
fn child_of_a_known_task_ranks_like_it_without_a_guarantee() {
    let mut parent = Estimator::new(2);
    parent.update(&counts(&[2.0, 1.0], 20), &rules());
    let child = parent.descended().task(&rules());
    assert_eq!((child.speeds, child.bound), (vec![2.0, 1.0], Some(vec![3.5, 1.0])));
}
