// SPDX-License-Identifier: GPL-2.0-only
//! Measures each figure by its kind, and runs the experiments and sweeps that have not run yet.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use report::stats::{median, quantile};
use terminal::{Failure, Progress};
use trace::Outcome;

use crate::experiment::{self, About};
use crate::kind::{Sample, Setting};
use crate::kinds::{bench, domains, exact, matrix, mixes, neighbours, trials};
use crate::outcomes::of_tasks;
use crate::paper::{Experiment, Figure, Paper, Sweep};
use crate::sweep::{self, Point};
use crate::views::{self, Chart, Shown, View};

/// The value of a figure.
#[derive(Clone, Debug, Default)]
pub struct Ours {
    /// One value for each boot, seed or point of a sweep; none if nothing could be measured.
    pub values: Vec<f64>,
    /// The ground.
    pub ground: &'static str,
    /// The clock of the ground's seconds.
    pub clock: Option<report::Clock>,
    /// Points of a sweep that the figure needs and that did not end; no gate can hold then.
    pub missing: Vec<String>,
    /// Runs of a fault that were not survived, and why.
    pub lost: Vec<String>,
    /// Whether a run that it needs failed: `why` says how.
    pub failed: bool,
    /// The value that each would have without costs; empty if not known.
    pub ideal: Vec<f64>,
    /// A note for the reader, or why nothing could be measured.
    pub why: Option<String>,
}

impl Ours {
    /// The figure to print: the median.
    pub fn middle(&self) -> Option<f64> {
        median(&self.values)
    }

    /// Least and greatest.
    pub fn range(&self) -> Option<(f64, f64)> {
        Some((quantile(&self.values, 0.0)?, quantile(&self.values, 1.0)?))
    }
}

/// How thorough to be.
#[derive(Clone, Debug, Default)]
pub struct Effort {
    /// Fewer boots, seeds and sizes.
    pub quick: bool,
    /// The guest's kernel, if the user names one.
    pub kernel: Option<std::path::PathBuf>,
    /// Folder for kept boots of the guest.
    pub keep: Option<std::path::PathBuf>,
    /// Policies that the figures need in experiments; None: all of them.
    pub policies: Option<BTreeSet<String>>,
    /// Only cells of a matrix with one of these texts in their names; empty: all of them.
    pub cells: Vec<String>,
}

impl Effort {
    /// Whether a figure needs a policy's runs.
    pub fn needs(&self, policy: &str) -> bool {
        self.policies.as_ref().is_none_or(|needed| needed.contains(policy))
    }
}

type Done<T> = BTreeMap<String, Result<Rc<Vec<T>>, String>>;

/// A paper, and what has run for its figures. A failed run is not repeated.
pub struct Laboratory<'a> {
    /// The paper.
    pub paper: &'a Paper,
    /// How thorough to be.
    pub effort: Effort,
    /// Where runs say how far they are.
    pub progress: &'a Progress,
    experiments: Done<Outcome>,
    abouts: BTreeMap<String, About>,
    sweeps: Done<Point>,
    kept: BTreeMap<TypeId, Box<dyn Any>>,
}

impl<'a> Laboratory<'a> {
    /// A laboratory without runs.
    pub fn new(paper: &'a Paper, effort: Effort, progress: &'a Progress) -> Self {
        Laboratory {
            paper,
            effort,
            progress,
            experiments: BTreeMap::new(),
            abouts: BTreeMap::new(),
            sweeps: BTreeMap::new(),
            kept: BTreeMap::new(),
        }
    }

    /// The value of a figure, from its sample. If a ground failed, `why` says so.
    pub fn ours(
        &self,
        figure: &Figure,
        sample: Option<Result<Sample, Failure>>,
    ) -> Result<Ours, Failure> {
        let why = figure.why.clone();
        let (Some(measure), Some(sample)) = (&figure.measure, sample) else {
            return Ok(Ours { ground: "none", why, ..Ours::default() });
        };
        let Setting { ground, clock } = measure.kind.setting(self)?;
        let ours = Ours { ground, clock, ..Ours::default() };
        Ok(match sample {
            Ok(Sample { values, ideal, missing, lost }) => {
                let none = values.is_empty().then(|| format!("{ground} did not measure it"));
                Ours { values, ideal, missing, lost, why: none.or(why), ..ours }
            }
            Err(failure) => Ours { failed: true, why: Some(failure.to_string()), ..ours },
        })
    }

    /// Measures a figure. None: it cannot be measured.
    pub fn sample(&mut self, figure: &Figure) -> Option<Result<Sample, Failure>> {
        figure.measure.as_ref().map(|measure| measure.kind.take(self))
    }

    /// Whether a figure comes from the simulator alone: then it follows from the program, whatever this machine is.
    pub fn is_simulated(&self, figure: &Figure) -> bool {
        let setting = figure.measure.as_ref().map(|measure| measure.kind.setting(self));
        setting.is_some_and(|of| of.is_ok_and(|of| ["sim", "exact"].contains(&of.ground)))
    }

    /// The same of a chart.
    pub fn is_drawn_from_the_simulator(&self, view: &View) -> bool {
        let mut sources = view.sources().into_iter();
        sources.all(|name| {
            self.setting(&name).is_ok_and(|of| of.ground == "sim")
                || self.experiment(&name).is_err()
        })
    }

    /// Draws a chart of the paper again, or says why it cannot be drawn.
    pub fn chart(&mut self, view: &View) -> Result<Chart, Failure> {
        let (quick, progress) = (self.effort.quick, self.progress);
        match &view.shown {
            Shown::Mixes => Ok(exact::planned(self)?.histogram(view)),
            Shown::Domains { mix, policies } => {
                let simulator = self.kept::<domains::Simulator>();
                simulator.chart(view, mix, policies, quick, progress)
            }
            Shown::Neighbours { of, policies } => {
                let own = neighbours::named(of, self)?;
                let neighbourhood = self.kept::<neighbours::Neighbourhood>();
                neighbourhood.chart(view, (of, own), policies, (quick, progress))
            }
            Shown::Trials { trials, policies } => {
                let mut own = Vec::new();
                for name in trials {
                    own.push((name.as_str(), trials::named(name, self)?));
                }
                self.kept::<trials::Trials>().chart(view, (&own, policies), (quick, progress))
            }
            Shown::Bench { experiments } => bench::chart(view, experiments, self),
            Shown::Cells { of } => matrix::chart(view, of, self),
            Shown::Simulated { .. } | Shown::Comparison { .. } => {
                let mixes = exact::listed(self)?;
                self.kept::<mixes::Simulator>().chart(view, mixes, quick, progress)
            }
            _ => {
                let points = self.points(&view.sweep)?;
                Ok(views::chart(view, &self.sweep(&view.sweep)?.jobs, &points))
            }
        }
    }

    /// What kinds of figures and charts keep between them, such as runs: one value of each type, empty at first.
    pub fn kept<T: Default + 'static>(&mut self) -> &mut T {
        let kept = self.kept.entry(TypeId::of::<T>()).or_insert_with(|| Box::new(T::default()));
        kept.downcast_mut().expect("it is kept by its type")
    }

    /// An experiment of the paper.
    pub fn experiment(&self, name: &str) -> Result<&'a Experiment, Failure> {
        self.paper.experiment.get(name).ok_or_else(|| self.unknown("experiment", name))
    }

    /// The ground of an experiment, and its clock.
    pub fn setting(&self, experiment: &str) -> Result<Setting, Failure> {
        let experiment = self.experiment(experiment)?;
        let clock = Some(experiment::clock(experiment));
        Ok(Setting { ground: experiment.ground.name(), clock })
    }

    /// A sweep of the paper.
    pub fn sweep(&self, name: &str) -> Result<&'a Sweep, Failure> {
        self.paper.sweep.get(name).ok_or_else(|| self.unknown("sweep", name))
    }

    /// The paper has no such section of this name.
    pub fn unknown(&self, what: &str, name: &str) -> Failure {
        Failure::input(format!("papers/{}.toml: no {what} is called {name}", self.paper.name))
    }

    /// The outcomes of an experiment. It runs if it has not run yet.
    pub fn outcomes(&mut self, name: &str) -> Result<Rc<Vec<Outcome>>, Failure> {
        let experiment = self.experiment(name)?;
        let (effort, progress, abouts) = (&self.effort, self.progress, &mut self.abouts);
        once(&mut self.experiments, name, || {
            progress.phase(&format!("experiment {name}"));
            let (outcomes, about) = experiment::run(experiment, effort, progress)?;
            about.failed.iter().for_each(|failed| progress.known(failed));
            abouts.insert(name.to_string(), about);
            Ok(outcomes)
        })
    }

    /// The same as the tasks have them that the experiment watches.
    pub fn watched(&mut self, name: &str) -> Result<Vec<Outcome>, Failure> {
        let watched = self.experiment(name)?.watched.as_deref();
        Ok(of_tasks(&self.outcomes(name)?, watched))
    }

    /// What is known of an experiment that has run.
    pub fn about(&self, name: &str) -> About {
        self.abouts.get(name).cloned().unwrap_or_default()
    }

    /// The points of a sweep. It runs if it has not run yet.
    pub fn points(&mut self, name: &str) -> Result<Rc<Vec<Point>>, Failure> {
        let sweep = self.sweep(name)?;
        let (effort, progress) = (&self.effort, self.progress);
        once(&mut self.sweeps, name, || {
            progress.phase(&sweep.title);
            sweep::run(sweep, effort, progress)
        })
    }
}

fn once<T>(
    done: &mut Done<T>,
    name: &str,
    run: impl FnOnce() -> Result<Vec<T>, Failure>,
) -> Result<Rc<Vec<T>>, Failure> {
    let result = match done.get(name) {
        Some(result) => result.clone(),
        None => {
            let result = run().map(Rc::new).map_err(|failure| failure.to_string());
            done.insert(name.to_string(), result.clone());
            result
        }
    };
    result.map_err(Failure::Run)
}
