// SPDX-License-Identifier: GPL-2.0-only
//! Shares for any number of core types: a linear program, solved over the prices of core types.
//!
//! **Problem.** Maximize the gain of all tasks together. A task's time adds up to c, no type is
//! used beyond its cores, and every task has at least what it must have: tasks times types
//! variables.
//!
//! **Approach.** Only the few rows of the core types tie tasks together (Dantzig, Wolfe, 1960).
//! Given a price for each type, each task's best shares follow in closed form. They lie on one
//! type, or on two where the task's guarantee is just kept ([`Buyer::buy`]). What all tasks would
//! buy at some prices is one offer. A linear program with one row for each type finds the best
//! mixture of the offers so far, and the prices at which it is best. At these prices tasks make the
//! next offer. Prices also bound what any plan can gain. A mixture as good as the bound is optimal,
//! whichever solver found it. Equal tasks form one buyer and get the same shares, so there are no
//! ties among them.

use std::collections::BTreeMap;

use crate::Error;
use crate::lp::Program;
use crate::problem::Base;
use crate::start::{Least, Start, dot};

/// A mixture is optimal if the mean gain of a task is nearer than this to its bound.
const GAP: f64 = 1e-11;
/// The same for the plan itself, in which a thousand roundings add up.
const PROOF: f64 = 1e-9;
/// A plan may use this much more of its cores than there are.
const OVER: f64 = 1e-10;
/// The most offers; three types and a thousand tasks take a few dozen.
const OFFERS_MAX: usize = 1000;
/// A plan that uses no more than this for each task beyond the cores is within rounding.
const MISSING: f64 = 1e-12;

/// Tasks that differ only in their CPU time.
#[derive(Clone)]
struct Buyer {
    tasks: Vec<usize>,
    /// Their CPU time together, in cores.
    time: f64,
    /// The gain of a unit of their time on each type; None: they may not run there.
    gains: Vec<Option<f64>>,
    /// The speeds that their guarantee is computed with.
    speeds: Vec<f64>,
    /// Least share of each type.
    least: Vec<f64>,
    /// Least speed.
    wanted: f64,
}

impl Buyer {
    /// Finds the best shares at these prices, into `shares`. Returns whether any reach the wanted
    /// speed.
    fn buy(&self, prices: &[f64], shares: &mut [f64]) -> bool {
        let profit = |number: usize| self.gains[number].map(|gain| gain - prices[number]);
        let open = 1.0 - self.least.iter().sum::<f64>();
        let short = self.wanted - dot(&self.speeds, &self.least);
        let mut best: Option<(f64, [(usize, f64); 2])> = None;
        let mut offer = |worth: f64, parts| {
            if best.is_none_or(|(most, _)| worth > most) {
                best = Some((worth, parts));
            }
        };
        for one in 0..prices.len() {
            let (Some(gain), spare) = (profit(one), self.speeds[one] * open - short) else {
                continue;
            };
            if spare >= -1e-12 {
                offer(open * gain, [(one, open), (one, 0.0)]);
            }
            for slow in (0..prices.len()).filter(|_| spare > 0.0) {
                let Some(less) = profit(slow).filter(|_| self.speeds[slow] * open < short) else {
                    continue;
                };
                let lead = self.speeds[one] - self.speeds[slow];
                let part = (short - self.speeds[slow] * open) / lead;
                offer(part * gain + (open - part) * less, [(one, part), (slow, open - part)]);
            }
        }
        let Some((_, parts)) = best else { return false };
        shares.copy_from_slice(&self.least);
        parts.iter().for_each(|(number, part)| shares[*number] += part);
        true
    }
}

/// The purchases of all buyers at some prices, for each unit of their time.
struct Offer {
    /// Of each buyer on each type, row by row.
    shares: Vec<f64>,
    /// Cores of each type.
    used: Vec<f64>,
    /// The gain of all buyers.
    gain: f64,
}

impl Offer {
    /// None: a buyer wants a speed that no type has.
    fn at(market: &Market, prices: &[f64]) -> Option<Self> {
        let types = prices.len();
        let mut shares = vec![0.0; market.buyers.len() * types];
        let mut rows = market.buyers.iter().zip(shares.chunks_mut(types));
        rows.all(|(buyer, row)| buyer.buy(prices, row)).then(|| Offer::of(market, shares))
    }

    fn of(market: &Market, shares: Vec<f64>) -> Self {
        let types = market.cores.len();
        let (mut used, mut gain) = (vec![0.0; types], 0.0);
        for (buyer, shares) in market.buyers.iter().zip(shares.chunks(types)) {
            let time = buyer.time / market.time;
            for (number, share) in shares.iter().enumerate() {
                used[number] += time * share;
                gain += time * share * buyer.gains[number].unwrap_or(0.0);
            }
        }
        Offer { shares, used, gain }
    }
}

/// The shares with the greatest gain of all tasks that give each task what it must have. Errors:
/// there are none.
pub(crate) fn best(start: &Start, least: Least) -> Result<Vec<Vec<f64>>, Error> {
    let market = Market::new(start, least);
    let first = match (least, start.problem.base) {
        (Least::Targets(_), Base::SlowCore | Base::FastCore) => match market.feasible()? {
            Some(shares) => shares,
            None => return Err(Error::OutOfReach { best: level(start)? }),
        },
        // Even shares already give all that can be required.
        _ => market.buyers.iter().flat_map(|buyer| &start.even[buyer.tasks[0]]).copied().collect(),
    };
    Ok(market.rows(start, &market.search(Some(first))?.shares))
}

/// The fairest shares: all tasks reach the greatest level that every task can reach, and gain the
/// most beyond it.
pub(crate) fn fairest(start: &Start) -> Result<Vec<Vec<f64>>, Error> {
    let (level, shares) = highest(start)?;
    // Slightly less, so that rounding leaves the program a solution.
    match best(start, Least::Targets(&vec![level - 1e-11; start.cpu.len()])) {
        // Once in thousands of problems there is no room beyond the level; then all tasks have just
        // the level.
        Err(Error::Unsolved { .. }) => Ok(shares),
        best => best,
    }
}

/// The greatest level that every task can reach against its base.
pub(crate) fn level(start: &Start) -> Result<f64, Error> {
    highest(start).map(|(level, _)| level)
}

/// The same by bisection, with shares that reach the level.
fn highest(start: &Start) -> Result<(f64, Vec<Vec<f64>>), Error> {
    let (mut low, mut high) = (0.0, crate::limits::SPEED_MAX);
    let mut rows = start.even.clone();
    while high - low > 1e-12 * high {
        let middle = f64::midpoint(low, high);
        let targets = vec![middle; start.cpu.len()];
        let market = Market::new(start, Least::Targets(&targets));
        match market.feasible()? {
            Some(shares) => {
                rows = market.rows(start, &shares);
                low = middle;
            }
            None => high = middle,
        }
    }
    Ok((low, rows))
}

/// The buyers and the cores for sale, for each unit of the buyers' time.
struct Market {
    buyers: Vec<Buyer>,
    time: f64,
    cores: Vec<f64>,
}

struct Mixture {
    /// Of each buyer on each type, row by row.
    shares: Vec<f64>,
    /// Cores used beyond those that there are.
    missing: f64,
}

impl Market {
    fn new(start: &Start, least: Least) -> Self {
        let buyers = buyers(start, least);
        let time = buyers.iter().map(|buyer| buyer.time).sum();
        let cores = start.left().iter().map(|cores| cores / time).collect();
        Market { buyers, time, cores }
    }

    /// Shares that give all that is required, whatever they gain; None if there are none.
    fn feasible(&self) -> Result<Option<Vec<f64>>, Error> {
        if Offer::at(self, &vec![0.0; self.cores.len()]).is_none() {
            return Ok(None);
        }
        let indifferent = |buyer: &Buyer| {
            let gains = buyer.gains.iter().map(|gain| gain.map(|_| 0.0)).collect();
            Buyer { gains, ..buyer.clone() }
        };
        let buyers = self.buyers.iter().map(indifferent).collect();
        let mixture = Market { buyers, cores: self.cores.clone(), ..*self }.search(None)?;
        Ok((mixture.missing <= MISSING).then_some(mixture.shares))
    }

    /// The shares of each task, from those of its buyer; a task without a buyer has even shares.
    fn rows(&self, start: &Start, shares: &[f64]) -> Vec<Vec<f64>> {
        let mut rows = start.even.clone();
        for (buyer, shares) in self.buyers.iter().zip(shares.chunks(self.cores.len())) {
            buyer.tasks.iter().for_each(|task| rows[*task].copy_from_slice(shares));
        }
        rows
    }

    /// The best mixture of offers, starting from one that uses no more cores than there are.
    /// Without a start, gains do not count, and the fewest missing cores are best.
    fn search(&self, first: Option<Vec<f64>>) -> Result<Mixture, Error> {
        let fine = first.is_none();
        let mut offers: Vec<Offer> =
            first.map(|shares| Offer::of(self, shares)).into_iter().collect();
        let mut prices = vec![0.0; self.cores.len()];
        let mut reached = f64::NEG_INFINITY;
        for _ in 0..OFFERS_MAX {
            let Some(offer) = Offer::at(self, &prices) else { break };
            let bound = offer.gain + dot(&prices, &self.cores) - dot(&prices, &offer.used);
            // An offer that led to these prices leads no further: the remaining gap is rounding.
            let known = || offers.iter().any(|known| known.shares == offer.shares);
            if bound - reached <= GAP || reached > f64::NEG_INFINITY && known() {
                let mixture = self.mixture(&offers, fine)?;
                return self.prove(mixture, bound);
            }
            offers.push(offer);
            (prices, reached) = self.prices(&offers, fine)?;
        }
        Err(Error::Unsolved { status: format!("no end after {OFFERS_MAX} offers") })
    }

    /// The mixture, if it gains what the bound allows and uses what there is. Errors: the library
    /// failed.
    fn prove(&self, mixture: Mixture, bound: f64) -> Result<Mixture, Error> {
        let offer = Offer::of(self, mixture.shares);
        let over = offer.used.iter().zip(&self.cores).map(|(used, cores)| used - cores);
        let over = over.fold(0.0, f64::max) - mixture.missing;
        match bound - (offer.gain - mixture.missing) <= PROOF && over <= OVER {
            true => Ok(Mixture { shares: offer.shares, missing: mixture.missing }),
            false => Err(Error::Unsolved { status: "its solution is not the best".into() }),
        }
    }

    /// The prices at which the best mixture of these offers is optimal, and its gain: the program's
    /// dual.
    fn prices(&self, offers: &[Offer], fine: bool) -> Result<(Vec<f64>, f64), Error> {
        let most = offers.iter().map(|offer| offer.gain).fold(f64::NEG_INFINITY, f64::max);
        let mut program = Program::new();
        let vars: Vec<_> = self.cores.iter().map(|cores| program.var(-cores)).collect();
        let below = program.var(1.0); // the rest of `most` after all cores are paid for
        for offer in offers {
            let paid = vars.iter().zip(&offer.used).map(|(var, used)| (*var, -used));
            let terms: Vec<_> = paid.chain([(below, 1.0)]).collect();
            program.at_most(most - offer.gain, &terms);
        }
        if fine {
            vars.iter().for_each(|var| program.at_most(1.0, &[(*var, 1.0)]));
        }
        let solved = program.maximize()?;
        let prices: Vec<f64> = vars.iter().map(|var| solved[*var].max(0.0)).collect();
        let gain = most - solved[below] + dot(&prices, &self.cores);
        Ok((prices, gain))
    }

    /// The first offer, moved towards others as far as that gains.
    fn mixture(&self, offers: &[Offer], fine: bool) -> Result<Mixture, Error> {
        let first = &offers[0];
        let mut program = Program::new();
        let moves: Vec<_> =
            offers[1..].iter().map(|offer| program.var(offer.gain - first.gain)).collect();
        let mut missing = 0.0;
        let mut found = Vec::new();
        for (number, cores) in self.cores.iter().enumerate() {
            let other = moves.iter().zip(&offers[1..]);
            let mut terms: Vec<_> =
                other.map(|(var, offer)| (*var, offer.used[number] - first.used[number])).collect();
            let mut left = cores - first.used[number];
            if fine {
                let most =
                    offers.iter().map(|offer| offer.used[number] - cores).fold(0.0, f64::max);
                let var = program.var(1.0);
                program.at_most(most, &[(var, 1.0)]);
                terms.push((var, 1.0));
                found.push(var);
                missing += most;
                left += most;
            }
            program.at_most(left.max(0.0), &terms);
        }
        let all: Vec<_> = moves.iter().map(|var| (*var, 1.0)).collect();
        program.at_most(1.0, &all);
        let solved = program.maximize()?;
        let weights = moves.iter().map(|var| solved[*var].max(0.0));
        let shares = blend(offers, &weights.collect::<Vec<_>>());
        missing -= found.iter().map(|var| solved[*var]).sum::<f64>();
        Ok(Mixture { shares, missing })
    }
}

/// A weighted sum of offers; the first one has the remaining weight.
fn blend(offers: &[Offer], weights: &[f64]) -> Vec<f64> {
    let first = &offers[0].shares;
    let mut shares = first.clone();
    for (offer, weight) in offers[1..].iter().zip(weights).filter(|(_, weight)| **weight > 0.0) {
        let pairs = offer.shares.iter().zip(first);
        shares.iter_mut().zip(pairs).for_each(|(part, (to, from))| *part += weight * (to - from));
    }
    for row in shares.chunks_mut(offers[0].used.len()) {
        row.iter_mut().for_each(|part| *part = part.max(0.0));
        let sum: f64 = row.iter().sum();
        row.iter_mut().for_each(|part| *part /= sum);
    }
    shares
}

fn buyers(start: &Start, least: Least) -> Vec<Buyer> {
    let types = start.problem.types();
    let mut known: BTreeMap<Vec<u64>, usize> = BTreeMap::new();
    let mut buyers: Vec<Buyer> = Vec::new();
    for task in start.free() {
        let speeds = &start.problem.tasks[task].speeds;
        let gain = |number: usize| {
            start.allowed[task].has(number).then(|| speeds[number] / start.base[task])
        };
        let wanted = match least {
            Least::Targets(targets) => targets[task] * start.cautious_base[task],
            _ => 0.0,
        };
        let buyer = Buyer {
            tasks: vec![task],
            time: start.cpu[task],
            gains: (0..types).map(gain).collect(),
            speeds: start.problem.tasks[task].cautious().to_vec(),
            least: (0..types).map(|number| start.least(task, number, least)).collect(),
            wanted,
        };
        match known.entry(key(&buyer)) {
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(buyers.len());
                buyers.push(buyer);
            }
            std::collections::btree_map::Entry::Occupied(entry) => {
                let twin = &mut buyers[*entry.get()];
                twin.tasks.push(task);
                twin.time += start.cpu[task];
            }
        }
    }
    buyers
}

/// All that distinguishes a buyer from others.
fn key(buyer: &Buyer) -> Vec<u64> {
    let gains = buyer.gains.iter().map(|gain| gain.unwrap_or(-1.0));
    let rest = buyer.speeds.iter().chain(&buyer.least).chain([&buyer.wanted]).copied();
    gains.chain(rest).map(f64::to_bits).collect()
}
