// SPDX-License-Identifier: GPL-2.0-only
//! The charge, called as the data plane calls it with plain values, against the formula in floating
//! point.

#[macro_use]
#[path = "../../common/tests/decisions.rs"]
mod decisions;

use machine::{License, Phase, find};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

/// `struct charge_of` of clock_charge.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Stretch {
    ran_ns: u64,
    cycles: [u64; 3],
    khz: [u32; 3],
    level: u32,
    took_ns: [u64; 3],
}

/// A stretch on a Xeon Gold 6130 with this many active cores, which spends a time at each level.
fn stretch(spent_ns: [u64; 3], active: usize, level: u32) -> Stretch {
    let machine = find("xeon-gold-6130").unwrap();
    let khz = machine.turbo_khz()[active - 1];
    let cycles = [0, 1, 2].map(|at| spent_ns[at] * u64::from(khz[at]) / MS);
    Stretch { ran_ns: spent_ns.iter().sum(), cycles, khz, level, took_ns: [0; 3] }
}

fn refund(of: &Stretch) -> u64 {
    call!(refund(&mut of.clone() => *mut Stretch) -> u64)
}

fn extra(of: &Stretch) -> u64 {
    call!(extra(&mut of.clone() => *mut Stretch) -> u64)
}

/// The formula in the first lines of clock_charge.h.
fn reference(of: &Stretch) -> f64 {
    let own = of.level as usize;
    let lost = |at: usize| {
        of.cycles[at] as f64 * 1e6 * (1.0 / f64::from(of.khz[at]) - 1.0 / f64::from(of.khz[own]))
    };
    (own + 1..3).map(lost).sum()
}

#[test]
fn golden_values() {
    // A scalar task at the AVX-512 clock of all cores is charged 1.9 of 2.8.
    let victim = stretch([0, 0, 28 * MS], 16, 0);
    assert!((28 * MS - refund(&victim)).abs_diff(19 * MS) < 100);
    // An AVX2 task beside an AVX-512 task is a victim too: 1.9 of 2.4.
    let between = stretch([0, 0, 24 * MS], 16, 1);
    assert!((24 * MS - refund(&between)).abs_diff(19 * MS) < 100);
    // At its own level and below, a task is charged in full.
    assert_eq!([0, 1, 2].map(|level| refund(&stretch([5 * MS, 0, 0], 16, level))), [0; 3]);
    assert_eq!(refund(&stretch([MS, MS, MS], 16, 2)), 0);
    // A culprit that ran at the scalar clock ran above its own: 2.8 of 1.9.
    assert!(extra(&stretch([19 * MS, 0, 0], 16, 2)).abs_diff(9 * MS) < 100);
    assert_eq!(extra(&stretch([0, 0, 19 * MS], 16, 0)), 0);
}

#[test]
fn halt_for_another_tasks_license_change_is_not_charged() {
    let standing = |ns: u64, level: u32| {
        let ran = stretch([14 * MS, 0, 14 * MS], 16, level);
        refund(&Stretch { ran_ns: ran.ran_ns + ns, ..ran }) - refund(&ran)
    };
    let halt_ns = find("xeon-gold-6130").unwrap().frequency.unwrap().license.unwrap().halt_ns;
    call!(halts(halt_ns => u64) -> ());
    assert_eq!(standing(10_000, 0), 10_000);
    assert_eq!(standing(10_000, 2), 0, "its own changes it pays");
    assert_eq!(standing(MS, 0), 4 * halt_ns, "no change takes so long: that is something else");
    // A core held at 1.2 GHz has half the cycles that its license allows: the license's part is
    // unknown.
    let held = stretch([0, 0, 28 * MS], 16, 0);
    assert_eq!(refund(&Stretch { ran_ns: 44 * MS, ..held }), 0, "a governor's own choice");
    assert!(refund(&Stretch { ran_ns: 29 * MS, ..held }) >= 9 * MS, "the control");
    let alone = stretch([14 * MS, 0, 0], 16, 0);
    assert_eq!(refund(&Stretch { ran_ns: 15 * MS, ..alone }), 0, "there was no license");
}

#[test]
fn counters_that_cannot_be_right_refund_nothing() {
    let good = stretch([0, 0, 4 * MS], 16, 0);
    assert!(refund(&good) > MS);
    let wrapped = Stretch { cycles: [0, 0, u64::MAX - 5], ..good };
    let doubled = Stretch { cycles: good.cycles.map(|cycles| 2 * cycles), ..good };
    let unknown = Stretch { khz: [0; 3], ..good };
    let hole = Stretch { khz: [2_800_000, 0, 1_900_000], ..good };
    assert_eq!([wrapped, doubled, unknown, hole].map(|of| (refund(&of), extra(&of))), [(0, 0); 4]);
    assert_eq!(refund(&Stretch { ran_ns: 0, cycles: [0; 3], ..good }), 0);
}

#[test]
fn task_of_low_power_is_refunded_what_the_limit_took() {
    let limited = |limited_ns: u64, cycles: u64, own: u64, mean: u64| {
        call!(limited(10 * MS => u64, limited_ns => u64, cycles => u64, 4_000_000 => u32,
                      own => u64, mean => u64) -> u64)
    };
    // 10 ms at 3.2 of 4 GHz: 2 ms lost.
    assert_eq!(limited(10 * MS, 32 * MS, 5000, 10_000), 2 * MS);
    assert_eq!(limited(10 * MS, 32 * MS, 15_000, 10_000), 0, "it draws above the mean");
    assert_eq!(limited(10 * MS, 32 * MS, 10_000, 10_000), 0, "all draw alike");
    assert_eq!(limited(0, 32 * MS, 5000, 10_000), 0, "the governor's own choice");
    assert_eq!(limited(MS, 32 * MS, 5000, 10_000), MS, "limited for a part of it");
    assert_eq!(limited(10 * MS, 48 * MS, 5000, 10_000), 0, "above its turbo");
    assert_eq!(limited(10 * MS, 32 * MS, 0, 10_000), 0, "not known what it draws");
    assert_eq!(limited(10 * MS, 32 * MS, 0, 0), 0, "nor what others do");
}

#[test]
fn no_refund_is_longer_than_a_slice() {
    let refunded = |slice: u64| {
        let charged = call!(charged(100 * MS => u64, 0 => u32, slice => u64) -> u64);
        100 * MS - charged
    };
    assert_eq!(refunded(3 * MS), 3 * MS);
    assert!(refunded(100 * MS).abs_diff(25 * MS) < 100, "the control: 2.4 of 3.2 GHz");
    assert_eq!(call!(charged(100 * MS => u64, 2 => u32, 3 * MS => u64) -> u64), 100 * MS);
}

/// Stretches of a task's time alone on its core: how long, how long the license was up, and whether
/// it is fresh.
fn observed(stretches: &[(u64, u64, bool)]) -> u32 {
    let ran: Vec<u64> = stretches.iter().map(|stretch| stretch.0).collect();
    let high: Vec<u64> = stretches.iter().map(|stretch| stretch.1).collect();
    let fresh: Vec<bool> = stretches.iter().map(|stretch| stretch.2).collect();
    call!(observed(ran.as_ptr() => *const u64, high.as_ptr() => *const u64, fresh.as_ptr() => *const bool,
                   stretches.len() as u32 => u32, 675_000 => u64) -> u32)
}

#[test]
fn what_a_task_needs_shows_in_what_its_license_does() {
    const UNKNOWN: u32 = 0;
    const SCALAR: u32 = 1;
    const WIDEST: u32 = 3;
    let us = |ran: u64, high: u64, fresh: bool| (ran * 1000, high * 1000, fresh);
    assert_eq!(observed(&[us(4000, 0, true); 2]), UNKNOWN, "two stretches are not enough");
    assert_eq!(observed(&[us(4000, 0, true); 3]), SCALAR);
    assert_eq!(observed(&[us(4000, 4000, true); 3]), WIDEST);
    // A task that runs for 0.2 ms at a time has run for 3 ms after 15 stretches.
    assert_eq!(observed(&[us(200, 0, true); 14]), UNKNOWN);
    assert_eq!(observed(&[us(200, 0, true); 15]), SCALAR);
    // Always after a task that raises the license: the license goes, and does not return.
    assert_eq!(observed(&[us(3000, 600, true); 6]), SCALAR);
    // A license kept for twice its usual time, which happens, says nothing.
    assert_eq!(observed(&[us(3000, 1300, true); 100]), UNKNOWN);
    // Ticks each ms: a level that is there in one stretch after the other is needed.
    assert_eq!(observed(&[us(1000, 1000, false); 9]), WIDEST);
    // A scalar program becomes a vector program: a few stretches show it.
    let turns = [vec![us(4000, 0, true); 20], vec![us(4000, 4000, false); 3]].concat();
    assert_eq!(observed(&turns), WIDEST);
}

#[test]
fn task_of_high_power_pays_for_the_clock_that_it_costs() {
    let drawn = |own: u64, mean: u64| {
        let ns = call!(drawn(10 * MS => u64, 10 * MS => u64, 32 * MS => u64, 4_000_000 => u32,
                             own => u64, mean => u64) -> u64);
        ns as f64 / (10 * MS) as f64
    };
    assert!(
        (drawn(10_000, 10_000) - 1.0).abs() < 0.002,
        "a task that draws as all do is charged its time"
    );
    assert!((drawn(20_000, 10_000) - 2.0_f64.cbrt()).abs() < 0.002);
    assert!((drawn(8_000, 10_000) - 0.8_f64.cbrt()).abs() < 0.002);
    assert!((drawn(1_000, 10_000) - 0.8).abs() < 0.002, "no ideal clock is above the turbo");
}

/// Headers recorded on a Zen 5: of a plain program, after a write of a ZMM register, after
/// VZEROUPPER.
#[test]
fn recorded_headers_show_which_task_runs_wide_code() {
    let level = |xfeatures: u64| call!(saved(xfeatures => u64) -> u32);
    assert_eq!([0xA2, 0xE6, 0xA2].map(level), [0, 2, 0]);
    assert_eq!([0x0, 0x3, 0x7].map(level), [0, 0, 1]);
    // The kernel's own detection counts ZMM16 to 31 (bit 7) as use: it would mark the plain
    // program.
    let kernels = |xfeatures: u64| xfeatures & (1 << 6 | 1 << 7) != 0;
    assert_eq!((kernels(0xA2), level(0xA2)), (true, 0));
}

#[test]
fn wide_code_at_work_in_few_preemptions_is_not_much() {
    let after = |found: fn(u32) -> bool| {
        (0..400)
            .fold(0, |wide, at| call!(learned(at => u32, wide => u32, found(at) => bool) -> u32))
    };
    let (always, half, seldom) =
        (after(|_| true), after(|at| at % 2 == 0), after(|at| at % 10 == 0));
    assert!((960..=1040).contains(&always), "{always}");
    assert!((430..=560).contains(&half), "{half}");
    assert!((40..=200).contains(&seldom), "{seldom}");
    assert_eq!(after(|_| false), 0);
}

/// `struct license` of license.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Modelled {
    held_until_ns: [u64; 3],
    until_ns: u64,
    level: u32,
    phase: u32,
    to: u32,
    demand: u32,
}

proptest! {
    /// The model in BPF equals the machine's in Rust.
    #[test]
    fn licenses_are_alike_in_c_and_rust(
        demands in prop::collection::vec((1_u64..1_500_000, 0_u8..3), 1..40),
    ) {
        let law = find("xeon-gold-6130").unwrap().frequency.unwrap().license.unwrap();
        let (mut c, mut rust, mut now) = (Modelled::default(), License::default(), 0);
        // One test at a time writes the copy's constants, and always the same values.
        for (after, level) in demands {
            now += after;
            rust.demand(now, level, &law);
            call!(demand(&mut c => *mut Modelled, now => u64, level.into() => u32,
                         law.release_ns => u64, law.throttle_ns => u64, law.halt_ns => u64) -> ());
            let phase = match c.phase {
                0 => Phase::Steady,
                1 => Phase::Throttled(c.until_ns),
                _ => Phase::Halted(c.to as u8, c.until_ns),
            };
            prop_assert_eq!((u32::from(rust.level()), rust.phase()), (c.level, phase), "at {}", now);
        }
    }

    #[test]
    fn the_charge_is_the_formula_within_its_bounds(
        spent in [0..20 * MS, 0..20 * MS, 0..20 * MS],
        active in 1_usize..=16,
        level in 0_u32..3,
    ) {
        prop_assume!(spent.iter().sum::<u64>() > 0);
        let of = stretch(spent, active, level);
        let (ours, exact) = (refund(&of), reference(&of));
        prop_assert!((ours as f64 - exact).abs() <= 10.0, "{} not {}: {:?}", ours, exact, of);
        let least = of.ran_ns as f64 * f64::from(of.khz[2]) / f64::from(of.khz[level as usize]);
        prop_assert!((of.ran_ns - ours) as f64 >= least - 10.0, "less than its share of time: {:?}", of);
    }

    /// Cores become active and idle at any time: how many were active on average.
    #[test]
    fn turbo_goes_by_how_many_cores_were_active(
        changes in prop::collection::vec((1_u64..5000, any::<bool>()), 1..60),
        node in 1_u32..500,
    ) {
        let begin = 1_000 * MS;
        let (mut now, mut cores, mut total, mut busy_ns) = (begin, 1_u32, 0_u64, 0.0);
        call!(comes(node => u32, true => bool, now => u64) -> ());
        call!(mean(node => u32, &mut total => *mut u64, now => u64, now => u64) -> u32);
        for (us, comes) in changes {
            now += us * 1024;
            busy_ns += f64::from(cores) * (us * 1024) as f64;
            if comes || cores > 1 {
                cores = if comes { cores + 1 } else { cores - 1 };
                call!(comes(node => u32, comes => bool, now => u64) -> ());
            }
        }
        let mean = call!(mean(node => u32, &mut total => *mut u64, begin => u64, now => u64) -> u32);
        let wanted = busy_ns / (now - begin) as f64;
        // All become idle, for the next case in this package.
        (0..cores).for_each(|_| call!(comes(node => u32, false => bool, now => u64) -> ()));
        prop_assert!((f64::from(mean) / 64.0 - wanted).abs() < 0.1, "{} not {}", mean, wanted);
    }

    #[test]
    fn no_counts_whatever_make_a_charge_negative_or_more_than_time(
        ran_ns in 0..10_000 * MS,
        cycles in [any::<u64>(), any::<u64>(), any::<u64>()],
        khz in [any::<u32>(), any::<u32>(), any::<u32>()],
        level in any::<u32>(),
    ) {
        let of = Stretch { ran_ns, cycles, khz, level, took_ns: [0; 3] };
        prop_assert!(refund(&of) <= ran_ns);
    }

    /// Counts as a processor has them: a lower clock at each higher level, and no more cycles than
    /// time allows.
    #[test]
    fn counts_of_a_processor_refund_a_part_of_the_time_and_something_to_a_victim(
        ran_ns in MS..10_000 * MS,
        parts in [0.0..1.0, 0.0..1.0, 0.2..1.0],
        khz in 1_000_000..5_000_000_u32,
        slower in [0.5..1.0, 0.5..0.9],
        level in 0..3_u32,
    ) {
        let second = (f64::from(khz) * slower[0]) as u32;
        let khz = [khz, second, (f64::from(second) * slower[1]) as u32];
        let all: f64 = parts.iter().sum();
        let spent = |at: usize| ran_ns as f64 * parts[at] / all;
        let cycles = [0, 1, 2].map(|at| (spent(at) * f64::from(khz[at]) / 1e6) as u64);
        let of = Stretch { ran_ns, cycles, khz, level, took_ns: [0; 3] };
        let refunded = refund(&of);
        prop_assert!(refunded < ran_ns, "{refunded} of {ran_ns}");
        prop_assert_eq!(refunded > 0, level < 2, "{} of {}", refunded, ran_ns);
    }
}
