// SPDX-License-Identifier: GPL-2.0-only
//! Finds the values of a few knobs that gain most, in few runs.
//!
//! Successive halving over seeds (Karnin, Koren and Somekh 2013): many candidates have few runs each, the better ones
//! have more, and new candidates come up around these. All candidates have the same seeds, and each is compared with the
//! defaults under the same seed, so what chance does to all of them alike counts for none. From the second round on, the
//! search ends when a round improves the best gain by less than its standard error.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::draw::coordinates;

/// A place in the space of all values: a part from 0 to less than 1 for each knob.
pub type Place = Vec<f64>;

/// A knob, as a search sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Values next to each other are alike.
    Ordered,
    /// Words, so many of them, in no order.
    Words(usize),
}

/// What a search asks.
pub trait Response {
    /// Why it has no answer.
    type Error;

    /// What a place is called: places with the same name are one candidate.
    fn name(&self, place: &[f64]) -> String;

    /// The gain over the defaults of each candidate with each seed, as logarithms. None: it failed.
    ///
    /// # Errors
    /// There is no answer, and the search ends.
    fn gains(&mut self, wanted: &[(String, u64)]) -> Result<Vec<Option<f64>>, Self::Error>;
}

/// A candidate.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its name.
    pub name: String,
    /// Its place.
    pub place: Place,
    /// Its gains by seed, as logarithms.
    pub gains: Vec<f64>,
    /// One of its runs failed.
    pub failed: bool,
}

/// Seeds of a new candidate, and of the last ones.
const FIRST: u64 = 2;
pub const LAST: u64 = 5;
/// Most rounds of new candidates around the better ones.
const ROUNDS: u32 = 3;
/// Better ones around which new candidates come up.
const LEADERS: usize = 2;
/// Gains that differ by less are alike; then the candidate nearest to the defaults is the best one.
const ALIKE: f64 = 0.002;
/// Part of new candidates with another word.
const OTHER_WORD: f64 = 0.25;

impl Candidate {
    /// Its mean gain, as a logarithm.
    pub fn mean(&self) -> f64 {
        match (self.failed, self.gains.len()) {
            (true, _) | (_, 0) => f64::NEG_INFINITY,
            (false, count) => self.gains.iter().sum::<f64>() / count as f64,
        }
    }
}

struct Search<'r, R> {
    response: &'r mut R,
    axes: &'r [Axis],
    all: BTreeMap<String, Candidate>,
    random: Pcg64,
    most: usize,
    runs: usize,
}

/// The defaults, which gain nothing and need no run of their own.
#[derive(Clone, Copy, Debug)]
pub struct Defaults<'d> {
    /// Their name.
    pub name: &'d str,
    /// The place that is nearest to them.
    pub at: &'d [f64],
    /// They keep the limits.
    pub keep: bool,
}

/// The fewest runs of a search in this many knobs.
pub fn least(axes: usize) -> usize {
    FIRST as usize * (2 + 2 * axes) + kept_back()
}

/// Runs that the last candidates have for themselves.
fn kept_back() -> usize {
    (LAST - FIRST) as usize * LEADERS
}

/// Searches with at most so many runs, and [`least`] of them. Returns all candidates, the best first.
///
/// # Errors
/// Those of the response.
pub fn search<R: Response>(
    response: &mut R,
    axes: &[Axis],
    defaults: Defaults,
    most: usize,
) -> Result<Vec<Candidate>, R::Error> {
    let random = Pcg64::seed_from_u64(1);
    let most = most.saturating_sub(kept_back());
    let mut search = Search { response, axes, all: BTreeMap::new(), random, most, runs: 0 };
    let none = Candidate {
        name: defaults.name.to_string(),
        place: Place::new(),
        gains: vec![0.0; LAST as usize],
        failed: !defaults.keep,
    };
    search.all.insert(defaults.name.to_string(), none);
    let first = search.spread((4 + 4 * axes.len()).min(search.most / FIRST as usize));
    search.add(first, FIRST)?;
    let mut width = 0.5 / (4.0 + 4.0 * axes.len() as f64).powf(1.0 / axes.len() as f64);
    for round in 0..ROUNDS {
        let (before, failed) = (search.most(), search.failed());
        let leaders = search.leaders(LEADERS);
        let near: Vec<Place> = leaders
            .iter()
            .filter_map(|name| Some(search.all[name].place.clone()).filter(|it| !it.is_empty()))
            .flat_map(|place| (0..axes.len() + 1).map(move |_| place.clone()))
            .collect();
        let near: Vec<Place> = near.iter().map(|place| search.near(place, width)).collect();
        search.add(near, FIRST)?;
        let leaders = search.leaders(LEADERS + 1);
        search.more(&leaders, FIRST + 1 + u64::from(round))?;
        width /= 2.0;
        // After a leader failed, the best gain is another candidate's.
        let is_known = round > 0 && search.failed() == failed;
        if is_known && search.most() - before < search.chance().max(ALIKE) {
            break;
        }
    }
    search.most += kept_back();
    loop {
        let last = search.nearest_to_defaults(defaults.at);
        let stands = |search: &Search<R>| last.iter().any(|name| !search.all[name].failed);
        // If those fail with the last seeds, the next ones have their turn.
        let stood = stands(&search);
        search.more(&last, LAST)?;
        if !stood || stands(&search) {
            break;
        }
    }
    let mut all: Vec<Candidate> = search.all.into_values().collect();
    let sure = |it: &Candidate| !it.failed && it.gains.len() as u64 >= LAST;
    let most =
        all.iter().filter(|it| sure(it)).map(Candidate::mean).fold(f64::NEG_INFINITY, f64::max);
    // Those with all seeds first; of those that gain alike, the mildest.
    let order = |it: &Candidate| {
        let less =
            if it.mean().is_finite() { ((most - it.mean()) / ALIKE).floor() } else { f64::MAX };
        (!sure(it), less, distance(&it.place, defaults.at))
    };
    all.sort_by(|one, other| order(one).partial_cmp(&order(other)).expect("they are numbers"));
    Ok(all)
}

/// How far a place is from the defaults, which have none.
fn distance(place: &[f64], defaults: &[f64]) -> f64 {
    place.iter().zip(defaults).map(|(one, other)| (one - other).powi(2)).sum()
}

impl<R: Response> Search<'_, R> {
    /// The candidates that come last: the best one, and of those that gain as much the nearest to the defaults.
    fn nearest_to_defaults(&self, defaults: &[f64]) -> Vec<String> {
        let mut leaders = self.leaders(1);
        let most = self.most();
        let alike = |it: &&Candidate| it.mean() > most - ALIKE;
        let near = self.all.values().filter(alike).min_by(|one, other| {
            let far = |it: &Candidate| distance(&it.place, defaults);
            far(one).total_cmp(&far(other))
        });
        let near = near.map(|it| it.name.clone()).filter(|it| !leaders.contains(it));
        leaders.extend(near);
        leaders
    }

    /// Places all over the space: a Latin hypercube.
    fn spread(&mut self, count: usize) -> Vec<Place> {
        let column = |_: &Axis| coordinates(count, &mut self.random);
        let columns: Vec<Vec<f64>> = self.axes.iter().map(column).collect();
        (0..count).map(|at| columns.iter().map(|column| column[at]).collect()).collect()
    }

    /// A place near another one.
    fn near(&mut self, place: &[f64], width: f64) -> Place {
        let move_by = |(at, axis): (&f64, &Axis)| match axis {
            Axis::Ordered => {
                let by = self.random.random_range(-width..width);
                (at + by).clamp(0.0, 1.0 - f64::EPSILON)
            }
            Axis::Words(_) if self.random.random_bool(OTHER_WORD) => self.random.random::<f64>(),
            Axis::Words(_) => *at,
        };
        place.iter().zip(self.axes).map(move_by).collect()
    }

    /// The gain of the best candidate.
    fn most(&self) -> f64 {
        self.all.values().map(|it| self.smooth(it)).fold(f64::NEG_INFINITY, f64::max)
    }

    /// Candidates that failed.
    fn failed(&self) -> usize {
        self.all.values().filter(|it| it.failed).count()
    }

    /// The standard error of the best candidate's gain. All candidates are taken to have the same variance over seeds.
    fn chance(&self) -> f64 {
        let (mut squares, mut free) = (0.0, 0);
        let known = |it: &&Candidate| !it.failed && !it.place.is_empty() && it.gains.len() > 1;
        for it in self.all.values().filter(known) {
            squares += it.gains.iter().map(|gain| (gain - it.mean()).powi(2)).sum::<f64>();
            free += it.gains.len() - 1;
        }
        let seeds = self.leaders(1).first().map_or(1, |name| self.all[name].gains.len());
        (squares / free.max(1) as f64 / seeds.max(1) as f64).sqrt()
    }

    /// Candidates that gain most.
    fn leaders(&self, count: usize) -> Vec<String> {
        let mut all: Vec<&Candidate> = self.all.values().collect();
        all.sort_by(|one, other| self.smooth(other).total_cmp(&self.smooth(one)));
        all.iter().take(count).map(|it| it.name.clone()).collect()
    }

    /// A candidate's mean gain, with those of its neighbours: chance does not favour all of them.
    fn smooth(&self, of: &Candidate) -> f64 {
        const NEAR: f64 = 0.06;
        if of.failed || of.place.is_empty() {
            return of.mean();
        }
        let (mut sum, mut weights) = (0.0, 0.0);
        let others = self.all.values().filter(|it| !it.place.is_empty() && !it.failed);
        for other in others.filter(|it| !it.gains.is_empty()) {
            let apart = |((one, other), axis): ((&f64, &f64), &Axis)| match axis {
                Axis::Ordered => (one - other).powi(2),
                Axis::Words(words) => {
                    let word = |at: f64| (at * *words as f64) as usize;
                    if word(*one) == word(*other) { 0.0 } else { f64::INFINITY }
                }
            };
            let pairs = of.place.iter().zip(&other.place).zip(self.axes);
            let squared: f64 = pairs.map(apart).sum();
            let weight = (-squared / (2.0 * NEAR * NEAR)).exp() * other.gains.len() as f64;
            sum += weight * other.mean();
            weights += weight;
        }
        if weights > 0.0 { sum / weights } else { of.mean() }
    }

    fn add(&mut self, places: Vec<Place>, seeds: u64) -> Result<(), R::Error> {
        let mut new = Vec::new();
        for place in places {
            let name = self.response.name(&place);
            let runs = self.runs + (new.len() + 1) * seeds as usize;
            if !self.all.contains_key(&name) && runs <= self.most {
                let gains = Vec::new();
                let one = Candidate { name: name.clone(), place, gains, failed: false };
                self.all.insert(name.clone(), one);
                new.push(name);
            }
        }
        self.more(&new, seeds)
    }

    /// Runs these until each has so many seeds, if there are runs left.
    fn more(&mut self, names: &[String], seeds: u64) -> Result<(), R::Error> {
        let mut wanted = Vec::new();
        for name in names {
            let has = self.all[name].gains.len() as u64;
            let missing = if self.all[name].failed { 0..0 } else { has..seeds };
            let left = self.most.saturating_sub(self.runs + wanted.len());
            if missing.clone().count() <= left {
                wanted.extend(missing.map(|seed| (name.clone(), seed)));
            }
        }
        self.runs += wanted.len();
        let gains = self.response.gains(&wanted)?;
        for ((name, _), gain) in wanted.iter().zip(gains) {
            let one = self.all.get_mut(name).expect("it was added");
            match gain {
                Some(gain) => one.gains.push(gain),
                None => one.failed = true,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::statistics::Mean;
    use crate::tune::GAIN_LEAST;

    /// A response with a known optimum and added noise.
    struct Planted {
        axes: &'static [Axis],
        of: fn(&[f64]) -> f64,
        number: u64,
        /// Standard deviation of a gain.
        noise: f64,
    }

    /// Values of an ordered axis in a grid, and seeds of each point there.
    const VALUES: usize = 40;
    const SEEDS: usize = 10;
    const NOISE: f64 = 0.01;

    fn values(axis: Axis) -> usize {
        match axis {
            Axis::Ordered => VALUES,
            Axis::Words(words) => words,
        }
    }

    impl Planted {
        /// The value that a place stands for.
        fn snapped(&self, place: &[f64]) -> Place {
            let snap = |(at, axis): (&f64, &Axis)| {
                let values = values(*axis) as f64;
                ((at * values).floor() + 0.5) / values
            };
            place.iter().zip(self.axes).map(snap).collect()
        }

        fn grid(&self) -> usize {
            SEEDS * self.axes.iter().map(|axis| values(*axis)).product::<usize>()
        }
    }

    impl Response for Planted {
        type Error = Infallible;

        fn name(&self, place: &[f64]) -> String {
            self.snapped(place).iter().map(f64::to_string).collect::<Vec<_>>().join(" ")
        }

        fn gains(&mut self, wanted: &[(String, u64)]) -> Result<Vec<Option<f64>>, Infallible> {
            let gain = |(name, seed): &(String, u64)| {
                let place: Place = name.split(' ').map(|at| at.parse().unwrap()).collect();
                let mixed = name.bytes().fold(self.number * 1_000 + seed, |all, byte| {
                    all.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(byte.into())
                });
                let mut random = Pcg64::seed_from_u64(mixed);
                let normal = (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
                Some((self.of)(&place) + self.noise * normal)
            };
            Ok(wanted.iter().map(gain).collect())
        }
    }

    /// 1 at a place, and less the farther from it.
    fn bump(at: f64, of: f64, wide: f64) -> f64 {
        (-((of - at) / wide).powi(2)).exp()
    }

    const ONE: &[Axis] = &[Axis::Ordered];
    const TWO: &[Axis] = &[Axis::Ordered, Axis::Ordered];
    const THREE: &[Axis] = &[Axis::Ordered, Axis::Ordered, Axis::Words(3)];

    type Load = (&'static [Axis], fn(&[f64]) -> f64, f64);

    /// Gains by place, and the greatest gain.
    const LOADS: [Load; 10] = [
        (ONE, |x| 0.2 * bump(0.7, x[0], 0.3), 0.2),
        (ONE, |x| 0.3 * bump(0.15, x[0], 0.15), 0.3),
        (ONE, |x| 0.1 * x[0], 0.1),
        (ONE, |x| -0.2 * x[0], 0.0),
        (ONE, |x| 0.15 * bump(0.3, x[0], 0.1) + 0.25 * bump(0.8, x[0], 0.15), 0.25),
        (TWO, |x| 0.3 * bump(0.4, x[0], 0.3) * bump(0.6, x[1], 0.3), 0.3),
        (TWO, |x| 0.2 * bump(0.9, x[0], 0.3) - 0.1 * x[1], 0.2),
        (TWO, |x| 0.1 * x[0] - 0.4 * (x[0] - x[1]).abs(), 0.1),
        (THREE, |x| 0.2 * bump(0.5, x[0], 0.4) + if x[2] > 0.66 { 0.1 } else { 0.0 }, 0.3),
        (THREE, |x| if x[2] < 0.33 { 0.25 * bump(0.3, x[1], 0.3) } else { 0.05 * x[0] }, 0.25),
    ];

    /// What was found, and in how many runs.
    fn searched(
        axes: &'static [Axis],
        of: fn(&[f64]) -> f64,
        number: u64,
    ) -> (Candidate, usize, Planted) {
        let mut planted = Planted { axes, of, number, noise: NOISE };
        let at = vec![0.0; axes.len()];
        let defaults = Defaults { name: "defaults", at: &at, keep: true };
        let all = search(&mut planted, axes, defaults, 200).unwrap();
        let others = all.iter().filter(|it| !it.place.is_empty());
        let runs = others.map(|it| it.gains.len()).sum();
        (all[0].clone(), runs, planted)
    }

    #[test]
    fn ten_known_optima_are_found_in_a_tenth_of_the_grids_runs() {
        for number in 0..20 {
            for (load, (axes, of, best)) in LOADS.into_iter().enumerate() {
                let (found, runs, planted) = searched(axes, of, number);
                let is_default = found.place.is_empty();
                let gain = if is_default { 0.0 } else { of(&planted.snapped(&found.place)) };
                let grid = planted.grid();
                assert!(best - gain < 0.02, "load {load}, {number}: {gain} of {best}");
                assert!(10 * runs <= grid, "load {load}, {number}: {runs} runs of {grid}");
            }
        }
    }

    /// What gains most by chance alone has no gain with ten other seeds, and few runs are spent on it.
    #[test]
    fn on_flat_loads_there_is_nothing_to_gain_and_the_search_ends_early() {
        let flat: [Load; 3] = [
            (ONE, |_| 0.0, 0.0),
            (TWO, |x| 0.001 * (x[0] - x[1]), 0.001),
            (THREE, |x| if x[2] < 0.3 { -0.3 } else { 0.0 }, 0.0),
        ];
        for (axes, of, _) in flat {
            let mut all_runs = Vec::new();
            for number in 0..20 {
                let (best, runs, mut planted) = searched(axes, of, number);
                all_runs.push(runs);
                if best.place.is_empty() {
                    continue;
                }
                let unseen: Vec<_> = (1_000..1_010).map(|seed| (best.name.clone(), seed)).collect();
                let gains = planted.gains(&unseen).unwrap().into_iter().flatten();
                let gain = Mean::of(&gains.collect::<Vec<_>>()).map(Mean::exp).unwrap();
                assert!(!gain.is_above(GAIN_LEAST), "{number}: {gain:?}");
            }
            let round = FIRST as usize * LEADERS * (axes.len() + 1) + LEADERS + 1;
            let two = FIRST as usize * (4 + 4 * axes.len()) + 2 * round + kept_back();
            let average = all_runs.iter().sum::<usize>() / all_runs.len();
            assert!(average <= two, "more than two rounds: {all_runs:?}");
        }
    }

    #[test]
    fn a_search_ends_with_its_runs() {
        let mut planted = Planted { axes: THREE, of: LOADS[8].1, number: 1, noise: NOISE };
        let defaults = Defaults { name: "defaults", at: &[0.0; 3], keep: true };
        for most in [least(3), 40, 60] {
            let all = search(&mut planted, THREE, defaults, most).unwrap();
            let others = || all.iter().filter(|it| !it.place.is_empty());
            let runs: usize = others().map(|it| it.gains.len()).sum();
            assert!(runs <= most && all.len() > 5, "{runs} of {most}");
            // The best one has had all seeds, and none is listed that had no run.
            assert_eq!(all[0].gains.len() as u64, LAST);
            assert!(!all[0].place.is_empty() && others().all(|it| !it.gains.is_empty()));
        }
    }

    /// Candidates that break a limit with a later seed leave the search to others.
    #[test]
    fn candidates_that_fail_late_end_no_search() {
        struct Late(Planted, u64);
        impl Response for Late {
            type Error = Infallible;

            fn name(&self, place: &[f64]) -> String {
                self.0.name(place)
            }

            fn gains(&mut self, wanted: &[(String, u64)]) -> Result<Vec<Option<f64>>, Infallible> {
                let all = self.0.gains(wanted)?.into_iter().zip(wanted);
                let at = |name: &str| name.split(' ').next().unwrap().parse::<f64>().unwrap();
                let fails = |(name, seed): &(String, u64)| *seed >= self.1 && at(name) > 0.8;
                Ok(all.map(|(gain, one)| gain.filter(|_| !fails(one))).collect())
            }
        }
        for number in 0..20 {
            for from in [FIRST, LAST - 1] {
                let of: fn(&[f64]) -> f64 = |x| 0.5 * (x[0] + x[1]);
                let mut late = Late(Planted { axes: TWO, of, number, noise: 0.001 }, from);
                let defaults = Defaults { name: "defaults", at: &[0.0; 2], keep: true };
                let all = search(&mut late, TWO, defaults, 200).unwrap();
                assert!(all[0].mean() > 0.6, "{number}, from seed {from}: {:?}", all[0]);
            }
        }
    }

    /// All values up to a half gain alike.
    #[test]
    fn of_values_that_gain_alike_the_mildest_is_best() {
        let of: fn(&[f64]) -> f64 = |x| if x[0] < 0.5 { 0.2 } else { 0.0 };
        let mut planted = Planted { axes: ONE, of, number: 1, noise: 0.0 };
        let mut best = |at: f64| {
            let defaults = Defaults { name: "defaults", at: &[at], keep: true };
            search(&mut planted, ONE, defaults, 200).unwrap()[0].place[0]
        };
        let (low, high) = (best(0.0), best(0.9));
        assert!(low < 0.2 && high > 0.3, "{low} {high}");
    }

    /// The defaults do not keep a limit: any candidate that does is better.
    #[test]
    fn defaults_that_break_a_limit_are_not_the_best() {
        let mut planted = Planted { axes: ONE, of: |x| -0.2 - x[0], number: 1, noise: NOISE };
        let best = |planted: &mut Planted, keep| {
            let defaults = Defaults { name: "defaults", at: &[0.0], keep };
            search(planted, ONE, defaults, 200).unwrap()[0].name.clone()
        };
        assert_eq!(best(&mut planted, true), "defaults");
        assert_ne!(best(&mut planted, false), "defaults");
    }
}
