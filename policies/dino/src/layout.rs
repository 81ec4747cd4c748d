// SPDX-License-Identifier: GPL-2.0-only
//! Layouts: the memory domain of each place in a sorted list of threads.
//!
//! A place is a number: how many threads stand before it. Domains have as many places as CPUs.
//! Threads beyond that are spread in proportion, so that the same number waits for each CPU
//! everywhere.

/// Memory domains: CPUs that share a memory controller, or a cache if there is only one controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Domains {
    /// The number of CPUs of each; 0: the domain has memory only.
    pub cpus: Vec<usize>,
    /// The distance of each from each, as in ACPI's SLIT: 10 is itself.
    pub distance: Vec<Vec<u32>>,
}

impl Domains {
    /// This many domains of as many CPUs each, all at the same distance.
    pub fn alike(domains: usize, cpus: usize) -> Domains {
        let far = |a: usize, b: usize| if a == b { 10 } else { 20 };
        let row = |a: usize| (0..domains).map(|b| far(a, b)).collect();
        Domains { cpus: vec![cpus; domains], distance: (0..domains).map(row).collect() }
    }

    /// The domains that have CPUs.
    pub fn used(&self) -> impl Iterator<Item = usize> {
        (0..self.cpus.len()).filter(|domain| self.cpus[*domain] > 0)
    }

    /// The number of domains that have CPUs.
    pub fn count(&self) -> usize {
        self.used().count()
    }

    /// The distance of one domain from another. If it is unknown, the default distance of the next
    /// node.
    pub fn far(&self, from: usize, to: usize) -> u32 {
        let told = self.distance.get(from).and_then(|row| row.get(to));
        told.copied().unwrap_or(if from == to { 10 } else { 20 })
    }

    /// The places of each domain for this many threads.
    pub fn places(&self, threads: usize) -> Vec<usize> {
        let all: usize = self.cpus.iter().sum();
        if threads <= all || all == 0 {
            return self.cpus.clone();
        }
        // Whole numbers leave a rest, which goes to the greatest remainders.
        let part = |cpus: &usize| (threads * cpus / all, threads * cpus % all);
        let mut places: Vec<usize> = self.cpus.iter().map(|cpus| part(cpus).0).collect();
        let mut order: Vec<usize> = self.used().collect();
        order.sort_by_key(|domain| std::cmp::Reverse(part(&self.cpus[*domain]).1));
        let left = threads - places.iter().sum::<usize>();
        order.into_iter().take(left).for_each(|domain| places[domain] += 1);
        places
    }
}

/// How a sorted list is spread over domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// The most and the least misses together (slide 12: A with Y, B with X).
    Pairs,
    /// One for each domain, from the first, repeatedly: the authors' released scheduler.
    Deal,
}

/// The domain of each place in a list sorted by misses, most first.
pub fn spread(how: Spread, threads: usize, domains: &Domains) -> Vec<usize> {
    let turns = rounds(threads, domains, |_, order| order.to_vec());
    match how {
        Spread::Deal => turns,
        Spread::Pairs => {
            let round = domains.count().max(1);
            let mut at = vec![0; threads];
            let (mut first, mut last) = (0, threads);
            for (turn, domain) in turns.into_iter().enumerate() {
                let from_top = (turn / round).is_multiple_of(2);
                match from_top {
                    true => first += 1,
                    false => last -= 1,
                }
                at[if from_top { first - 1 } else { last }] = domain;
            }
            at
        }
    }
}

/// Like `spread`, in snake order: from the first domain to the last, and back.
pub fn snake(threads: usize, domains: &Domains) -> Vec<usize> {
    rounds(threads, domains, |round, order| match round % 2 {
        0 => order.to_vec(),
        _ => order.iter().rev().copied().collect(),
    })
}

/// In each round, gives one place to each domain that has one left, in the order of `turn`.
fn rounds(
    threads: usize,
    domains: &Domains,
    turn: impl Fn(usize, &[usize]) -> Vec<usize>,
) -> Vec<usize> {
    let order: Vec<usize> = domains.used().collect();
    let mut left = domains.places(threads);
    let mut at = Vec::with_capacity(threads);
    let mut round = 0;
    while at.len() < threads && left.iter().any(|places| *places > 0) {
        for domain in turn(round, &order) {
            if left[domain] > 0 && at.len() < threads {
                left[domain] -= 1;
                at.push(domain);
            }
        }
        round += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snake_turns_at_both_ends() {
        let snake = snake(10, &Domains::alike(4, 4));
        assert_eq!(snake, [0, 1, 2, 3, 3, 2, 1, 0, 0, 1]);
    }

    #[test]
    fn small_domains_fill_up_and_memory_alone_has_no_threads() {
        let domains = Domains { cpus: vec![1, 0, 3], distance: Vec::new() };
        assert_eq!(spread(Spread::Deal, 4, &domains), [0, 2, 2, 2]);
        assert_eq!(snake(3, &domains), [0, 2, 2]);
        assert_eq!(domains.count(), 2);
        assert_eq!(domains.far(0, 2), 20);
    }

    #[test]
    fn threads_beyond_the_cpus_are_spread_in_proportion() {
        let domains = Domains { cpus: vec![2, 4, 2], distance: Vec::new() };
        assert_eq!(domains.places(8), [2, 4, 2]);
        assert_eq!(domains.places(16), [4, 8, 4]);
        assert_eq!(domains.places(17).iter().sum::<usize>(), 17);
        let dealt = spread(Spread::Deal, 24, &domains);
        let at = |domain: usize| dealt.iter().filter(|at| **at == domain).count();
        assert_eq!([at(0), at(1), at(2)], [6, 12, 6]);
    }

    #[test]
    fn pairs_come_from_both_ends() {
        assert_eq!(spread(Spread::Pairs, 4, &Domains::alike(2, 2)), [0, 1, 1, 0]);
        assert_eq!(spread(Spread::Pairs, 6, &Domains::alike(2, 4)), [0, 1, 0, 1, 1, 0]);
        assert_eq!(spread(Spread::Deal, 4, &Domains::alike(2, 2)), [0, 1, 0, 1]);
    }
}
