// SPDX-License-Identifier: GPL-2.0-only
//! Steps the control plane over a table that the test writes in place of a data plane.

use std::cell::RefCell;

use policy::{Keeper, Memory, Place};

use super::*;

const SECOND_NS: u64 = 1_000_000_000;

/// Threads of one process each, with counters that tell their misses, and memory that moves at
/// once.
#[derive(Default)]
struct World {
    /// By thread: misses per 1,000 instructions, and both counters.
    counted: RefCell<BTreeMap<u32, (f64, Counts)>>,
    /// The threads that counts were asked for.
    asked: RefCell<Vec<u32>>,
    pages: RefCell<BTreeMap<u32, Vec<u64>>>,
    pulls: RefCell<Vec<(u32, usize)>>,
    /// How often the places of pages were asked for.
    walks: RefCell<u32>,
    /// Bytes that each node's memory has given.
    traffic: RefCell<Vec<u64>>,
}

impl Memory for World {
    fn counts(&self, tid: u32) -> Option<Counts> {
        self.asked.borrow_mut().push(tid);
        self.counted.borrow().get(&tid).map(|(_, counts)| *counts)
    }

    fn resident(&self, pid: u32) -> Vec<u64> {
        *self.walks.borrow_mut() += 1;
        // As in numa_maps: nodes up to the last one that has pages.
        let mut pages = self.pages.borrow().get(&pid).cloned().unwrap_or_default();
        pages.truncate(pages.iter().rposition(|bytes| *bytes > 0).map_or(0, |last| last + 1));
        pages
    }

    fn traffic(&self) -> Vec<u64> {
        self.traffic.borrow().clone()
    }

    fn pull(&self, pid: u32, node: usize, _: u64) {
        self.pulls.borrow_mut().push((pid, node));
        if let Some(pages) = self.pages.borrow_mut().get_mut(&pid) {
            let all = pages.iter().sum();
            pages
                .iter_mut()
                .enumerate()
                .for_each(|(at, bytes)| *bytes = if at == node { all } else { 0 });
        }
    }
}

struct Bench {
    keeper: Keeper,
    places: Vec<Place>,
    world: World,
    control: Box<dyn Control>,
    now_ns: u64,
}

fn topology(nodes: u16, cpus: u16) -> Topology {
    let all = nodes * cpus;
    Topology {
        llc: (0..all).map(|cpu| cpu / cpus).collect(),
        core: (0..all).collect(),
        node: (0..all).map(|cpu| cpu / cpus).collect(),
        core_type: vec![0; usize::from(all)],
        ..Topology::default()
    }
}

fn name(tid: u32) -> String {
    format!("t{tid}")
}

impl Bench {
    /// Threads of these rates under this policy, with four gigabytes a second for each node. All
    /// pages are on node 0.
    fn new(policy: &str, topology: &Topology, rates: &[f64]) -> Bench {
        Bench::told(policy, topology, rates, &[])
    }

    /// The same, with numbers that a profile has for thread 0, thread 1 and so on.
    fn told(policy: &str, topology: &Topology, rates: &[f64], told: &[&[f64]]) -> Bench {
        let instance = policy::Instance::parse(policy, crate::ALL).unwrap();
        let profile = told.iter().enumerate();
        let profile = profile.map(|(at, told)| (name(100 + at as u32), told.to_vec())).collect();
        let control = (instance.policy.control.unwrap().begin)(&instance, topology, &profile);
        let mut bench = Bench {
            keeper: Keeper::new(),
            places: Vec::new(),
            world: World::default(),
            control,
            now_ns: 0,
        };
        for rate in rates {
            bench.comes(*rate, 0);
        }
        bench
    }

    fn comes(&mut self, rate: f64, node: usize) {
        let pid = 100 + self.places.len() as u32;
        self.places.push(self.keeper.enter(pid, pid, 100).unwrap());
        self.world.counted.borrow_mut().insert(pid, (rate, Counts::default()));
        let pages = (0..4).map(|at| if at == node { 1 << 28 } else { 0 }).collect();
        self.world.pages.borrow_mut().insert(pid, pages);
    }

    fn rate(&self, thread: usize, mpki: f64) {
        self.world.counted.borrow_mut().get_mut(&(100 + thread as u32)).unwrap().0 = mpki;
    }

    /// Lets all threads run for this many seconds.
    fn runs(&mut self, seconds: u32) {
        for _ in 0..seconds {
            self.now_ns += SECOND_NS;
            for place in &self.places {
                self.keeper.charge(place, 0, SECOND_NS, None);
            }
            for (mpki, counts) in self.world.counted.borrow_mut().values_mut() {
                counts.instructions += 1_000_000_000;
                counts.misses += (*mpki * 1e6) as u64;
            }
            self.step();
        }
    }

    /// Lets all threads sleep for this many seconds.
    fn sleeps(&mut self, seconds: u32) {
        for _ in 0..seconds {
            self.now_ns += SECOND_NS;
            self.step();
        }
    }

    fn step(&mut self) {
        self.control.step(&View {
            now_ns: self.now_ns,
            table: self.keeper.table(),
            name_of: &|tid| Some(name(tid)),
            program_of: &|_| None,
            parent_of: &|_| None,
            cgroup_of: &|_| None,
            memory: &self.world,
            read: Default::default(),
        });
    }

    /// The domain of each thread.
    fn at(&self) -> Vec<Option<u64>> {
        let tasks = self.keeper.table().tasks();
        tasks.iter().map(|task| task.share.checked_sub(PLACE)).collect()
    }

    fn pulled(&self) -> Vec<(u32, usize)> {
        self.world.pulls.take()
    }
}

#[test]
fn devils_that_crowd_one_node_are_spread_and_their_memory_follows() {
    let mut bench = Bench::new("dino", &topology(4, 4), &[30.0; 4]);
    bench.runs(3);
    let mut at = bench.at();
    at.sort();
    assert_eq!(at, [Some(0), Some(1), Some(2), Some(3)]);
    assert_eq!(bench.pulled().len(), 3, "one of them is at home");
    bench.runs(60);
    assert_eq!(bench.pulled(), [], "and that is all");
}

#[test]
fn noise_within_a_class_moves_no_thread_under_dino_and_many_under_di_migrate() {
    for (policy, still) in [("dino:gate=off", true), ("di-migrate:filter=off", false)] {
        let rates: Vec<f64> = (0..16).map(|n| if n % 2 == 0 { 30.0 } else { 1.0 }).collect();
        let mut bench = Bench::new(policy, &topology(4, 4), &rates);
        bench.runs(3);
        bench.pulled();
        for second in 0..60 {
            for thread in (0..16).step_by(2) {
                bench.rate(thread, 30.0 + f64::from((second * 7 + thread as u32 * 13) % 20));
            }
            bench.runs(1);
        }
        assert_eq!(bench.pulled().is_empty(), still, "{policy}");
    }
}

#[test]
fn a_turtle_that_becomes_a_devil_is_taken_for_one_after_five_samples() {
    // A devil and a turtle in one domain, two turtles in the other.
    let mut bench = Bench::new("dino:gate=off", &topology(2, 2), &[40.0, 1.0, 1.0, 1.0]);
    bench.runs(12);
    let before = bench.at();
    let beside = (1..4).find(|thread| before[*thread] == before[0]).unwrap();
    bench.rate(beside, 60.0);
    bench.runs(4);
    assert_eq!(bench.at(), before);
    bench.runs(2);
    assert_ne!(bench.at()[beside], bench.at()[0]);
}

#[test]
fn di_plain_moves_no_memory() {
    let mut bench = Bench::new("di-plain", &topology(4, 4), &[30.0, 20.0, 10.0, 5.0]);
    bench.runs(5);
    assert_eq!(bench.at(), [Some(0), Some(1), Some(2), Some(3)]);
    assert_eq!(bench.pulled(), []);
}

#[test]
fn the_gate_stops_moves_while_memory_is_idle() {
    let mut bench = Bench::new("dino:bandwidth=100000", &topology(4, 4), &[3.0; 4]);
    bench.runs(20);
    assert_eq!(bench.at(), [Some(0); 4], "where their pages are");
    assert_eq!(bench.pulled(), []);
    assert!(
        bench.control.says().unwrap().contains("20 plans")
            || bench.control.says().unwrap().contains("19 plans")
    );
}

#[test]
fn the_gate_knows_of_traffic_that_no_thread_here_asks_for() {
    // Four devils use little of a memory that another program keeps busy.
    let mut bench = Bench::new("dino:bandwidth=6000", &topology(4, 4), &[3.0; 4]);
    bench.runs(5);
    assert_eq!((bench.at(), bench.pulled()), (vec![Some(0); 4], vec![]));
    for second in 1..=200 {
        bench.world.traffic.replace(vec![second * 5_000_000_000, 0, 0, 0]);
        bench.runs(1);
    }
    let mut at = bench.at();
    at.sort();
    assert_eq!(at, [Some(0), Some(1), Some(2), Some(3)]);
    assert_eq!(bench.pulled().len(), 3);
}

#[test]
fn act_off_reports_and_moves_nothing() {
    let mut bench = Bench::new("dino:act=off", &topology(4, 4), &[30.0; 4]);
    bench.runs(5);
    assert_eq!((bench.at(), bench.pulled()), (vec![None; 4], vec![]));
    let says = bench.control.says().unwrap();
    assert!(says.starts_with("would be: 4 threads placed in 4 domains, 3 moves"), "{says}");
}

#[test]
fn one_domain_is_nothing_to_choose_from_and_says_so() {
    let mut bench = Bench::new("dino", &topology(1, 8), &[30.0; 4]);
    bench.runs(5);
    assert_eq!(bench.at(), [None; 4]);
    assert!(bench.control.says().unwrap().contains("one memory domain"));
}

#[test]
fn caches_are_domains_where_memory_is_one() {
    let one = Topology { node: vec![0; 4], ..topology(2, 2) };
    let mut bench = Bench::new("di-plain:spread=pairs", &one, &[30.0, 20.0, 2.0, 1.0]);
    bench.runs(3);
    assert_eq!(bench.at(), [Some(0), Some(1), Some(1), Some(0)]);
    let mut bench = Bench::new("di-migrate", &one, &[30.0, 20.0, 2.0, 1.0]);
    bench.runs(3);
    assert_eq!(bench.pulled(), [], "there is nowhere to move memory to");
}

#[test]
fn nodes_of_memory_alone_have_no_threads() {
    let node_distance = vec![vec![10, 20, 28], vec![20, 10, 28], vec![28, 28, 10]];
    let memory_alone = Topology { node_distance, ..topology(2, 4) };
    let mut bench = Bench::new("dino:gate=off", &memory_alone, &[30.0; 8]);
    bench.runs(3);
    assert!(bench.at().iter().all(|at| at.is_some_and(|at| at < 2)));
    assert!(bench.pulled().iter().all(|(_, node)| *node < 2));
}

#[test]
fn without_counters_or_a_profile_no_thread_is_placed() {
    let mut bench = Bench::new("dino", &topology(4, 4), &[30.0; 4]);
    bench.world.counted.borrow_mut().clear();
    bench.runs(10);
    assert_eq!(bench.at(), [None; 4]);
    assert_eq!(bench.control.sources().unknown, 4);
}

#[test]
fn a_profile_goes_before_counters_and_its_last_number_lasts() {
    // By counters no thread misses. The profile says that two are devils, one of them from its
    // third sample on.
    let told: [&[f64]; 2] = [&[30.0], &[0.5, 0.5, 30.0]];
    let mut bench = Bench::told("dino:gate=off,filter=off", &topology(2, 2), &[0.5; 3], &told);
    bench.runs(2);
    let before = bench.at();
    bench.runs(1);
    assert_ne!(bench.at()[0], bench.at()[1], "each devil has a domain, from {before:?}");
    let (after, sources) = (bench.at(), bench.control.sources());
    assert_eq!((sources.profile, sources.counters), (2, 1));
    bench.runs(20);
    assert_eq!(bench.at(), after);
}

#[test]
fn a_turtle_that_is_moved_leaves_its_pages() {
    // Five turtles of one node, where there are places for two.
    for (policy, pulls) in [("dino:gate=off", 0), ("di-migrate", 3)] {
        let mut bench = Bench::new(policy, &topology(3, 2), &[1.0; 5]);
        bench.runs(3);
        assert_eq!(bench.at().iter().filter(|at| **at == Some(0)).count(), 2, "{policy}");
        assert_eq!(bench.pulled().len(), pulls, "{policy}");
    }
}

#[test]
fn a_counter_that_jumps_back_is_no_sample() {
    let mut bench = Bench::new("dino", &topology(4, 4), &[30.0; 4]);
    bench.runs(12);
    let before = bench.at();
    bench.pulled();
    for round in 0..40 {
        let mut counted = bench.world.counted.borrow_mut();
        let counts = &mut counted.get_mut(&101).unwrap().1;
        match round % 2 {
            0 => counts.misses = 0,
            _ => counts.instructions = 0,
        }
        drop(counted);
        bench.runs(1);
    }
    assert_eq!((bench.at(), bench.pulled()), (before, vec![]));
}

#[test]
fn the_gate_takes_a_profile_for_what_threads_ask_for() {
    let told: [&[f64]; 4] = [&[38.0]; 4];
    let mut bench = Bench::told("dino:bandwidth=4000", &topology(4, 4), &[], &told);
    (0..4).for_each(|_| bench.comes(0.0, 0));
    bench.world.counted.borrow_mut().clear();
    bench.runs(3);
    let mut at = bench.at();
    at.sort();
    assert_eq!(at, [Some(0), Some(1), Some(2), Some(3)]);
    assert_eq!(bench.control.sources().profile, 4);
}

#[test]
fn sleeping_threads_have_no_counters() {
    let mut bench = Bench::new("dino", &topology(4, 4), &[30.0; 4]);
    bench.runs(3);
    bench.sleeps(5);
    bench.world.asked.take();
    bench.sleeps(1);
    assert_eq!(bench.world.asked.take(), [] as [u32; 0]);
}

#[test]
fn sleeping_thread_loses_its_place_after_five_intervals() {
    let mut bench = Bench::new("dino", &topology(4, 4), &[30.0; 4]);
    bench.runs(3);
    bench.sleeps(4);
    assert!(bench.at().iter().all(Option::is_some));
    bench.sleeps(1);
    assert_eq!(bench.at(), [None; 4]);
}

#[test]
fn memory_is_not_walked_again_once_it_has_arrived() {
    let mut bench = Bench::new("dino", &topology(4, 4), &[30.0; 2]);
    bench.runs(20);
    assert!(!bench.pulled().is_empty());
    bench.world.walks.take();
    bench.runs(20);
    assert_eq!(bench.world.walks.take(), 0);
}

#[test]
fn pages_that_stay_behind_are_pulled_again_five_times() {
    struct Stuck(World);
    impl Memory for Stuck {
        fn counts(&self, tid: u32) -> Option<Counts> {
            self.0.counts(tid)
        }
        fn resident(&self, pid: u32) -> Vec<u64> {
            self.0.resident(pid)
        }
        fn pull(&self, pid: u32, node: usize, _: u64) {
            self.0.pulls.borrow_mut().push((pid, node));
        }
    }
    let mut bench = Bench::new("dino", &topology(4, 4), &[30.0; 2]);
    let stuck = Stuck(std::mem::take(&mut bench.world));
    for _ in 0..20 {
        bench.now_ns += SECOND_NS;
        for place in &bench.places {
            bench.keeper.charge(place, 0, SECOND_NS, None);
        }
        for (mpki, counts) in stuck.0.counted.borrow_mut().values_mut() {
            counts.instructions += 1_000_000_000;
            counts.misses += (*mpki * 1e6) as u64;
        }
        bench.control.step(&View {
            now_ns: bench.now_ns,
            table: bench.keeper.table(),
            name_of: &|_| None,
            program_of: &|_| None,
            parent_of: &|_| None,
            cgroup_of: &|_| None,
            memory: &stuck,
            read: Default::default(),
        });
    }
    assert_eq!(stuck.0.pulls.borrow().len(), 6, "one move, and five tries after it");
}

#[test]
fn the_last_of_many_threads_costs_no_more_than_the_first() {
    let mut bench = Bench::new("dino:gate=off", &topology(8, 16), &vec![30.0; 10_000]);
    bench.runs(2);
    let at = bench.at();
    for domain in 0..8 {
        assert_eq!(at.iter().filter(|at| **at == Some(domain)).count(), 1250);
    }
}

#[test]
fn threads_leave_a_domain_without_cpus_and_return_when_one_is_online() {
    let mut bench = Bench::new("dino:gate=off", &topology(4, 4), &[30.0; 4]);
    bench.keeper.there([4, 4, 4, 4]);
    bench.runs(3);
    bench.pulled();
    let before = bench.at();
    bench.keeper.there([4, 4, 4, 0]);
    bench.runs(1);
    let gone = before.iter().position(|at| *at == Some(3)).unwrap();
    let moved: Vec<usize> = (0..4).filter(|at| bench.at()[*at] != before[*at]).collect();
    assert_eq!(moved, [gone], "no other thread moves");
    assert_eq!(bench.pulled().len(), 1, "its pages go with it");
    bench.keeper.there([4, 4, 4, 4]);
    bench.runs(1);
    let mut at = bench.at();
    at.sort();
    assert_eq!(at, [Some(0), Some(1), Some(2), Some(3)]);
    bench.keeper.there([4, 0, 0, 0]);
    bench.runs(1);
    assert_eq!(bench.at(), [Some(0); 4], "one that is left");
}
