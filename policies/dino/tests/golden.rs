// SPDX-License-Identifier: GPL-2.0-only
//! The talk's slides, by hand.

use dino::{Class, Cuts, Domains, Spread, Thread, di, dino};

/// Threads of these rates, in this order, in the domains of `at`.
fn threads(rates: &[f64], cuts: Cuts, at: &[usize]) -> Vec<Thread> {
    let thread = |(id, mpki): (usize, &f64)| Thread {
        at: at.get(id).copied(),
        ..Thread::new(id as u64, *mpki, cuts.class(*mpki))
    };
    rates.iter().enumerate().map(thread).collect()
}

fn moved(before: &[usize], after: &[usize]) -> Vec<usize> {
    (0..before.len()).filter(|id| before[*id] != after[*id]).collect()
}

#[test]
fn slide_12_the_greatest_is_beside_the_least() {
    // A, B, X, Y, sorted; A and B are on one domain before, as in the slide's left half.
    let threads = threads(&[90.0, 70.0, 5.0, 1.0], Cuts::default(), &[0, 0, 1, 1]);
    let domains = Domains::alike(2, 2);
    assert_eq!(di(&threads, &domains, Spread::Pairs), [0, 1, 1, 0], "A with Y, B with X");
    assert_eq!(di(&threads, &domains, Spread::Deal), [0, 1, 0, 1], "the released scheduler");
}

/// Slide 18: ten threads before and after, with the slide's own cuts.
const BEFORE: [f64; 10] = [2.0, 5.0, 7.0, 12.0, 21.0, 35.0, 47.0, 110.0, 150.0, 200.0];
const AFTER: [f64; 10] = [1.0, 3.0, 7.0, 15.0, 27.0, 51.0, 78.0, 92.0, 170.0, 190.0];
const CUTS: Cuts = Cuts::PRESETS[1].1;

fn classes(rates: &[f64]) -> [usize; 3] {
    let of = |class: Class| rates.iter().filter(|rate| CUTS.class(**rate) == class).count();
    [of(Class::Turtle), of(Class::Devil), of(Class::SuperDevil)]
}

#[test]
fn slide_18_classes_of_ten_threads() {
    assert_eq!(classes(&BEFORE), [3, 4, 3]);
    assert_eq!(classes(&AFTER), [3, 5, 2], "110 has become 92: one has jumped");
    assert_eq!(CUTS.class(10.0), Class::Turtle, "C1 <= 10");
    assert_eq!(CUTS.class(100.0), Class::Devil, "C2 <= 100");
}

#[test]
fn slide_18_di_moves_where_positions_change_and_dino_where_classes_do() {
    // The slide does not say which thread has which rate afterwards: neighbours of a class change
    // places here.
    let after = [3.0, 1.0, 7.0, 27.0, 15.0, 78.0, 51.0, 92.0, 190.0, 170.0];
    for domains in [Domains::alike(2, 5), Domains::alike(5, 2)] {
        let first = di(&threads(&BEFORE, CUTS, &[]), &domains, Spread::Deal);
        let second = di(&threads(&after, CUTS, &first), &domains, Spread::Deal);
        assert_eq!(moved(&first, &second), [0, 1, 3, 4, 5, 6, 8, 9], "all that changed positions");

        let first = dino(&threads(&BEFORE, CUTS, &[]), &domains);
        let second = dino(&threads(&after, CUTS, &first), &domains);
        let moved = moved(&first, &second);
        assert!(
            moved.len() <= 2,
            "{moved:?}: the one that jumped, and the one that makes room for it"
        );

        // Without the jump no thread moves.
        let same: Vec<f64> =
            after.iter().map(|rate| if *rate == 92.0 { 110.0 } else { *rate }).collect();
        assert_eq!(dino(&threads(&same, CUTS, &first), &domains), first);
    }
}

#[test]
fn a_layout_has_as_many_of_each_class_everywhere() {
    let rates =
        [200.0, 150.0, 50.0, 40.0, 30.0, 20.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
    let threads = threads(&rates, Cuts::default(), &[]);
    let at = dino(&threads, &Domains::alike(4, 4));
    let count = |domain: usize, from: f64| {
        (0..16).filter(|id| at[*id] == domain && threads[*id].mpki >= from).count()
    };
    // The snake: two super-devils on 0 and 1, devils on 2, 3, 3, 2, ten turtles behind them.
    assert_eq!([0, 1, 2, 3].map(|domain| count(domain, 150.0)), [1, 1, 0, 0]);
    assert_eq!([0, 1, 2, 3].map(|domain| count(domain, 20.0)), [1, 1, 2, 2]);
    assert_eq!([0, 1, 2, 3].map(|domain| count(domain, 0.0)), [4, 4, 4, 4]);
}
