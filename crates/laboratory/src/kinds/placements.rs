// SPDX-License-Identifier: GPL-2.0-only
//! Placements of tasks in memory domains in a guest: compared with the simulator's decisions, and with what was seen in
//! the guest.

use std::collections::BTreeMap;

use comparison::{SEED, contender};
use machine::{Machine, Runs, shared_speeds};
use serde::Deserialize;
use sim::Scenario;
use terminal::Failure;
use trace::{Outcome, Tid};
use workload::{Task, Workload};

use super::agreement::cut;
use crate::experiment;
use crate::extremes::greatest;
use crate::kind::{Kind, Sample, Setting};
use crate::measure::Laboratory;
use crate::paper::Experiment;

/// The part of a workload's tasks with the same sequence of domains in the guest as in the simulator, in each run.
/// The simulator has the same profile.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placed {
    /// Name of an experiment in a guest with memory nodes.
    experiment: String,
}

impl Kind for Placed {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let outcomes = lab.outcomes(&self.experiment)?;
        Ok(alike(lab.experiment(&self.experiment)?, &outcomes)?.into())
    }

    fn setting(&self, lab: &Laboratory) -> Result<Setting, Failure> {
        lab.setting(&self.experiment)
    }
}

/// As `wiring`, on a machine of several memory domains, but for speed. It compares the policy's own account of
/// where threads ran and pages were moved with an observer's account of the threads and the tasks' account of their
/// pages.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resident {
    /// Name of an experiment in a guest with memory nodes, one kind of core for each.
    experiment: String,
}

impl Kind for Resident {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let outcomes = lab.outcomes(&self.experiment)?;
        Ok(wiring(lab.experiment(&self.experiment)?, &outcomes)?.into())
    }

    fn setting(&self, lab: &Laboratory) -> Result<Setting, Failure> {
        lab.setting(&self.experiment)
    }
}

/// The sequence of domains of each task, by its name.
type Ways = BTreeMap<String, Vec<usize>>;

/// The part of the workload's tasks with the same sequence of domains in the guest as in the simulator, in each run. A
/// task that was never placed does not match.
fn alike(experiment: &Experiment, outcomes: &[Outcome]) -> Result<Vec<f64>, Failure> {
    let (machine, workload) = described(experiment)?;
    let mut simulated: BTreeMap<String, Ways> = BTreeMap::new();
    for contender in contender::parse_all(std::slice::from_ref(&experiment.policies))? {
        let scheduler = contender.scheduler()?;
        let mut scenario = Scenario::new(machine.clone(), workload.clone(), scheduler).seed(SEED);
        scenario.profile.clone_from(&experiment.profile);
        let run = sim::run(&scenario)
            .map_err(|error| Failure::run(format!("the simulator's run: {error}")))?;
        simulated.insert(contender.label().to_string(), ways(&run));
    }
    let part = |outcome: &Outcome| {
        let (guest, sim) = (ways(outcome), &simulated[&outcome.policy]);
        let same = workload.tasks.iter().filter(|task| {
            let way = guest.get(cut(&task.name));
            way.is_some() && way == sim.get(cut(&task.name))
        });
        same.count() as f64 / workload.tasks.len() as f64
    };
    Ok(outcomes.iter().map(part).collect())
}

fn ways(outcome: &Outcome) -> Ways {
    let way = |(tid, name): (&Tid, &String)| {
        (cut(name).to_string(), outcome.domains_of(*tid).collect::<Vec<_>>())
    };
    outcome.names.iter().map(way).filter(|(_, way)| !way.is_empty()).collect()
}

/// How near a task's speed by the policy's own account is to that by what was seen, 1 being exact. The value of the
/// task that is farthest, in each run. Empty if one of them was not seen: its pages may have stayed behind, and it
/// would be far off only if that was seen.
fn wiring(experiment: &Experiment, outcomes: &[Outcome]) -> Result<Vec<f64>, Failure> {
    let (machine, workload) = described(experiment)?;
    let near = |outcome: &Outcome| {
        let meant = pace(&machine, &workload, outcome, &|tid| {
            let placed = outcome.placed.iter().rev().find(|placed| placed.tid == tid)?;
            let mut pages = vec![0.0; machine.node_distance.len()];
            *pages.get_mut(placed.domain)? = 1.0;
            Some((outcome.charged.get(&tid)?.clone(), pages))
        })?;
        let seen = pace(&machine, &workload, outcome, &|tid| {
            let mut pages: Vec<f64> =
                outcome.resident.get(&tid)?.iter().map(|bytes| *bytes as f64).collect();
            let all: f64 = pages.iter().sum();
            pages.iter_mut().for_each(|bytes| *bytes /= all);
            pages.resize(machine.node_distance.len(), 0.0);
            Some((outcome.observed.tasks.get(&tid)?.kind_ns.clone(), pages))
        })?;
        let off = meant.iter().zip(&seen).map(|(meant, seen)| (meant / seen - 1.0).abs());
        Some(1.0 - greatest(off)).filter(|near| near.is_finite())
    };
    Ok(outcomes.iter().map(near).collect::<Option<_>>().unwrap_or_default())
}

/// CPU time on each node, and the part of its pages on each.
type Whereabouts = (Vec<u64>, Vec<f64>);

/// Each task's speed in its CPU time, as a part of its speed alone, by the machine's model. Every other task works on
/// the node where it ran most; the task itself on each node for as long as it was there. None: one of them was not
/// seen.
fn pace(
    machine: &Machine,
    workload: &Workload,
    outcome: &Outcome,
    of: &dyn Fn(Tid) -> Option<Whereabouts>,
) -> Option<Vec<f64>> {
    let (fabric, links) = machine.fabric.as_ref()?;
    let runs = |task: &Task| {
        let named = |(_, name): &(&Tid, &String)| cut(name) == cut(&task.name);
        let (ran_ns, pages) = of(*outcome.names.iter().find(named)?.0)?;
        let demand = task.memory?;
        let node = (0..ran_ns.len()).max_by_key(|node| ran_ns[*node])?;
        let run = Runs {
            node,
            llc: node,
            ips: machine.costs.clock_ghz * 1e9 / demand.cpi,
            mpki: demand.mpki,
            pages,
            overlap: demand.overlap,
            copied: false,
        };
        Some((run, ran_ns))
    };
    let all = workload.tasks.iter().map(runs).collect::<Option<Vec<(Runs, Vec<u64>)>>>()?;
    let own = |at: usize| {
        let (run, ran_ns) = &all[at];
        let all_ns: u64 = ran_ns.iter().sum();
        let there = ran_ns.iter().enumerate().filter(|(_, ns)| **ns > 0);
        let done = there.map(|(node, ns)| {
            let mut runs: Vec<Runs> = all.iter().map(|(run, _)| run.clone()).collect();
            runs[at] = Runs { node, llc: node, ..run.clone() };
            shared_speeds(fabric, links, &runs, &[])[at].of_alone * *ns as f64 / all_ns as f64
        });
        done.sum()
    };
    Some((0..all.len()).map(own).collect())
}

fn described(experiment: &Experiment) -> Result<(Machine, Workload), Failure> {
    let lacks = "an experiment with memory nodes names the machine that has them";
    experiment::described(experiment, lacks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper;
    use trace::Placed;

    #[test]
    fn a_task_that_was_not_seen_is_neither_near_nor_far_off() {
        let mut papers = paper::find("dino").unwrap();
        let control = papers[0].experiment.remove("wiring-control").unwrap();
        assert!(wiring(&control, &[Outcome::default()]).unwrap().is_empty());
    }

    #[test]
    fn a_way_is_a_task_s_own_and_in_order() {
        let names = [(7, "mcf".to_string()), (8, "a-name-that-is-long".to_string())];
        let placed = |at_ns, tid, domain| Placed { at_ns, tid, domain };
        let outcome = Outcome {
            names: names.into(),
            placed: vec![placed(1, 7, 0), placed(1, 8, 3), placed(2, 7, 2), placed(3, 9, 1)],
            ..Outcome::default()
        };
        let ways = ways(&outcome);
        assert_eq!(ways["mcf"], [0, 2]);
        assert_eq!(ways["a-name-that-is-"], [3]);
        assert_eq!(ways.len(), 2, "9 is not known");
    }
}
