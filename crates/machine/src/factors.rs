// SPDX-License-Identifier: GPL-2.0-only
//! The four factors of contention one at a time: one victim, three aggressors, and nothing else (slides 4 to 9 of
//! Blagodurov and others, USENIX ATC 2011).

use crate::fabric::{Fabric, Links, Runs, speeds};

/// A bandwidth that is never used up, GB/s.
const AMPLE: f64 = 1e3;

/// How much longer the victim takes than alone, as a part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factors {
    /// CA: all under one cache, with a controller of ample bandwidth.
    pub cache: f64,
    /// MC: each under a cache of its own, all memory on one node, over links of ample bandwidth.
    pub controller: f64,
    /// IC: two pairs fetch over links from a node with a controller of ample bandwidth.
    pub interconnect: f64,
    /// RL: the victim alone, its memory as far away as it can be, over links of ample bandwidth.
    pub remote: f64,
}

/// For threads of `ips` instructions a second and `mpki` misses in 1,000, on a machine of at least four nodes.
pub fn factors(fabric: &Fabric, links: &Links, ips: f64, mpki: f64) -> Factors {
    let nodes = links.latency_ns.len();
    let thread = |node: usize, memory: usize| {
        let pages = (0..nodes).map(|at| f64::from(u8::from(at == memory))).collect();
        Runs { node, llc: node, ips, mpki, pages, overlap: None, copied: false }
    };
    let wide = links.clone().scaled(AMPLE, 1.0);
    let ample = Fabric { controller_gbs: AMPLE, ..fabric.clone() };
    let longer = |fabric: &Fabric, links: &Links, runs: &[Runs]| {
        1.0 / speeds(fabric, links, runs, &[])[0].of_alone - 1.0
    };
    let far = |from: usize, to: &usize| links.hops(from, *to);
    let farthest = (0..nodes).max_by_key(|to| far(0, to)).unwrap_or(0);
    let nearest = (1..nodes).min_by_key(|to| far(0, to)).unwrap_or(0);
    // The other pair comes the same way, or from across it.
    let pair = [
        thread(0, nearest),
        thread(farthest, nearest),
        thread(farthest, nearest),
        thread(0, nearest),
    ];
    Factors {
        cache: longer(&ample, &wide, &[thread(0, 0), thread(0, 0), thread(0, 0), thread(0, 0)]),
        controller: longer(
            fabric,
            &wide,
            &[thread(0, 0), thread(1, 0), thread(2, 0), thread(3, 0)],
        ),
        interconnect: longer(&ample, links, &pair),
        remote: longer(fabric, &wide, &[thread(0, farthest)]),
    }
}
