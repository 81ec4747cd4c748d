// SPDX-License-Identifier: GPL-2.0-only
//! Speeds of cores: their clock, and their work, alone, beside another thread of the core, and after vector code.

use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use super::array::{Array, LINE, Pages, touch};
use super::place::{on, pin};
use super::reading::{Reading, repeat};

const SAMPLES: usize = 60;

/// A chain of xors and rotations. Each waits for the one before, and takes one cycle on all processors of today. No
/// compiler can shorten the chain, as it does not know the key.
#[inline(never)]
fn chain(steps: u32, key: u64) -> u64 {
    let mut state = key;
    for _ in 0..steps {
        state = (state ^ key).rotate_left(7);
    }
    black_box(state)
}

fn chain_ns(steps: u32) -> f64 {
    let key = black_box(0x9E37_79B9_7F4A_7C15);
    let start = Instant::now();
    chain(steps, key);
    start.elapsed().as_nanos() as f64 / f64::from(steps)
}

/// The clock of a busy core, in GHz.
pub fn clock_ghz(cpu: usize) -> io::Result<Option<Reading>> {
    const CYCLES: f64 = 2.0;
    on(cpu, || {
        let ns = repeat(SAMPLES, || chain_ns(50_000));
        Reading::of(&ns.iter().map(|ns| CYCLES / ns).collect::<Vec<f64>>())
    })
}

/// Mixed work: loads from the first cache, arithmetic, unpredictable branches.
fn work(array: &Array, lines: usize) -> u64 {
    let mut sum = touch(array.words(), lines);
    for step in 0..lines as u64 {
        sum = match sum.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 63 {
            0 => sum.rotate_left(9).wrapping_add(step),
            _ => sum ^ step << 3,
        };
    }
    black_box(sum)
}

const WORK_BYTES: usize = 8192;

fn worked_ns(samples: usize) -> io::Result<Vec<f64>> {
    let array = Array::new(WORK_BYTES, Pages::Small)?;
    Ok(repeat(samples, || {
        let start = Instant::now();
        for _ in 0..200 {
            work(&array, WORK_BYTES / LINE);
        }
        start.elapsed().as_nanos() as f64
    }))
}

/// Time of a fixed piece of work on a CPU, in ns: the speed of its kind of core.
pub fn work_ns(cpu: usize) -> io::Result<Option<Reading>> {
    on(cpu, || Ok(Reading::of(&worked_ns(SAMPLES)?)))?
}

/// The same, while the other CPUs do it too.
pub fn side_by_side(cpu: usize, others: &[usize]) -> io::Result<Option<Reading>> {
    let stop = AtomicBool::new(false);
    let stop = &stop;
    thread::scope(|scope| {
        for other in others {
            scope.spawn(move || {
                let array = Array::new(WORK_BYTES, Pages::Small);
                if let (Ok(array), Ok(())) = (array, pin(*other)) {
                    while !stop.load(Ordering::Relaxed) {
                        work(&array, WORK_BYTES / LINE);
                    }
                }
            });
        }
        let measured = work_ns(cpu);
        stop.store(true, Ordering::Relaxed);
        measured
    })
}

/// How much slower a core is just after it has run vector code for a while, as a part of its speed before, and the kind
/// of code. None: it has no such instructions.
pub fn vector_drop(cpu: usize) -> io::Result<Option<(&'static str, Reading)>> {
    const BURN_NS: u128 = 20_000_000;
    let Some((name, burn)) = widest() else { return Ok(None) };
    on(cpu, || {
        let mut drops = Vec::new();
        for _ in 0..8 {
            let before = repeat(5, || chain_ns(20_000));
            let start = Instant::now();
            while start.elapsed().as_nanos() < BURN_NS {
                burn();
            }
            let after = chain_ns(20_000);
            if let Some(before) = Reading::of(&before) {
                drops.push(1.0 - before.median / after);
            }
        }
        Reading::of(&drops).map(|drop| (name, drop))
    })
}

#[cfg(target_arch = "x86_64")]
fn widest() -> Option<(&'static str, fn())> {
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has it
        return Some(("AVX-512", || unsafe { burn_512() }));
    }
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the processor has it
        return Some(("AVX2", || unsafe { burn_256() }));
    }
    None
}

#[cfg(not(target_arch = "x86_64"))]
fn widest() -> Option<(&'static str, fn())> {
    None
}

/// Independent vectors, enough to keep the units busy.
const SIDE_BY_SIDE: usize = 8;

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn burn_512() {
    use std::arch::x86_64::{_mm512_fmadd_pd, _mm512_set1_pd};
    let (a, b) = (_mm512_set1_pd(black_box(0.999)), _mm512_set1_pd(black_box(0.001)));
    let mut sums = [b; SIDE_BY_SIDE];
    for _ in 0..2000 {
        sums.iter_mut().for_each(|sum| *sum = _mm512_fmadd_pd(*sum, a, b));
    }
    black_box(sums);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn burn_256() {
    use std::arch::x86_64::{_mm256_fmadd_pd, _mm256_set1_pd};
    let (a, b) = (_mm256_set1_pd(black_box(0.999)), _mm256_set1_pd(black_box(0.001)));
    let mut sums = [b; SIDE_BY_SIDE];
    for _ in 0..2000 {
        sums.iter_mut().for_each(|sum| *sum = _mm256_fmadd_pd(*sum, a, b));
    }
    black_box(sums);
}

#[cfg(test)]
mod tests {
    use super::super::place;
    use super::*;

    #[test]
    fn cores_have_a_speed() {
        let cpu = place().unwrap().cpus[0];
        let clock = clock_ghz(cpu).unwrap();
        assert!(clock.is_none_or(|clock| (0.01..20.0).contains(&clock.median)), "{clock:?}");
        assert!(work_ns(cpu).unwrap().is_none_or(|work| work.median > 0.0));
        assert!(side_by_side(cpu, &[]).unwrap().is_none_or(|work| work.median > 0.0));
    }
}
