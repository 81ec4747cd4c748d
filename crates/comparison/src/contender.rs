// SPDX-License-Identifier: GPL-2.0-only
//! The names for `--policy`: policies with their knobs, and Linux's own classes.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

use policy::{Instance, InstanceError};
use sim::Scheduler;
use terminal::{Failure, meant};

pub use policies::POLICIES;

/// A name that is no policy: one of Linux's own classes, or a model of related work. It has no knobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Its name for `--policy`.
    pub name: &'static str,
    /// One line for `paceline list`.
    pub summary: &'static str,
    /// Whether a guest has it; the simulator models each of them.
    pub in_guest: bool,
    /// Its model in the simulator.
    pub model: Model,
}

/// The simulator's model of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// EEVDF.
    Default,
    /// Linux 2.6's CFS.
    Cfs,
    /// CAS with a model of another way to find siblings.
    Related(sim::Related),
}

/// Linux's own classes, and classes that only the simulator has.
pub static CLASSES: &[Class] = &[
    Class {
        name: "default",
        summary: "Linux's own: EEVDF as the guest's kernel has it, and a model of it in sim",
        in_guest: true,
        model: Model::Default,
    },
    Class {
        name: "cfs",
        summary: "Linux 2.6's own, with its locks: vruntime, wakeup preemption, load balancing",
        in_guest: false,
        model: Model::Cfs,
    },
    Class {
        name: "koka",
        summary: "cas for threads that share memory, found by tracing them (Koka et al. 2005)",
        in_guest: false,
        model: Model::Related(sim::Related::Traced),
    },
    Class {
        name: "parekh",
        summary: "cas for threads that miss little after each other, sampled (Parekh et al. 2000)",
        in_guest: false,
        model: Model::Related(sim::Related::Sampled),
    },
];

/// All names for `--policy`.
pub fn names() -> impl Iterator<Item = &'static str> {
    let classes = CLASSES.iter().map(|class| class.name);
    classes.chain(POLICIES.iter().map(|policy| policy.name))
}

/// A participant in a comparison.
#[derive(Clone, Debug)]
pub enum Contender {
    /// One of Linux's own classes.
    Class(&'static Class),
    /// A policy with its knobs set.
    Policy(Instance),
    /// A program that loads a scheduler of its own.
    Program(Outside),
}

/// A program that loads a scheduler, as `--policy exec:` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outside {
    /// The words behind `exec:`.
    pub label: String,
    /// The program and its arguments.
    pub argv: Vec<String>,
}

/// What a program's words begin with.
const EXEC: &str = "exec:";

impl Contender {
    /// Its name in results.
    pub fn label(&self) -> &str {
        match self {
            Contender::Class(class) => class.name,
            Contender::Policy(instance) => &instance.label,
            Contender::Program(outside) => &outside.label,
        }
    }

    /// The policy to load for it, if any.
    pub fn policy(&self) -> Option<&Instance> {
        match self {
            Contender::Class(_) | Contender::Program(_) => None,
            Contender::Policy(instance) => Some(instance),
        }
    }

    /// The program that loads it, if it is one.
    pub fn program(&self) -> Option<&Outside> {
        match self {
            Contender::Class(_) | Contender::Policy(_) => None,
            Contender::Program(outside) => Some(outside),
        }
    }

    /// The simulator's scheduler for it. Fails for a program, which only a kernel can load.
    pub fn scheduler(&self) -> Result<Scheduler, Failure> {
        Ok(match self {
            Contender::Class(class) => match class.model {
                Model::Default => Scheduler::Default,
                Model::Cfs => Scheduler::Cfs,
                Model::Related(how) => Scheduler::Related(Instance::default(&cas::CAS), how),
            },
            Contender::Policy(instance) => Scheduler::Policy(instance.clone()),
            Contender::Program(Outside { label, .. }) => {
                return Err(Failure::input(format!(
                    "{label} is not simulated; compare it --on vm or --on here"
                )));
            }
        })
    }

    /// Reads one contender: `name`, `name:knob=value,knob=value`, or `exec:program arguments`.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        if let Some(words) = text.strip_prefix(EXEC) {
            return Outside::parse(words).map(Contender::Program);
        }
        let name = text.split(':').next().unwrap_or_default();
        if let Some(class) = CLASSES.iter().find(|class| class.name == name) {
            return match text == name {
                true => Ok(Contender::Class(class)),
                false => Err(Failure::input(format!("{name} has no knobs; write --policy {name}"))),
            };
        }
        let instance = Instance::parse(text, &POLICIES).map_err(|error| match error {
            InstanceError::UnknownPolicy { name, .. } => format!(
                "no policy is called `{name}`; {}there are: {}",
                meant::proposal(&name, names()),
                names().collect::<Vec<_>>().join(", ")
            ),
            InstanceError::UnknownKnob { policy, name, known } => {
                let proposal = meant::proposal(&name, known.split(", "));
                format!("policy {policy} has no knob `{name}`; {proposal}it has: {known}")
            }
            other => other.to_string(),
        });
        instance.map(Contender::Policy).map_err(Failure::Input)
    }
}

impl Outside {
    fn parse(words: &str) -> Result<Self, Failure> {
        let argv = shlex::split(words).filter(|argv| !argv.is_empty()).ok_or_else(|| {
            Failure::input(format!(
                "{EXEC}{words} is no command; name a scheduler's program, such as {EXEC}scx_bpfland"
            ))
        })?;
        Ok(Outside { label: words.trim().to_string(), argv })
    }

    /// Its words, with times multiplied by `scale`: those of options with one of these names, as in `--slice-us 20` or
    /// `--slice-us=20`. Fails if such an option has no whole number.
    pub fn scaled(&self, options: &[String], scale: u64) -> Result<Vec<String>, Failure> {
        let mut argv = self.argv.clone();
        let is_scaled = |word: &str| options.iter().any(|option| word == format!("--{option}"));
        for at in 1..argv.len() {
            let (name, value) =
                argv[at].split_once('=').unwrap_or((argv[at - 1].as_str(), argv[at].as_str()));
            if !is_scaled(name) {
                continue;
            }
            let scaled = value.parse::<u64>().ok().and_then(|number| number.checked_mul(scale));
            let scaled = scaled.ok_or_else(|| {
                let label = &self.label;
                Failure::input(format!("--scale-option: {value} of {label} is no whole number"))
            })?;
            let before = argv[at].strip_suffix(value).unwrap_or_default();
            argv[at] = format!("{before}{scaled}");
        }
        Ok(argv)
    }

    /// Whether it has an option of this name.
    pub fn has_option(&self, name: &str) -> bool {
        let word = format!("--{name}");
        self.argv.iter().any(|one| *one == word || one.starts_with(&format!("{word}=")))
    }
}

/// Programs of the scx project that load no scheduler.
const NO_SCHEDULERS: [&str; 1] = ["scx_loader"];

/// Names of scx's schedulers in these folders, as PATH lists them.
pub fn schedulers_in(path: &OsStr) -> Vec<String> {
    let named = |folder: PathBuf| {
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        files.filter_map(|file| file.file_name().into_string().ok())
    };
    let names: BTreeSet<String> = std::env::split_paths(path)
        .flat_map(named)
        .filter(|name| name.starts_with("scx_") && !NO_SCHEDULERS.contains(&name.as_str()))
        .collect();
    names.into_iter().collect()
}

/// Reads every `--policy`. Commas separate both policies and knobs: `a:x=1,y=2,b` is `a` with two knobs, and `b`.
pub fn parse_all(arguments: &[String]) -> Result<Vec<Contender>, Failure> {
    let mut contenders: Vec<Contender> = Vec::new();
    for text in arguments.iter().flat_map(|argument| split(argument)) {
        let contender = Contender::parse(&text)?;
        if contenders.iter().any(|other| other.label() == contender.label()) {
            let label = contender.label();
            return Err(Failure::input(format!(
                "policy {label} is named twice; name it once, or with other knobs"
            )));
        }
        contenders.push(contender);
    }
    match contenders.is_empty() {
        true => Err(Failure::input("--policy names no policy; try --policy default,flsched")),
        false => Ok(contenders),
    }
}

/// Reads the one policy that a kernel is to run, with its knobs.
pub fn instance(text: &str) -> Result<Instance, Failure> {
    let [contender] = &parse_all(&[text.to_string()])?[..] else {
        return Err(Failure::input("a kernel runs one policy at a time: name one"));
    };
    match contender {
        Contender::Policy(instance) => Ok(instance.clone()),
        other => {
            let known: Vec<&str> = POLICIES.iter().map(|policy| policy.name).collect();
            Err(Failure::input(format!(
                "{} is no policy that can be loaded; there are: {}",
                other.label(),
                known.join(", ")
            )))
        }
    }
}

/// Splits a list of policies: `knob=value` without a policy before a colon belongs to the policy before it.
fn split(argument: &str) -> Vec<String> {
    let mut policies: Vec<String> = Vec::new();
    for part in argument.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let of_program = policies.last().is_some_and(|last| last.starts_with(EXEC));
        let names_policy = match (part.find(':'), part.find('=')) {
            (_, None) => true,
            (Some(colon), Some(equals)) => colon < equals,
            (None, Some(_)) => of_program,
        };
        match policies.last_mut() {
            Some(last) if !names_policy => {
                last.push(if last.contains(':') { ',' } else { ':' });
                last.push_str(part);
            }
            _ => policies.push(part.to_string()),
        }
    }
    policies
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(arguments: &[&str]) -> Result<Vec<String>, String> {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let contenders = parse_all(&arguments).map_err(|failure| failure.to_string())?;
        Ok(contenders.iter().map(|one| one.label().to_string()).collect())
    }

    #[test]
    fn commas_part_policies_and_knobs() {
        assert_eq!(split("a:x=1,y=2,b"), ["a:x=1,y=2", "b"]);
        assert_eq!(split("a,b:x=1,c:y=2,z=3"), ["a", "b:x=1", "c:y=2,z=3"]);
        assert_eq!(split("a,x=1"), ["a:x=1"]);
        assert_eq!(split("a,,b,"), ["a", "b"]);
    }

    #[test]
    fn a_program_is_a_contender_with_its_words() {
        let both = labels(&["default,exec:scx_bpfland", "exec:scx_cosmos --slice-us=20"]).unwrap();
        assert_eq!(both, ["default", "scx_bpfland", "scx_cosmos --slice-us=20"]);
        let error = labels(&["exec: "]).unwrap_err();
        assert!(error.contains("is no command"), "{error}");
        let error = Contender::parse("exec:scx_lavd").unwrap().scheduler().unwrap_err().to_string();
        assert!(error.contains("scx_lavd is not simulated; compare it --on vm"), "{error}");
    }

    #[test]
    fn schedulers_of_this_machine_are_found_once() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for (folder, name) in
            [(&one, "scx_lavd"), (&two, "scx_lavd"), (&two, "scx_bpfland"), (&two, "scx_loader")]
        {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let path = std::env::join_paths([one.path(), two.path(), "/none".as_ref()]).unwrap();
        assert_eq!(schedulers_in(&path), ["scx_bpfland", "scx_lavd"]);
    }

    #[test]
    fn times_of_a_program_are_scaled_where_they_are_named() {
        let Contender::Program(cosmos) =
            Contender::parse("exec:scx_cosmos --slice-us 20 -c 4 --slice-lag-us=5").unwrap()
        else {
            unreachable!()
        };
        let options = ["slice-us", "slice-lag-us"].map(String::from);
        let argv = cosmos.scaled(&options, 8).unwrap();
        assert_eq!(argv, ["scx_cosmos", "--slice-us", "160", "-c", "4", "--slice-lag-us=40"]);
        assert!(cosmos.has_option("slice-us") && !cosmos.has_option("slice"));
        let Contender::Program(soon) = Contender::parse("exec:x --slice-us soon").unwrap() else {
            unreachable!()
        };
        assert!(soon.scaled(&options, 8).unwrap_err().to_string().contains("no whole number"));
    }

    #[test]
    fn one_policy_may_stand_twice_with_other_knobs() {
        let both = labels(&["default,flsched:slice=50ms,pull=true", "flsched"]).unwrap();
        assert_eq!(both, ["default", "flsched:slice=50ms,pull=true", "flsched"]);
        let error = labels(&["flsched,flsched:slice=10ms"]).unwrap_err();
        assert!(error.contains("flsched is named twice"), "{error}");
    }

    #[test]
    fn what_does_not_exist_is_answered_with_what_does() {
        let error = labels(&["flshed"]).unwrap_err();
        assert!(error.contains("`flshed`") && error.contains("default, cfs, koka"), "{error}");
        let error = labels(&["flsched:slize=5ms"]).unwrap_err();
        assert!(error.contains("slize") && error.contains("slice, variant"), "{error}");
        let error = labels(&["flsched:slice=fast"]).unwrap_err();
        assert!(error.contains("expected a time from"), "{error}");
        let error = labels(&["default:slice=1ms"]).unwrap_err();
        assert!(error.contains("has no knobs"), "{error}");
    }
}
