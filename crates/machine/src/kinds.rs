// SPDX-License-Identifier: GPL-2.0-only
//! Kinds of cores, no more than a policy can distinguish.

use crate::Machine;

/// Kinds of cores, the fastest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Kinds {
    /// The kind of each CPU.
    pub of: Vec<u16>,
    /// Work rate of each kind: the mean of its cores.
    pub rates: Vec<f64>,
}

impl Machine {
    /// Its kinds of cores, at most `most`. If there are more, neighbours in speed are merged into one kind. The pair with
    /// the least increase of the sum of squared distances from the mean rate goes first (Ward 1963). Each core still runs
    /// at its own rate.
    pub fn kinds(&self, most: usize) -> Kinds {
        let mut order: Vec<usize> = (0..self.core_rates.len()).collect();
        order.sort_by(|a, b| self.core_rates[*b].total_cmp(&self.core_rates[*a]));
        let cores = |kind: usize| {
            self.cpus.iter().filter(|cpu| usize::from(cpu.core_type) == kind).count() as f64
        };
        let mut groups: Vec<Group> = order
            .into_iter()
            .map(|kind| Group {
                kinds: vec![kind],
                cores: cores(kind),
                rate: self.core_rates[kind],
            })
            .filter(|group| group.cores > 0.0)
            .collect();
        while groups.len() > most.max(1) {
            let spread = |at: &usize| groups[*at].spread_with(&groups[at + 1]);
            let pairs = 0..groups.len() - 1;
            let Some(at) = pairs.min_by(|a, b| spread(a).total_cmp(&spread(b))) else { break };
            let other = groups.remove(at + 1);
            groups[at].join(other);
        }
        let of = |kind: u16| {
            let own = |group: &Group| group.kinds.contains(&usize::from(kind));
            groups.iter().position(own).unwrap_or(0) as u16
        };
        Kinds {
            of: self.cpus.iter().map(|cpu| of(cpu.core_type)).collect(),
            rates: groups.iter().map(|group| group.rate).collect(),
        }
    }
}

/// Core types that count as one kind.
struct Group {
    kinds: Vec<usize>,
    cores: f64,
    rate: f64,
}

impl Group {
    /// The increase of the sum of squared distances if both are merged.
    fn spread_with(&self, other: &Group) -> f64 {
        let both = self.cores * other.cores / (self.cores + other.cores);
        both * (self.rate - other.rate).powi(2)
    }

    fn join(&mut self, other: Group) {
        let all = self.cores + other.cores;
        self.rate = (self.rate * self.cores + other.rate * other.cores) / all;
        self.cores = all;
        self.kinds.extend(other.kinds);
    }
}

#[cfg(test)]
mod tests {
    use crate::find;

    #[test]
    fn few_kinds_are_as_they_are() {
        let machine = find("phenom-2f4s").unwrap();
        let kinds = machine.kinds(4);
        assert_eq!(kinds.of, [0, 0, 1, 1, 1, 1]);
        assert_eq!(kinds.rates, machine.core_rates);
        assert_eq!(find("odroid-xu3").unwrap().kinds(4).of, [1, 1, 1, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn cores_that_are_all_different_are_as_many_kinds_as_fit() {
        let machine = find("die-8").unwrap();
        assert_eq!(machine.core_rates.len(), 8);
        let kinds = machine.kinds(4);
        assert_eq!(kinds.rates.len(), 4);
        assert!(kinds.rates.windows(2).all(|pair| pair[0] > pair[1]), "{kinds:?}");
        for (cpu, kind) in machine.cpus.iter().zip(&kinds.of) {
            let (own, kind) =
                (machine.core_rates[cpu.core_type as usize], kinds.rates[*kind as usize]);
            assert!((own / kind - 1.0).abs() < 0.04, "{own} as {kind}");
        }
        assert_eq!(machine.kinds(1).rates.len(), 1);
    }

    #[test]
    fn a_kind_without_cores_is_none() {
        let machine = find("phenom-2f4s").unwrap().booted_with(2);
        assert_eq!(machine.kinds(4).rates, [1.0]);
    }
}
