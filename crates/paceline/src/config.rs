// SPDX-License-Identifier: GPL-2.0-only
//! Defaults from config files: `/etc/paceline/defaults.toml`, and `paceline.toml` in the user's config folder, which takes
//! precedence. The command line takes precedence over both.

use std::collections::BTreeMap;
use std::env::var_os;
use std::path::{Path, PathBuf};

use comparison::{On, contender, replay};
use measuring::THIS;
use report::text::{Align, table, visible};
use serde::Deserialize;
use serde_json::json;
use terminal::{Failure, files, meant, output};

use crate::cli::{Compare, Config, Try};

/// The file for all users.
const SYSTEM: &str = "/etc/paceline/defaults.toml";

/// Keys of a config file; each takes the values of the option with its name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    policy: Option<String>,
    machine: Option<String>,
    kernel: Option<PathBuf>,
    runs: Option<u32>,
}

/// Defaults, and the file that each is from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Defaults {
    of: File,
    from: BTreeMap<&'static str, PathBuf>,
}

/// Shows the defaults in force.
pub fn run(config: &Config) -> Result<(), Failure> {
    let defaults = Defaults::read()?;
    let rows = defaults.rows();
    output::print(&match config.json {
        true => {
            let all: BTreeMap<_, _> = rows
                .iter()
                .map(|(key, value, from)| {
                    let number = value.as_ref().and_then(|value| value.parse::<u32>().ok());
                    let value = number.map_or_else(|| json!(value), |number| json!(number));
                    (key, json!({"value": value, "from": from}))
                })
                .collect();
            serde_json::to_string_pretty(&all).expect("it is plain data") + "\n"
        }
        false => {
            let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "–".into());
            let row = |(key, value, from): &(&str, Option<String>, Option<String>)| {
                vec![key.to_string(), known(value), known(from)]
            };
            let rows: Vec<Vec<String>> = rows.iter().map(row).collect();
            let looked: Vec<String> =
                paths().iter().map(|path| path.display().to_string()).collect();
            table(&["key", "value", "from"], &rows, Align::Left, output::style())
                + "\n"
                + &visible(&format!(
                    "from {}; the last one that is there wins",
                    looked.join(", then ")
                ))
                + "\n"
        }
    })
}

/// Places of config files; a later one takes precedence over an earlier one.
fn paths() -> Vec<PathBuf> {
    let folder = var_os("XDG_CONFIG_HOME").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let folder = folder.or_else(|| Some(PathBuf::from(var_os("HOME")?).join(".config")));
    [PathBuf::from(SYSTEM)].into_iter().chain(folder.map(|it| it.join("paceline.toml"))).collect()
}

impl Defaults {
    fn read() -> Result<Self, Failure> {
        let mut defaults = Defaults::default();
        for path in paths().iter().filter(|path| path.exists()) {
            defaults.add(&files::read(path)?, path)?;
        }
        Ok(defaults)
    }

    /// Adds the defaults of a file.
    fn add(&mut self, text: &str, path: &Path) -> Result<(), Failure> {
        let file: File = toml::from_str(text).map_err(|error: toml::de::Error| {
            let line = files::line_of(text, error.span());
            let why = error.message().replace('\n', " ");
            let why = why.replace("u32", "a whole number from 1 to 1000");
            Failure::input(format!("{}:{line}: {why}", path.display()))
        })?;
        let bad = |why: &str| Failure::input(format!("{}: {why}", path.display()));
        if let Some(policy) = &file.policy {
            contender::parse_all(std::slice::from_ref(policy))
                .map_err(|failure| bad(&format!("policy: {failure}")))?;
        }
        if let Some(machine) = &file.machine {
            let is_known = machine == THIS || machine::find(machine).is_ok();
            if !is_known && !Path::new(machine).exists() {
                let proposal = meant::proposal(machine, machine::names());
                return Err(bad(&format!(
                    "machine: no machine and no file is called `{machine}`; {proposal}`paceline list machines` shows \
                     what there is"
                )));
            }
        }
        if file.runs.is_some_and(|runs| !(1..=1000).contains(&runs)) {
            return Err(bad("runs: expected a whole number from 1 to 1000"));
        }
        let mut note = |key, is_there: bool| {
            if is_there {
                self.from.insert(key, path.to_path_buf());
            }
        };
        note("policy", file.policy.is_some());
        note("machine", file.machine.is_some());
        note("kernel", file.kernel.is_some());
        note("runs", file.runs.is_some());
        let of = std::mem::take(&mut self.of);
        self.of = File {
            policy: file.policy.or(of.policy),
            machine: file.machine.or(of.machine),
            kernel: file.kernel.or(of.kernel),
            runs: file.runs.or(of.runs),
        };
        Ok(())
    }

    /// Key, value and file of each default.
    fn rows(&self) -> [(&'static str, Option<String>, Option<String>); 4] {
        let File { policy, machine, kernel, runs } = &self.of;
        let from = |key| self.from.get(key).map(|path| path.display().to_string());
        [
            ("policy", policy.clone(), from("policy")),
            ("machine", machine.clone(), from("machine")),
            ("kernel", kernel.as_ref().map(|path| path.display().to_string()), from("kernel")),
            ("runs", runs.map(|runs| runs.to_string()), from("runs")),
        ]
    }

    /// Fills in options that a comparison leaves out and its ground takes.
    fn fill(self, compare: &mut Compare) {
        let File { policy, machine, kernel, runs } = self.of;
        if compare.policy.is_empty() {
            compare.policy.extend(policy);
        }
        let shape = &compare.machine;
        let is_free = shape.machine.is_none()
            && shape.cpus.is_none()
            && shape.nodes.is_none()
            && shape.smt.is_none()
            && shape.distance.is_none();
        // A recording has its own number of CPUs; a guest has a shape but no name.
        let is_recording = compare.workload.as_deref().is_some_and(replay::is_recording);
        if is_free && compare.on == On::Sim && !is_recording {
            compare.machine.machine = machine;
        }
        if compare.on == On::Vm {
            compare.kernel = compare.kernel.take().or(kernel);
        }
        compare.runs = compare.runs.or(runs);
    }
}

/// Fills in options that were not given to `compare`.
pub fn fill_compare(compare: &mut Compare) -> Result<(), Failure> {
    Defaults::read()?.fill(compare);
    match compare.policy.is_empty() {
        true => Err(Failure::input(
            "no policy is named; add --policy default,flsched, or write `policy` into a config file (see `paceline \
             config`)",
        )),
        false => Ok(()),
    }
}

/// Fills in options that were not given to `try`.
pub fn fill_try(attempt: &mut Try) -> Result<(), Failure> {
    let File { policy, runs, .. } = Defaults::read()?.of;
    if attempt.policy.is_empty() {
        attempt.policy.extend(policy);
    }
    attempt.runs = attempt.runs.or(runs);
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Verb};

    fn compare(words: &[&str]) -> Compare {
        let words = ["paceline", "compare"].iter().chain(words).chain(&["--", "true"]);
        match Cli::try_parse_from(words).unwrap().verb {
            Verb::Compare(compare) => *compare,
            other => panic!("{other:?}"),
        }
    }

    fn defaults(texts: &[&str]) -> Result<Defaults, Failure> {
        let mut defaults = Defaults::default();
        for (at, text) in texts.iter().enumerate() {
            defaults.add(text, Path::new(&format!("{at}.toml")))?;
        }
        Ok(defaults)
    }

    #[test]
    fn the_command_line_goes_before_the_users_file_and_that_before_the_systems() {
        let of = defaults(&["runs = 3\npolicy = \"default,cas\"", "runs = 7"]).unwrap();
        let mut own = compare(&["--on", "sim"]);
        of.clone().fill(&mut own);
        assert_eq!((own.policy, own.runs), (vec!["default,cas".to_string()], Some(7)));
        let mut own = compare(&["--on", "sim", "--runs", "2", "--policy", "default,rr"]);
        of.clone().fill(&mut own);
        assert_eq!((own.policy, own.runs), (vec!["default,rr".to_string()], Some(2)));
        assert_eq!(of.rows()[3], ("runs", Some("7".into()), Some("1.toml".into())));
    }

    #[test]
    fn a_ground_gets_what_it_takes() {
        let of = defaults(&["machine = \"xeon-phi-31s1p\"\nkernel = \"/boot/vmlinuz\""]).unwrap();
        let filled = |ground| {
            let mut own = compare(&["--on", ground, "--policy", "default"]);
            of.clone().fill(&mut own);
            (own.machine.machine.is_some(), own.kernel.is_some())
        };
        assert_eq!(
            [filled("sim"), filled("vm"), filled("here")],
            [(true, false), (false, true), (false, false)]
        );
    }

    #[test]
    fn a_wrong_file_is_named_with_its_line() {
        for (text, why) in [
            ("runs = 3\nrun = 4", "0.toml:2: unknown field `run`"),
            ("runs = 0", "0.toml: runs: expected a whole number from 1 to 1000"),
            (
                "policy = \"flshed\"",
                "0.toml: policy: no policy is called `flshed`; did you mean flsched?",
            ),
            ("runs = \"x\"", "0.toml:1: invalid type"),
            (
                "machine = \"xeon-phi\"",
                "0.toml: machine: no machine and no file is called `xeon-phi`; did you mean",
            ),
        ] {
            let error = defaults(&[text]).unwrap_err().to_string();
            assert!(error.starts_with(why) && !error.contains('\n'), "{error}");
        }
    }
}
