// SPDX-License-Identifier: GPL-2.0-only
//! Memory domains: the effect of each of the talk's four factors on a thread, and the results of the modelled machines.

use machine::{Copy, Fabric, Factors, Links, Runs, factors, find, shared_speeds};

fn opteron() -> (Fabric, Links) {
    find("opteron-8356").unwrap().fabric.unwrap()
}

/// A thread on one node's core, with its pages on another node.
fn thread(node: usize, pages: usize, mpki: f64) -> Runs {
    let share = (0..4).map(|at| f64::from(u8::from(at == pages))).collect();
    Runs { node, llc: node, ips: 2.3e9 / 0.8, mpki, pages: share, overlap: None, copied: false }
}

/// How much longer the first thread takes than alone, with its pages on its own node.
fn degradation(runs: &[Runs]) -> f64 {
    let (fabric, links) = opteron();
    1.0 / shared_speeds(&fabric, &links, runs, &[])[0].of_alone - 1.0
}

/// Slide 9: one victim, three aggressors, one factor at a time.
#[test]
fn controller_and_interconnect_hurt_more_than_cache_and_distance() {
    let (fabric, links) = opteron();
    let Factors { cache, controller, interconnect, remote } =
        factors(&fabric, &links, 2.3e9 / 0.8, 30.0);
    println!("CA {cache:.3}, MC {controller:.3}, IC {interconnect:.3}, RL {remote:.3}");
    assert!(controller > remote && controller > cache, "MC {controller}, RL {remote}, CA {cache}");
    assert!(interconnect > remote && interconnect > cache, "IC {interconnect}");
}

#[test]
fn a_thread_alone_at_home_is_the_measure() {
    for mpki in [0.0, 1.0, 20.0, 200.0] {
        let alone = degradation(&[thread(2, 2, mpki)]);
        assert!(alone.abs() < 1e-3, "{mpki} MPKI: {alone}");
    }
    let beside = degradation(&[thread(0, 0, 0.0), thread(0, 0, 100.0)]);
    assert!(beside < 1e-9, "a thread that misses nothing is not slowed");
}

#[test]
fn memory_left_behind_helps_no_thread_and_brought_along_helps_all() {
    let together = degradation(&vec![thread(0, 0, 30.0); 4]);
    let left = [thread(1, 0, 30.0), thread(0, 0, 30.0), thread(2, 0, 30.0), thread(3, 0, 30.0)];
    let left = degradation(&left);
    let brought: Vec<Runs> = (0..4).map(|node| thread(node, node, 30.0)).collect();
    let brought = degradation(&brought);
    println!("together {together:.3}, memory left {left:.3}, brought along {brought:.3}");
    assert!(left > 0.6 * together, "slide 13: the controller stays, and distance is added");
    assert!(brought < 0.05 * together);
}

/// A pointer chaser: nothing overlaps, and nothing else runs.
#[test]
fn latency_is_as_published() {
    let (mut fabric, links) = opteron();
    fabric.overlap = 0.0;
    for (pages, published_ns) in [(0, 130.0), (1, 138.0), (3, 146.0)] {
        let run = thread(0, pages, 1000.0);
        let speed = shared_speeds(&fabric, &links, std::slice::from_ref(&run), &[])[0];
        // Every instruction is a miss: its latency is the time beyond its own.
        let latency_ns = (1.0 / speed.ips - 1.0 / run.ips) * 1e9;
        let off = latency_ns / published_ns - 1.0;
        assert!(off.abs() < 0.15, "node {pages}: {latency_ns:.0} ns of {published_ns} ns");
    }
}

#[test]
fn four_streams_get_nearly_all_that_a_controller_gives() {
    let (fabric, links) = opteron();
    // Prefetched: eight lines in flight at a time, as many as a core of family 10h tracks.
    let stream = |pages: usize| Runs { overlap: Some(0.875), ..thread(0, pages, 120.0) };
    let speeds = shared_speeds(&fabric, &links, &vec![stream(0); 4], &[]);
    let gbs: f64 = speeds.iter().map(|speed| speed.misses * 64.0 / 1e9).sum();
    assert!((0.85..=1.0).contains(&(gbs / fabric.controller_gbs)), "{gbs}");
    let speeds = shared_speeds(&fabric, &links, &vec![stream(1); 4], &[]);
    let remote: f64 = speeds.iter().map(|speed| speed.misses * 64.0 / 1e9).sum();
    assert!((0.85..=1.0).contains(&(remote / 3.2)), "{remote}: a link");
}

#[test]
fn copies_load_both_controllers_and_the_way_between() {
    let (fabric, links) = opteron();
    let copies = [Copy { from: 0, to: 3, rate: 3e9 }];
    let hurt = |run: Runs| {
        let with = shared_speeds(&fabric, &links, std::slice::from_ref(&run), &copies)[0].ips;
        shared_speeds(&fabric, &links, &[run], &[])[0].ips / with - 1.0
    };
    assert!(hurt(thread(0, 0, 30.0)) > 0.02 && hurt(thread(3, 3, 30.0)) > 0.02);
    assert!(hurt(thread(2, 2, 30.0)) < 1e-6, "not on the way");
    assert!(
        hurt(thread(1, 0, 30.0)) > hurt(thread(0, 0, 30.0)),
        "over the same link, against them"
    );
    let copied = Runs { copied: true, ..thread(0, 0, 30.0) };
    let own = shared_speeds(&fabric, &links, &[copied], &[])[0].of_alone;
    assert!((own - (1.0 - fabric.copy_stall)).abs() < 1e-3);
}

#[test]
fn routes_are_shortest() {
    let (_, links) = opteron();
    assert_eq!(
        (links.hops(0, 0), links.hops(0, 1), links.hops(0, 3), links.hops(2, 1)),
        (0, 1, 2, 2)
    );
    let apart = Links::new(vec![vec![1.0; 3]; 3], vec![(0, 1, 1.0)]);
    assert!(apart.unwrap_err().contains("no way"));
    assert!(Links::new(vec![vec![1.0; 2]; 2], vec![(0, 2, 1.0)]).is_err());
}

#[test]
fn more_load_is_never_faster_and_never_more_than_there_is() {
    let (fabric, links) = opteron();
    for mpki in [3.0, 30.0, 100.0] {
        let mut last = f64::INFINITY;
        for count in 1..=4 {
            let speeds = shared_speeds(&fabric, &links, &vec![thread(0, 0, mpki); count], &[]);
            let bytes: f64 = speeds.iter().map(|speed| speed.misses * 64.0).sum();
            assert!(speeds[0].of_alone <= last + 1e-6 && bytes <= fabric.controller_gbs * 1e9);
            last = speeds[0].of_alone;
        }
    }
}

#[test]
fn spreading_over_two_buses_pays_where_memory_is_one() {
    let (fabric, links) = find("xeon-5160-2s").unwrap().fabric.unwrap();
    let run = |llc: usize, mpki: f64| Runs {
        node: 0,
        llc,
        ips: 3e9,
        mpki,
        pages: vec![1.0],
        overlap: None,
        copied: false,
    };
    let sum = |runs: &[Runs]| -> f64 {
        shared_speeds(&fabric, &links, runs, &[]).iter().map(|speed| speed.of_alone).sum()
    };
    let beside = sum(&[run(0, 30.0), run(0, 30.0), run(1, 1.0), run(1, 1.0)]);
    let spread = sum(&[run(0, 30.0), run(1, 30.0), run(0, 1.0), run(1, 1.0)]);
    assert!(spread > 1.03 * beside, "{spread} against {beside}");
}
