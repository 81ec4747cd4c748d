// SPDX-License-Identifier: GPL-2.0-only
//! `--profile FILE`: an operator's figures of programs, which for most policies are their speeds on each kind of core.
//! Also `--memo FILE`, which `run` writes itself, in the same form.
//!
//! ```toml
//! [programs]
//! mcf = 1.7                                # so many times as fast on a fast core as on a slow one
//! "/usr/bin/ffmpeg" = [9.1e9, 3.2e9]       # instructions, or work, a second on each kind, the fastest first
//! ```
//!
//! For `dino` and similar policies a number is misses of the last-level cache in 1,000 instructions: `mcf = 38`.
//! Several numbers are the misses at consecutive looks; the last number stays in force: `mcf = [38, 38, 0.5]`. For
//! `avx-fair` it is the license level of the program's widest code, 0 to 2: `x265 = 2`.
//!
//! A program's key is its threads' name (15 bytes, as `ps -o comm` shows it), the whole path of its executable, or its
//! build id (`"build-id:2f91…"`).

use std::fmt::Display;
use std::path::Path;

use policy::{Instance, Profile, Told};
use terminal::{Failure, files};
use toml::{Table, Value};

/// The contents of a file, before its machine is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Given {
    file: String,
    /// Numbers by program. As speeds, one number is a speedup, several are rates.
    programs: Vec<(String, Vec<f64>)>,
}

/// The highest level of licenses.
const LEVEL_MAX: f64 = (machine::LEVELS - 1) as f64;

impl Given {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        Given::parse(&path.display().to_string(), &files::read(path)?)
    }

    fn parse(file: &str, text: &str) -> Result<Self, Failure> {
        let bad = |why: &dyn Display| Failure::input(format!("{file}: {why}"));
        let mut table: Table = text.parse().map_err(|error: toml::de::Error| {
            let line = files::line_of(text, error.span());
            Failure::input(format!("{file}:{line}: {}", error.message().replace('\n', "; ")))
        })?;
        let programs = match table.remove("programs") {
            Some(Value::Table(programs)) if !programs.is_empty() => programs,
            _ => return Err(bad(&"names no program; write `NAME = SPEEDUP` under [programs]")),
        };
        if let Some(key) = table.keys().next() {
            return Err(bad(&format!("`{key}` is not known; there is: [programs]")));
        }
        let rates = |(name, value): (String, Value)| {
            let numbers = match &value {
                Value::Array(all) => all.iter().map(number).collect(),
                one => number(one).map(|one| vec![one]),
            };
            let numbers: Option<Vec<f64>> = numbers.filter(|all: &Vec<f64>| !all.is_empty());
            match numbers {
                Some(all) if all.iter().all(|one| one.is_finite() && *one >= 0.0) => {
                    Ok((name, all))
                }
                _ => Err(bad(&format!(
                    "{name} = {value}: expected a speedup such as 1.7, or work a second on each kind of core, \
                     such as [9.1e9, 3.2e9]"
                ))),
            }
        };
        let programs = programs.into_iter().map(rates).collect::<Result<_, _>>()?;
        Ok(Given { file: file.to_string(), programs })
    }

    /// Number of programs.
    pub fn count(&self) -> usize {
        self.programs.len()
    }

    /// The profile of a machine with this many kinds of cores, for these policies. Errors: impossible figures, and
    /// a list in which no policy uses a profile.
    pub fn profile<'a>(
        &self,
        kinds: usize,
        policies: impl Iterator<Item = &'a Instance>,
    ) -> Result<Profile, Failure> {
        let bad = |why: String| Err(Failure::input(format!("{}: {why}", self.file)));
        let told: Vec<(&Instance, Told)> = policies
            .filter_map(|instance| Some((instance, instance.policy.told(kinds)?)))
            .collect();
        let Some((first, numbers)) = told.first() else {
            return bad(
                "it is for policies that are told of programs, such as min-fair; name one".into()
            );
        };
        if let Some((other, _)) = told.iter().find(|(_, other)| other != numbers) {
            return bad(format!(
                "its numbers are not the same to {} and {}: compare them one after the other",
                first.policy.name, other.policy.name
            ));
        }
        match numbers {
            Told::Speeds => self.speeds(kinds, told.iter().map(|(instance, _)| *instance)),
            Told::Misses => {
                let what = "its misses in 1,000 instructions, up to 1000";
                self.each(what, |mpki| mpki.iter().all(|mpki| *mpki <= 1000.0))
            }
            Told::Levels => {
                let what = "one number, the license level of its widest code, 0 to 2";
                let can_be = |level: &f64| *level <= LEVEL_MAX && level.fract() == 0.0;
                self.each(what, |levels| levels.len() == 1 && levels.iter().all(can_be))
            }
        }
    }

    /// Speeds on each kind of core.
    fn speeds<'a>(
        &self,
        kinds: usize,
        policies: impl Iterator<Item = &'a Instance> + Clone,
    ) -> Result<Profile, Failure> {
        let bad = |why: String| Err(Failure::input(format!("{}: {why}", self.file)));
        if kinds < 2 {
            return bad(
                "all cores of this machine are alike, and so is every program's speed".into()
            );
        }
        let mut profile = Profile::new();
        for (name, rates) in &self.programs {
            if rates.contains(&0.0) {
                return bad(format!("{name} has a speed of 0: expected a speedup such as 1.7"));
            }
            let speeds = match (rates.len(), kinds) {
                (1, 2) => vec![rates[0], 1.0],
                (1, _) => {
                    return bad(format!(
                        "{name} has one speedup, and this machine has {kinds} kinds of cores: give a number for \
                         each, the fastest first"
                    ));
                }
                (given, _) if given != kinds => {
                    return bad(format!(
                        "{name} has numbers for {given} kinds of cores, and this machine has {kinds}: give one \
                         for each, the fastest first"
                    ));
                }
                _ => rates.iter().map(|rate| rate / rates[kinds - 1]).collect(),
            };
            if speeds.windows(2).any(|pair| pair[0] < pair[1]) {
                return bad(format!(
                    "{name} is slower on a faster kind of core ({}); a speedup is 1 or more, and the fastest \
                     kind comes first",
                    listed(&speeds)
                ));
            }
            for instance in policies.clone() {
                let most = uneven::speedup_bound(instance);
                if speeds[0] > most {
                    let has_knob =
                        instance.policy.knobs.iter().any(|knob| knob.name == "speedup_max");
                    let cure = match has_knob {
                        true => "correct the number, or raise its knob speedup_max",
                        false => "correct the number",
                    };
                    return bad(format!(
                        "{name} is {:.2} times as fast on the fastest cores; {} takes no more than {most:.2}: \
                         {cure}",
                        speeds[0], instance.label
                    ));
                }
            }
            profile.insert(name.clone(), speeds);
        }
        Ok(profile)
    }

    /// The numbers unchanged, if each program's are valid.
    fn each(&self, what: &str, can_be: impl Fn(&[f64]) -> bool) -> Result<Profile, Failure> {
        let one = |(name, numbers): &(String, Vec<f64>)| match can_be(numbers) {
            true => Ok((name.clone(), numbers.clone())),
            false => Err(Failure::input(format!("{}: {name}: expected {what}", self.file))),
        };
        self.programs.iter().map(one).collect()
    }

    /// The entries that are valid for this machine and policy: measurements may be of another machine, or older than a
    /// knob.
    pub fn believed(&self, kinds: usize, instance: &Instance) -> Profile {
        let alone = |(name, rates): &(String, Vec<f64>)| {
            let one =
                Given { file: self.file.clone(), programs: vec![(name.clone(), rates.clone())] };
            one.profile(kinds, [instance].into_iter()).ok()
        };
        self.programs.iter().filter_map(alone).flatten().collect()
    }

    /// The profile for known tasks: by their names, without the number of an instance if the file has none. Returns
    /// also the file's programs that are none of the tasks. Errors: all are.
    pub fn of_tasks<'a>(
        &self,
        profile: &Profile,
        tasks: impl Iterator<Item = &'a str>,
    ) -> Result<(Profile, Vec<String>), Failure> {
        let mut own = Profile::new();
        let mut absent: Vec<String> = profile.keys().cloned().collect();
        for task in tasks {
            let program = task.rsplit_once('-').filter(|(_, number)| number.parse::<u32>().is_ok());
            let names = [Some(task), program.map(|(name, _)| name)];
            let known = names.into_iter().flatten().find_map(|name| profile.get_key_value(name));
            if let Some((name, speeds)) = known {
                own.insert(task.to_string(), speeds.clone());
                absent.retain(|other| other != name);
            }
        }
        match own.is_empty() {
            false => Ok((own, absent)),
            true => Err(Failure::input(format!(
                "{}: none of its programs is a task of the workload; name tasks as the workload does",
                self.file
            ))),
        }
    }

    /// The warning that these programs do not run.
    pub fn warning(&self, absent: &[String]) -> Option<String> {
        let (first, rest) = absent.split_first()?;
        let more = match rest.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!("paceline: {}: nothing that runs is called {first}{more}", self.file))
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(whole) => Some(*whole as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    }
}

fn listed(speeds: &[f64]) -> String {
    speeds.iter().map(|speed| format!("{speed:.2}")).collect::<Vec<_>>().join(", ")
}

/// The text of a `--memo` file, which [`Given::read`] takes.
pub fn write(learned: &Profile) -> String {
    let mut programs = Table::new();
    for (id, speeds) in learned {
        let rounded = speeds.iter().map(|speed| Value::Float((speed * 1e4).round() / 1e4));
        programs.insert(id.clone(), Value::Array(rounded.collect()));
    }
    let mut whole = Table::new();
    whole.insert("programs".into(), Value::Table(programs));
    format!(
        "# Speeds on each kind of core, the fastest first, as paceline run measured them.\n{whole}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::Policy;

    fn said(policies: &[&'static Policy], kinds: usize, text: &str) -> Result<Profile, String> {
        let instances: Vec<Instance> =
            policies.iter().map(|policy| Instance::default(policy)).collect();
        Given::parse("p.toml", text)
            .and_then(|given| given.profile(kinds, instances.iter()))
            .map_err(|failure| failure.to_string())
    }

    #[test]
    fn speedups_and_rates_are_speeds() {
        let text = "[programs]\nmcf = 2\n\"/bin/x\" = [9e9, 3e9]\n\"build-id:00\" = [1.5, 1]\n";
        let profile = said(&[&uneven::MIN_FAIR, &flsched::FLSCHED], 2, text).unwrap();
        assert_eq!(profile["mcf"], [2.0, 1.0]);
        assert_eq!(profile["/bin/x"], [3.0, 1.0]);
        assert_eq!(profile["build-id:00"], [1.5, 1.0]);
        let three = said(&[&uneven::MIN_FAIR], 3, "[programs]\nx = [6, 4, 2]").unwrap();
        assert_eq!(three["x"], [3.0, 2.0, 1.0]);
    }

    #[test]
    fn a_number_is_what_the_policy_takes_it_for() {
        let of = |policy: &'static Policy, text: &str| said(&[policy], 1, text).unwrap();
        assert_eq!(of(&dino::DINO, "[programs]\nmcf = 38\nidle = 0")["mcf"], [38.0]);
        assert_eq!(of(&dino::DINO, "[programs]\nmcf = [38, 38, 0.5]")["mcf"], [38.0, 38.0, 0.5]);
        assert_eq!(of(&avx::AVX_FAIR, "[programs]\nx265 = 2\nnginx = 0")["nginx"], [0.0]);
    }

    #[test]
    fn what_cannot_be_is_one_line() {
        let min_fair: &[&'static Policy] = &[&uneven::MIN_FAIR];
        for (policies, kinds, text, why) in [
            (min_fair, 2, "", "names no program"),
            (min_fair, 2, "[programs]", "names no program"),
            (min_fair, 2, "[program]\nx = 2", "names no program"),
            (min_fair, 2, "more = 1\n[programs]\nx = 2", "`more` is not known"),
            (min_fair, 2, "[programs]\nx = ", "p.toml:2: "),
            (min_fair, 2, "[programs]\nx = \"fast\"", "expected a speedup"),
            (min_fair, 2, "[programs]\nx = []", "expected a speedup"),
            (min_fair, 2, "[programs]\nx = -1", "expected a speedup"),
            (min_fair, 2, "[programs]\nx = nan", "expected a speedup"),
            (
                min_fair,
                2,
                "[programs]\nx = 0.5",
                "x is slower on a faster kind of core (0.50, 1.00)",
            ),
            (min_fair, 2, "[programs]\nx = [1e9, 2e9]", "x is slower on a faster kind"),
            (min_fair, 2, "[programs]\nx = 40", "x is 40.00 times as fast"),
            (
                min_fair,
                2,
                "[programs]\nx = [3, 2, 1]",
                "numbers for 3 kinds of cores, and this machine has 2",
            ),
            (min_fair, 3, "[programs]\nx = 2", "one speedup, and this machine has 3 kinds"),
            (min_fair, 1, "[programs]\nx = 2", "all cores of this machine are alike"),
            (min_fair, 2, "[programs]\nx = [0, 0]", "x has a speed of 0"),
            (&[&flsched::FLSCHED], 2, "[programs]\nx = 2", "such as min-fair"),
            (&[&dino::DINO], 1, "[programs]\nx = [38, 1001]", "its misses in 1,000"),
            (&[&dino::DINO], 1, "[programs]\nx = 1001", "its misses in 1,000"),
            (&[&avx::AVX_FAIR], 1, "[programs]\nx = 3", "the license level of its widest code"),
            (&[&avx::AVX_FAIR], 1, "[programs]\nx = 0.5", "the license level of its widest code"),
            (
                &[&uneven::MIN_FAIR, &avx::AVX_FAIR],
                2,
                "[programs]\nx = 2",
                "not the same to min-fair and avx-fair",
            ),
        ] {
            let error = said(policies, kinds, text).expect_err(text);
            assert!(error.contains(why) && !error.contains('\n'), "{text}: {error}");
        }
    }

    #[test]
    fn every_policy_that_is_told_of_speeds_bounds_them() {
        let told = |policy: &&&'static Policy| {
            Instance::default(policy).policy.told(2) == Some(Told::Speeds)
        };
        let policies: Vec<_> = policies::POLICIES.iter().filter(told).collect();
        assert!(policies.len() > 5);
        for policy in policies {
            let refused = said(&[policy], 2, "[programs]\nx = 40").unwrap_err();
            assert!(refused.contains("takes no more than"), "{}: {refused}", policy.name);
        }
    }

    #[test]
    fn tasks_go_by_their_own_name_or_their_programs() {
        let given = Given::parse("p.toml", "[programs]\na = 2\n\"b-1\" = 3\nc = 2").unwrap();
        let instance = Instance::default(&uneven::MIN_FAIR);
        let profile = given.profile(2, [instance].iter()).unwrap();
        let (own, absent) =
            given.of_tasks(&profile, ["a-0", "a-1", "b-0", "b-1", "x-a"].into_iter()).unwrap();
        assert_eq!(own.keys().collect::<Vec<_>>(), ["a-0", "a-1", "b-1"]);
        assert_eq!(absent, ["c"]);
        let warning = given.warning(&absent).unwrap();
        assert_eq!(warning, "paceline: p.toml: nothing that runs is called c");
        assert!(given.of_tasks(&profile, ["y"].into_iter()).is_err());
    }

    #[test]
    fn what_is_kept_is_read_again() {
        let learned: Profile = [("build-id:ab".to_string(), vec![2.123_456, 1.0])].into();
        let given = Given::parse("m", &write(&learned)).unwrap();
        let instance = Instance::default(&uneven::MIN_FAIR);
        assert_eq!(given.profile(2, [instance].iter()).unwrap()["build-id:ab"], [2.1235, 1.0]);
    }
}
