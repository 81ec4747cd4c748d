// SPDX-License-Identifier: GPL-2.0-only
//! Memory domains of a machine: shared caches, the ports behind them, memory controllers, and the links between nodes;
//! and the speed of threads that share them.
//!
//! **Approach.** Each of these gives a number of bytes a second. A thread waits for a line as in an M/M/1 queue,
//! stretched by the burstiness of misses. A line waits for other threads' lines, and for its own thread's other lines
//! in flight, but not for itself (Schweitzer's approximation of mean value analysis). Threads that wait longer ask
//! less, so their speeds are a fixed point.
//!
//! **Source.** The four factors are those of slides 4 to 8 of Blagodurov and others, USENIX ATC 2011: the shared cache
//! (CA), the memory controller (MC), the interconnect (IC), and remote latency (RL). The numbers are the machine's,
//! each with its own source.

use crate::costs::table;

table! {
    /// Costs of shared memory. A machine has none of this if its file has no `[fabric]`.
    Fabric, FABRIC, "fabric";
    /// Bytes a second that a node's memory controller gives.
    controller_gbs, "GB/s", 1, 1.0;
    /// Bytes a second from all memory into the cores under one last-level cache: a front-side bus, or the port of a
    /// cache.
    port_gbs, "GB/s", 1, 1.0;
    /// How many times as long a line waits as it would with evenly spaced misses.
    burst, "1", 1, 1.0;
    /// The part of a miss's latency that a thread does not wait for, as other misses are in flight at the same time.
    /// For threads that do not give their own.
    overlap, "1", 1, 0.0;
    /// Growth of a thread's misses, as a part of them, for each neighbour under its cache that misses `llc_full_mpki`
    /// or more; in proportion for one that misses less.
    llc_growth, "1", 1, 0.0;
    /// The most by which all neighbours together increase them.
    llc_growth_max, "1", 1, 0.0;
    /// See `llc_growth`.
    llc_full_mpki, "MPKI", 1, 1.0;
    /// Bytes a second at which the kernel moves pages between nodes, by one thread.
    copy_gbs, "GB/s", 1, 1.0;
    /// The part of its time that a thread loses while pages of its address space are on the way.
    copy_stall, "1", 1, 0.0;
}

/// Bytes of a line, the unit of a miss.
const LINE: f64 = 64.0;
/// Utilization is capped here: a queue at 1 has no bound.
const FULL: f64 = 0.99;
/// Steps of the fixed point, and the tolerance at which it ends, as a part of a speed.
const STEPS: usize = 200;
const NEAR: f64 = 1e-6;

fn positive(number: f64) -> bool {
    number.is_finite() && number > 0.0
}

/// How nodes are joined.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Links {
    /// Time of one access to an idle memory, ns: by the node of the core and that of the memory.
    pub latency_ns: Vec<Vec<f64>>,
    /// From which node to which, and bytes a second, GB/s, in each direction.
    pub links: Vec<(usize, usize, f64)>,
    /// By pairs of nodes: the links from the one to the other (twice their number, and one more against their
    /// direction). They form a shortest way; of several, the one through the lowest numbers.
    routes: Vec<Vec<Vec<usize>>>,
}

impl Links {
    /// Finds the routes.
    ///
    /// # Errors
    /// A node that cannot be reached, or a matrix of another size.
    pub fn new(latency_ns: Vec<Vec<f64>>, links: Vec<(usize, usize, f64)>) -> Result<Self, String> {
        let nodes = latency_ns.len();
        if latency_ns.iter().any(|row| row.len() != nodes || row.iter().any(|ns| !positive(*ns))) {
            return Err(format!("latency_ns: expected {nodes} rows of {nodes} numbers above 0"));
        }
        if let Some(link) =
            links.iter().find(|(a, b, gbs)| a.max(b) >= &nodes || a == b || !positive(*gbs))
        {
            return Err(format!(
                "links: {link:?}: expected two nodes below {nodes} and a bandwidth above 0"
            ));
        }
        let mut routes = Vec::new();
        for from in 0..nodes {
            // Breadth first: each node by the first way that reaches it.
            let mut ways: Vec<Vec<usize>> = vec![Vec::new(); nodes];
            let (mut reached, mut at) = (vec![from], 0);
            while let Some(&node) = reached.get(at) {
                at += 1;
                let mut next: Vec<(usize, usize)> = Vec::new();
                for (number, &(a, b, _)) in links.iter().enumerate() {
                    if a == node {
                        next.push((b, 2 * number));
                    } else if b == node {
                        next.push((a, 2 * number + 1));
                    }
                }
                next.sort_unstable();
                for (other, link) in next {
                    if !reached.contains(&other) {
                        reached.push(other);
                        ways[other] = [&ways[node][..], &[link]].concat();
                    }
                }
            }
            if reached.len() < nodes {
                return Err(format!("links: no way leads from node {from} to every other"));
            }
            routes.push(ways);
        }
        Ok(Links { latency_ns, links, routes })
    }

    /// The same with the bandwidth of all links multiplied by `bandwidth`, and the extra latency of a remote access by
    /// `distance`; for sweeps.
    #[must_use]
    pub fn scaled(mut self, bandwidth: f64, distance: f64) -> Self {
        self.links.iter_mut().for_each(|(_, _, gbs)| *gbs *= bandwidth);
        for (node, row) in self.latency_ns.iter_mut().enumerate() {
            let local = row[node];
            row.iter_mut().for_each(|ns| *ns = local + distance * (*ns - local));
        }
        self
    }

    /// Links on the way from one node to another.
    pub fn hops(&self, from: usize, to: usize) -> usize {
        self.routes[from][to].len()
    }
}

/// A thread that runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Runs {
    /// The node of its core.
    pub node: usize,
    /// The last-level cache of its core.
    pub llc: usize,
    /// Instructions a second without misses.
    pub ips: f64,
    /// Lines of the last-level cache that it misses in 1,000 instructions, alone under it.
    pub mpki: f64,
    /// The part of its accesses to each node's memory, by the places of its pages. Sums to 1.
    pub pages: Vec<f64>,
    /// The part of a miss's latency that it does not wait for; None: the machine's.
    pub overlap: Option<f64>,
    /// Pages of its address space are being moved.
    pub copied: bool,
}

/// Pages being moved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Copy {
    /// The node they are read from.
    pub from: usize,
    /// The node they are written to.
    pub to: usize,
    /// Bytes a second.
    pub rate: f64,
}

/// The speed of a thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Instructions a second.
    pub ips: f64,
    /// Relative to its speed alone on the machine, with all its pages on its own node.
    pub of_alone: f64,
    /// Misses a second, in lines.
    pub misses: f64,
}

/// The bandwidth of one part, and the copies through it.
struct Part {
    gives: f64,
    copies: f64,
}

/// Speeds of threads beside each other.
pub fn speeds(fabric: &Fabric, links: &Links, runs: &[Runs], copies: &[Copy]) -> Vec<Speed> {
    speeds_by(fabric, links, runs, copies, &mut |run| alone(fabric, links, run))
}

/// The same for a caller that caches the results of [`alone`].
pub fn speeds_by(
    fabric: &Fabric,
    links: &Links,
    runs: &[Runs],
    copies: &[Copy],
    alone: &mut dyn FnMut(&Runs) -> f64,
) -> Vec<Speed> {
    let mut parts = Parts::new(fabric, links, runs);
    for copy in copies {
        parts.copy(links, copy);
    }
    let mpki: Vec<f64> = (0..runs.len()).map(|own| grown(fabric, runs, own)).collect();
    let mut ips: Vec<f64> = runs.iter().map(|run| run.ips).collect();
    let (mut weight, mut last): (f64, f64) = (0.5, f64::INFINITY);
    for _ in 0..STEPS {
        let all = parts.asked(links, runs, &mpki, &ips);
        let next = |own: usize| {
            let load = Load { all: &all, ips: ips[own], mpki: mpki[own] };
            rate(fabric, links, &parts, &runs[own], &load)
        };
        let next: Vec<f64> = (0..runs.len()).map(next).collect();
        let off = |(next, ips): (&f64, &f64)| (next / ips - 1.0).abs();
        let error = next.iter().zip(&ips).map(off).fold(0.0, f64::max);
        // Smaller steps after an overshoot.
        if error > last {
            weight = (weight * 0.7).max(0.01);
        }
        last = error;
        for (ips, next) in ips.iter_mut().zip(&next) {
            *ips += weight * (next - *ips);
        }
        if error <= NEAR {
            break;
        }
    }
    let mut speed = |(own, run): (usize, &Runs)| {
        let lost = if run.copied { 1.0 - fabric.copy_stall } else { 1.0 };
        let ips = ips[own] * lost;
        Speed { ips, of_alone: ips / alone(run), misses: ips * mpki[own] / 1000.0 }
    };
    runs.iter().enumerate().map(&mut speed).collect()
}

/// Instructions a second of a thread alone on the machine, its pages on its own node.
pub fn alone(fabric: &Fabric, links: &Links, run: &Runs) -> f64 {
    let mut pages = vec![0.0; links.latency_ns.len()];
    pages[run.node] = 1.0;
    let local = [Runs { pages, copied: false, ..run.clone() }];
    let parts = Parts::new(fabric, links, &local);
    // It waits for its own other lines: the same fixed point, with one unknown.
    let (mut low, mut high) = (0.0, run.ips);
    for _ in 0..50 {
        let ips = 0.5 * (low + high);
        let all = parts.asked(links, &local, &[run.mpki], &[ips]);
        let load = Load { all: &all, ips, mpki: run.mpki };
        match rate(fabric, links, &parts, &local[0], &load) > ips {
            true => low = ips,
            false => high = ips,
        }
    }
    low
}

/// Misses in 1,000 instructions beside neighbours under the same cache.
fn grown(fabric: &Fabric, runs: &[Runs], own: usize) -> f64 {
    let near = |other: &usize| *other != own && runs[*other].llc == runs[own].llc;
    let others = (0..runs.len()).filter(near);
    let weights = others.map(|other| (runs[other].mpki / fabric.llc_full_mpki).min(1.0));
    let more = (fabric.llc_growth * weights.sum::<f64>()).min(fabric.llc_growth_max);
    runs[own].mpki * (1.0 + more)
}

/// The load on all parts, and a thread's own part of it.
struct Load<'a> {
    /// Bytes a second, by part.
    all: &'a [f64],
    ips: f64,
    mpki: f64,
}

/// Instructions a second of a thread under this load.
fn rate(fabric: &Fabric, links: &Links, parts: &Parts, run: &Runs, load: &Load<'_>) -> f64 {
    let overlap = run.overlap.unwrap_or(fabric.overlap);
    let bytes = load.ips * load.mpki / 1000.0 * LINE;
    let wait = |part: usize| {
        let uses = |(node, _): &(usize, &f64)| parts.way(links, run, *node).any(|own| own == part);
        let own: f64 = run
            .pages
            .iter()
            .enumerate()
            .filter(|(_, pages)| **pages > 0.0)
            .filter(uses)
            .map(|(_, pages)| pages)
            .sum();
        // All but one of its own lines in flight are before it.
        let before = load.all[part] - (1.0 - overlap) * own * bytes;
        parts.list[part].wait_ns(fabric, before)
    };
    let mut latency_ns = 0.0;
    for (node, pages) in run.pages.iter().enumerate().filter(|(_, pages)| **pages > 0.0) {
        let waits: f64 = parts.way(links, run, node).map(wait).sum();
        latency_ns += pages * (links.latency_ns[run.node][node] + waits);
    }
    1.0 / (1.0 / run.ips + load.mpki / 1000.0 * latency_ns * 1e-9 * (1.0 - overlap))
}

/// Controllers, then ports, then both directions of each link.
struct Parts {
    list: Vec<Part>,
    nodes: usize,
    ports: usize,
}

impl Parts {
    fn new(fabric: &Fabric, links: &Links, runs: &[Runs]) -> Self {
        let nodes = links.latency_ns.len();
        let ports = 1 + runs.iter().map(|run| run.llc).max().unwrap_or(0);
        let part = |gbs: f64| Part { gives: gbs * 1e9, copies: 0.0 };
        let mut list = Vec::new();
        list.extend((0..nodes).map(|_| part(fabric.controller_gbs)));
        list.extend((0..ports).map(|_| part(fabric.port_gbs)));
        list.extend(links.links.iter().flat_map(|(_, _, gbs)| [part(*gbs), part(*gbs)]));
        Parts { list, nodes, ports }
    }

    /// Data comes from the memory to the core: over the links in that direction.
    fn way<'a>(
        &'a self,
        links: &'a Links,
        run: &Runs,
        node: usize,
    ) -> impl Iterator<Item = usize> + 'a {
        let link = self.nodes + self.ports;
        let over = links.routes[node][run.node].iter().map(move |number| link + number);
        [node, self.nodes + run.llc].into_iter().chain(over)
    }

    fn copy(&mut self, links: &Links, copy: &Copy) {
        self.list[copy.from].copies += copy.rate;
        self.list[copy.to].copies += copy.rate;
        let link = self.nodes + self.ports;
        for number in &links.routes[copy.from][copy.to] {
            self.list[link + number].copies += copy.rate;
        }
    }

    /// The load on each part, bytes a second.
    fn asked(&self, links: &Links, runs: &[Runs], mpki: &[f64], ips: &[f64]) -> Vec<f64> {
        let mut asked = vec![0.0; self.list.len()];
        for ((run, mpki), ips) in runs.iter().zip(mpki).zip(ips) {
            self.add(links, run, ips * mpki / 1000.0 * LINE, &mut asked);
        }
        asked
    }

    /// Adds the load of a thread that asks for `bytes` bytes a second to each part.
    fn add(&self, links: &Links, run: &Runs, bytes: f64, asked: &mut [f64]) {
        for (node, pages) in run.pages.iter().enumerate().filter(|(_, pages)| **pages > 0.0) {
            self.way(links, run, node).for_each(|part| asked[part] += pages * bytes);
        }
    }
}

impl Part {
    fn wait_ns(&self, fabric: &Fabric, load: f64) -> f64 {
        let full = ((load + self.copies) / self.gives).min(FULL);
        fabric.burst * LINE / self.gives * 1e9 * full / (1.0 - full)
    }
}
