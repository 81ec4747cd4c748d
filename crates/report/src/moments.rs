// SPDX-License-Identifier: GPL-2.0-only
//! When two policies use their CPUs most differently: windows of the time axis, with the program that differs most.

use crate::text::{digits, time};

/// Windows that the common part of two runs is divided into.
const WINDOWS: usize = 48;
/// Most moments that are marked in a picture.
const MOST: usize = 3;
/// A window is marked if at least this many CPUs are used differently, and at least this part of all CPUs.
const WORTH_CPUS: f64 = 0.25;
const WORTH_PART: f64 = 0.05;

/// A stretch of time in which a policy differs from the first one.
#[derive(Clone, Debug, PartialEq)]
pub struct Moment {
    /// Where it begins, ns.
    pub from_ns: f64,
    /// Where it ends, ns.
    pub to_ns: f64,
    /// The difference, in words: `hackbench has 6.2 CPUs (2.1 under cfs)`.
    pub what: String,
}

impl Moment {
    /// The moment as text: when it is, and what differs.
    pub fn told(&self) -> String {
        format!("{} to {}: {}", time(self.from_ns / 1e9), time(self.to_ns / 1e9), self.what)
    }
}

/// CPUs that each program has on average between two times, in ns; the last entry is idle time.
pub type Uses<'a> = &'a dyn Fn(f64, f64) -> Vec<f64>;

/// The windows that differ most, in the order of time. `names` are those of the programs, in the order of [`Uses`],
/// without idle time.
pub fn of(names: &[String], own: Uses, first: (&str, Uses), common_ns: f64) -> Vec<Moment> {
    let window_ns = common_ns / WINDOWS as f64;
    let mut apart: Vec<(usize, f64, Vec<f64>, Vec<f64>)> = (0..WINDOWS)
        .map(|window| {
            let (from, to) = (window as f64 * window_ns, (window + 1) as f64 * window_ns);
            let (own, other) = (own(from, to), first.1(from, to));
            let apart = own.iter().zip(&other).map(|(a, b)| (a - b).abs()).sum::<f64>() / 2.0;
            (window, apart, own, other)
        })
        .collect();
    apart.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let mut chosen: Vec<(usize, Moment)> = Vec::new();
    for (window, apart, own, other) in apart {
        let worth = WORTH_CPUS.max(WORTH_PART * own.iter().sum::<f64>());
        let is_near = chosen.iter().any(|(other, _)| other.abs_diff(window) < 2);
        if chosen.len() == MOST || apart < worth {
            break;
        }
        if is_near {
            continue;
        }
        let from_ns = window as f64 * window_ns;
        let what = differs(names, &own, &other, first.0);
        chosen.push((window, Moment { from_ns, to_ns: from_ns + window_ns, what }));
    }
    chosen.sort_by_key(|(window, _)| *window);
    chosen.into_iter().map(|(_, moment)| moment).collect()
}

fn differs(names: &[String], own: &[f64], other: &[f64], first: &str) -> String {
    // If a program and idle time differ by the same amount, the program is named.
    let most = (0..own.len())
        .rev()
        .max_by(|a, b| (own[*a] - other[*a]).abs().total_cmp(&(own[*b] - other[*b]).abs()));
    let most = most.unwrap_or(0);
    let (own, other) = (digits(own[most]), digits(other[most]));
    match names.get(most) {
        Some(name) => {
            let has = if name.ends_with(" others") { "have" } else { "has" };
            format!("{name} {has} {own} CPUs ({other} under {first})")
        }
        None => format!("{own} CPUs are idle ({other} under {first})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 2] = ["busy", "waits"];

    fn names() -> Vec<String> {
        NAMES.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_window_in_which_a_program_has_other_cpus_is_marked() {
        let first = |_: f64, _: f64| vec![1.0, 1.0, 2.0];
        let own = |from: f64, _: f64| match (500.0..510.0).contains(&from) {
            true => vec![3.0, 1.0, 0.0],
            false => vec![1.0, 1.0, 2.0],
        };
        let found = of(&names(), &own, ("default", &first), 480.0 * 2.0);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].from_ns, found[0].to_ns), (500.0, 520.0));
        assert_eq!(found[0].what, "busy has 3.00 CPUs (1.00 under default)");
    }

    #[test]
    fn what_hardly_differs_is_not_marked() {
        let first = |_: f64, _: f64| vec![1.0, 1.0, 2.0];
        let own = |_: f64, _: f64| vec![1.1, 0.9, 2.0];
        assert!(of(&names(), &own, ("default", &first), 1e9).is_empty());
    }

    #[test]
    fn three_moments_at_most_apart_from_each_other_in_the_order_of_time() {
        let first = |_: f64, _: f64| vec![0.0, 0.0, 4.0];
        let own = |from: f64, _: f64| vec![4.0 - from / 1e3, 0.0, from / 1e3];
        let found = of(&names(), &own, ("default", &first), 960.0);
        assert_eq!(found.len(), MOST);
        let begins: Vec<f64> = found.iter().map(|moment| moment.from_ns).collect();
        assert_eq!(begins, [0.0, 40.0, 80.0]);
    }
}
