// SPDX-License-Identifier: GPL-2.0-only
//! The simulator as a ground.

use std::time::Duration;

use machine::Machine;
use report::Clock;
use sim::{Scenario, SimError};
use terminal::{Failure, Progress, shell};
use trace::Outcome;

use crate::contender::Contender;
use crate::job::Job;
use crate::measured::{Measured, Watched};
use crate::plan::{Ground, On, Plan};

/// A simulated machine.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// The machine.
    pub machine: Box<Machine>,
    /// The user's name for it, or a file.
    pub named: String,
    /// Longest run, on the simulated clock.
    pub limit: Duration,
    /// Faults that happen in each run.
    pub faults: Vec<sim::Fault>,
}

impl Ground for Simulated {
    fn on(&self) -> On {
        On::Sim
    }

    fn machine(&self) -> String {
        self.machine.name.clone()
    }

    fn cpus(&self) -> usize {
        self.machine.cpus.len()
    }

    fn clock(&self) -> Clock {
        Clock::Simulated
    }

    fn kinds(&self) -> Result<usize, Failure> {
        Ok(self.machine.core_rates.len())
    }

    /// Every contender at every seed, as many at a time as there are processors.
    fn run(&self, plan: &Plan, _: &Progress) -> Result<Measured, Failure> {
        let workload = plan.job.model()?;
        let runs: Vec<(&Contender, usize)> = plan
            .contenders
            .iter()
            .flat_map(|contender| (0..plan.runs).map(move |run| (contender, run)))
            .collect();
        let scenario = |(contender, run): &(&Contender, usize)| {
            let scheduler = contender.scheduler()?;
            let mut scenario = Scenario::new((*self.machine).clone(), workload.clone(), scheduler)
                .seed(seed_of(plan, *run));
            scenario.options.cap_ns = u64::try_from(self.limit.as_nanos()).unwrap_or(u64::MAX);
            scenario.options.together = plan.job.starts_together();
            scenario.options.record.events = plan.events && *run == 0;
            scenario.faults = self.faults.clone();
            scenario.profile = plan.profile.clone();
            Ok(scenario)
        };
        let scenarios = runs.iter().map(scenario).collect::<Result<Vec<Scenario>, Failure>>()?;
        let (mut outcomes, mut watched) = (Vec::new(), Vec::new());
        for ((contender, run), result) in runs.iter().zip(sim::trace_all(&scenarios)) {
            let traced = result.map_err(|error| self.failed(plan, contender, *run, &error))?;
            if plan.events && *run == 0 {
                watched.push(Watched {
                    outcome: outcomes.len(),
                    cpus: self.machine.cpus.len(),
                    processes: workload.tasks.iter().map(|task| task.process).collect(),
                    events: traced.events,
                });
            }
            let policy = contender.label().to_string();
            outcomes.push(Outcome { policy, run: *run, ..traced.outcome });
        }
        Ok(Measured { outcomes, notes: plan.job.notes(), watched, ..Measured::default() })
    }

    fn confirmed_by(&self) -> Option<On> {
        Some(On::Vm)
    }

    fn runs_programs(&self) -> bool {
        false
    }
}

impl Simulated {
    /// The error of a failed run. It includes the command that repeats it.
    fn failed(&self, plan: &Plan, contender: &Contender, run: usize, error: &SimError) -> Failure {
        if matches!(
            error,
            SimError::NoCpus { .. }
                | SimError::NoAffinity { .. }
                | SimError::NoNode { .. }
                | SimError::NoMemory { .. }
                | SimError::Unknown { .. }
                | SimError::Cgroups
                | SimError::NothingTouched
        ) {
            return Failure::input(error);
        }
        let again = match self.again(plan, contender, run) {
            Some(line) => format!("again with: {line}"),
            None => "to do it again, keep the recording with -o".into(),
        };
        Failure::run(format!("{} on {}: {error}; {again}", contender.label(), self.named))
    }

    /// The command that repeats only this run, if there can be one.
    fn again(&self, plan: &Plan, contender: &Contender, run: usize) -> Option<String> {
        let mut words = ["paceline", "compare", "--on", "sim"].map(String::from).to_vec();
        let mut option = |name: &str, value: String| words.extend([name.to_string(), value]);
        option("--machine", self.named.clone());
        option("--policy", contender.label().to_string());
        option("--seed", seed_of(plan, run).to_string());
        option("--limit", humantime::format_duration(self.limit).to_string());
        if let Some(file) = &plan.profile_file {
            option("--profile", file.display().to_string());
        }
        match &plan.job {
            Job::Command { argv, .. } => {
                words.push("--".into());
                words.extend(argv.iter().cloned());
            }
            Job::Model { named, .. } => option("--workload", named.clone()?),
            Job::Npb { .. } | Job::Recording(_) => option("--workload", plan.job.name()),
        }
        Some(shell::line(words.iter().map(String::as_str)))
    }
}

/// Seeds of further runs follow the first one, modulo the range of numbers.
fn seed_of(plan: &Plan, run: usize) -> u64 {
    plan.seed.wrapping_add(run as u64)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::contender;

    #[test]
    fn a_recording_is_named_by_its_file_and_one_that_is_not_kept_by_nothing() {
        let ground = Simulated {
            machine: Box::new(machine::find("numa-2x4").unwrap()),
            named: "numa-2x4".into(),
            limit: Duration::from_secs(600),
            faults: Vec::new(),
        };
        let contenders = contender::parse_all(&["fifo".into()]).unwrap();
        let job = Job::named("agree-1".as_ref()).unwrap();
        let mut plan = Plan::new(contenders, job, Arc::new(ground.clone()));
        let mut line = |file: Option<&str>| {
            let Job::Model { name, named, .. } = &mut plan.job else { unreachable!("a model") };
            (*name, *named) = ("make -j8".into(), file.map(String::from));
            ground.again(&plan, &plan.contenders[0], 1)
        };
        assert!(
            line(Some("make.trace"))
                .unwrap()
                .ends_with(" --seed 2 --limit 10m --workload make.trace")
        );
        assert_eq!(line(None), None);
    }
}
