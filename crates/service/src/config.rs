// SPDX-License-Identifier: GPL-2.0-only
//! The service's config file: `docs/src/reference/service-file.md` describes it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use comparison::contender::instance;
use comparison::turbo;
use policy::{Clocks, Instance};
use serde::{Deserialize, Deserializer};
use terminal::{Failure, files};

use crate::ladder::{Place, Times};

/// Where it is, unless another file is named.
pub const CONFIG: &str = "/etc/paceline/paceline.toml";

/// What the file says.
#[derive(Clone, Debug)]
pub struct Config {
    /// The policies, the preferred one first.
    pub policies: Vec<Instance>,
    /// Only tasks that ask for SCHED_EXT.
    pub partial: bool,
    /// Whether limits of cgroups may be ignored.
    pub ignore_cgroup_limits: bool,
    /// What is known of programs.
    pub profile: Option<PathBuf>,
    /// The content of that file.
    told: Option<String>,
    /// Kinds of cores as `run --core-types` takes them.
    pub core_types: Option<String>,
    /// The turbo table of a machine like this one.
    pub clocks: Option<Clocks>,
    /// What is done after this service did not end by itself.
    pub after_crash: AfterCrash,
    /// Times of the ladder.
    pub times: Times,
    /// How many dumps of ejected policies are kept.
    pub dumps: usize,
    /// What goes before the policies, by the machine's power profile.
    pub power_profiles: BTreeMap<String, Place>,
    /// Whether tools of scx are answered.
    pub scx_stats: bool,
    /// What is told of the machine to those that scrape it; None: nothing.
    pub metrics: Option<Metrics>,
}

/// Metrics.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metrics {
    /// The TCP address that they are on, beside the Unix socket.
    pub listen: Option<SocketAddr>,
    /// Whether users may read the Unix socket.
    #[serde(default)]
    pub users: bool,
    /// How many cgroups, and how many programs, are told apart.
    #[serde(default = "names")]
    pub names: usize,
}

/// What is in charge when the service begins again after a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AfterCrash {
    /// The first policy that is not left alone.
    #[default]
    Policy,
    /// Linux's own class, until an administrator says otherwise.
    Class,
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    policy: OneOrMore,
    #[serde(default)]
    partial: bool,
    #[serde(default)]
    ignore_cgroup_limits: bool,
    profile: Option<PathBuf>,
    core_types: Option<String>,
    clocks: Option<String>,
    #[serde(default)]
    after_crash: AfterCrash,
    #[serde(default = "grace", deserialize_with = "time")]
    grace: Duration,
    #[serde(default = "backoff", deserialize_with = "time")]
    backoff: Duration,
    #[serde(default = "longest_backoff", deserialize_with = "time")]
    longest_backoff: Duration,
    #[serde(default = "dumps")]
    dumps: usize,
    #[serde(default)]
    power_profiles: BTreeMap<String, String>,
    #[serde(default)]
    scx_stats: bool,
    metrics: Option<Metrics>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a policy such as \"paceline\", or a list of them")]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

fn grace() -> Duration {
    Duration::from_secs(60)
}

fn backoff() -> Duration {
    Duration::from_secs(600)
}

fn longest_backoff() -> Duration {
    Duration::from_secs(24 * 3600)
}

fn dumps() -> usize {
    20
}

fn names() -> usize {
    200
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    humantime::parse_duration(&text).map_err(|_| {
        serde::de::Error::custom(format!("expected a time such as \"60s\", not {text:?}"))
    })
}

/// Most kept dumps; each may have a megabyte.
const DUMPS_MAX: usize = 1000;
/// Most names of cgroups, and of programs: a histogram of each is kept for each CPU.
const NAMES_MAX: usize = 10_000;

impl Config {
    /// Reads the file. An error is one line that names the file, and the line in it where there is one.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        Config::parse(&files::read(path)?, path)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, Failure> {
        let written: Written = toml::from_str(text).map_err(|error: toml::de::Error| {
            let line = files::line_of(text, error.span());
            Failure::input(format!(
                "{}:{line}: {}",
                path.display(),
                error.message().replace('\n', " ")
            ))
        })?;
        let bad = |key: &str, why: &dyn std::fmt::Display| {
            Failure::input(format!("{}: {key}: {why}", path.display()))
        };
        let names = match written.policy {
            OneOrMore::One(name) => vec![name],
            OneOrMore::More(names) => names,
        };
        let policies: Result<Vec<Instance>, Failure> = names
            .iter()
            .map(|name| instance(name).map_err(|failure| bad("policy", &failure)))
            .collect();
        let policies = policies?;
        if let Some(twice) = (1..policies.len())
            .find(|at| policies[..*at].iter().any(|it| it.label == policies[*at].label))
        {
            return Err(bad(
                "policy",
                &format!("{} is there twice; name it once", policies[twice].label),
            ));
        }
        if policies.is_empty() {
            return Err(bad("policy", &"it is empty; name one, such as \"paceline\""));
        }
        let place = |(profile, name): (String, String)| {
            let why = |failure| bad(&format!("power_profiles.{profile}"), &failure);
            Ok((profile.clone(), Place::named(&name).map_err(why)?))
        };
        let power_profiles: Result<_, Failure> =
            written.power_profiles.into_iter().map(place).collect();
        let Written { grace, backoff, longest_backoff, dumps, .. } = written;
        if !grace.is_zero() && grace < Duration::from_secs(1) {
            return Err(bad("grace", &"give it 1s or more, or 0s for none"));
        }
        if backoff < Duration::from_secs(1) {
            return Err(bad("backoff", &"give it 1s or more"));
        }
        if longest_backoff < backoff {
            return Err(bad(
                "longest_backoff",
                &"it is shorter than backoff; give it as much or more",
            ));
        }
        if dumps > DUMPS_MAX {
            return Err(bad("dumps", &format!("expected a whole number up to {DUMPS_MAX}")));
        }
        let names = written.metrics.as_ref().map_or(1, |metrics| metrics.names);
        if !(1..=NAMES_MAX).contains(&names) {
            let why = format!("expected a whole number from 1 to {NAMES_MAX}");
            return Err(bad("metrics.names", &why));
        }
        let folder = path.parent().unwrap_or(Path::new("."));
        let profile = written.profile.map(|profile| folder.join(profile));
        let told = profile.as_deref().map(files::read).transpose();
        let clocks = written.clocks.map(|machine| turbo::of(&machine)).transpose();
        Ok(Config {
            policies,
            partial: written.partial,
            ignore_cgroup_limits: written.ignore_cgroup_limits,
            profile,
            told: told.map_err(|failure| bad("profile", &failure))?,
            core_types: written.core_types,
            clocks: clocks.map_err(|failure| bad("clocks", &failure))?,
            after_crash: written.after_crash,
            times: Times { grace, backoff, longest_backoff },
            dumps,
            power_profiles: power_profiles?,
            scx_stats: written.scx_stats,
            metrics: written.metrics,
        })
    }

    /// Whether a policy is loaded in the same way as by another file.
    pub fn loads_like(&self, other: &Config) -> bool {
        let conditions = |of: &Config| {
            (
                of.partial,
                of.ignore_cgroup_limits,
                of.told.clone(),
                of.core_types.clone(),
                of.clocks.clone(),
            )
        };
        conditions(self) == conditions(other)
    }

    /// What goes before the policies in this power profile.
    pub fn preferred(&self, profile: Option<&str>) -> Option<&Place> {
        self.power_profiles.get(profile?)
    }

    /// The policies' names with their knobs, the preferred one first.
    pub fn rungs(&self) -> Vec<String> {
        self.policies.iter().map(|instance| instance.label.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, Path::new("/etc/paceline/paceline.toml"))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_may_name_a_policy_and_no_more() {
        let config = parse("policy = \"flsched:slice=5ms\"").unwrap();
        assert_eq!(config.rungs(), ["flsched:slice=5ms"]);
        assert_eq!(config.after_crash, AfterCrash::Policy);
        assert_eq!(config.times.backoff, Duration::from_secs(600));
    }

    #[test]
    fn a_file_may_say_all_that_there_is() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("programs.toml"), "[programs]\nmcf = 1.7\n").unwrap();
        let path = folder.path().join("paceline.toml");
        let text = "policy = [\"paceline\", \"cas\"]\npartial = true\nignore_cgroup_limits = true\nprofile = \"programs.toml\"\n\
             core_types = \"0=fast,1=slow\"\nclocks = \"xeon-gold-6130\"\nafter_crash = \"class\"\ngrace = \"5s\"\n\
             backoff = \"1min\"\nlongest_backoff = \"1h\"\ndumps = 3\nscx_stats = true\n\
             [power_profiles]\npower-saver = \"default\"\nperformance = \"flsched:slice=5ms\"\n[metrics]\nlisten = \"127.0.0.1:9469\"";
        let config = Config::parse(text, &path).unwrap();
        assert_eq!(config.rungs(), ["paceline", "cas"]);
        assert_eq!(config.profile.as_deref(), Some(&*folder.path().join("programs.toml")));
        let again = |text: &str| Config::parse(text, &path).unwrap().loads_like(&config);
        assert!(again(text) && again(&text.replace("\"paceline\", ", "")));
        assert!(!again(&text.replace("partial = true", "")));
        std::fs::write(folder.path().join("programs.toml"), "[programs]\nmcf = 2\n").unwrap();
        assert!(!again(text), "its profile is another one");
        assert_eq!((config.after_crash, config.dumps), (AfterCrash::Class, 3));
        assert!(config.scx_stats);
        assert_eq!(config.power_profiles["power-saver"], Place::Class);
        let flsched = Place::Policy("flsched:slice=5ms".into());
        assert_eq!(config.power_profiles["performance"], flsched);
        let listen = Some("127.0.0.1:9469".parse().unwrap());
        assert_eq!(config.metrics, Some(Metrics { listen, users: false, names: 200 }));
        assert_eq!(config.clocks.as_ref().unwrap().license_levels, 3);
    }

    #[test]
    fn what_is_wrong_is_one_line_with_the_way_out() {
        for (text, says) in [
            ("", "1: missing field `policy`"),
            ("policy = 3", ":1: expected a policy such as"),
            ("policy = []", "policy: it is empty; name one"),
            ("policy = \"flshed\"", "policy: no policy is called `flshed`; did you mean flsched?"),
            ("policy = \"default\"", "policy: default is no policy that can be loaded"),
            ("policy = [\"cas\", \"cas\"]", "policy: cas is there twice"),
            ("policy = \"cas\"\nbackoff = \"5\"", ":2: expected a time such as \"60s\""),
            ("policy = \"cas\"\nbackoff = \"0s\"", "backoff: give it 1s or more"),
            ("policy = \"cas\"\ngrace = \"20ms\"", "grace: give it 1s or more, or 0s for none"),
            ("policy = \"cas\"\nlongest_backoff = \"1s\"", "longest_backoff: it is shorter"),
            ("policy = \"cas\"\npolicy_knobs = 1", ":2: unknown field `policy_knobs`"),
            ("policy = \"cas\"\nafter_crash = \"x\"", ":2: unknown variant `x`"),
            ("policy = \"cas\"\ndumps = -1", ":2: invalid value"),
            ("policy = \"cas\"\ndumps = 5000", "dumps: expected a whole number up to 1000"),
            (
                "policy = \"cas\"\n[power_profiles]\nbalanced = \"flshed\"",
                "power_profiles.balanced: no policy is called `flshed`; did you mean flsched?",
            ),
            ("policy = \"cas\"\n[metrics]\nlisten = \"9469\"", ":3: invalid socket address"),
            ("policy = \"cas\"\n[metrics]\nnames = 0", "metrics.names: expected a whole number"),
            ("policy = \"cas\"\n[metrics]\nport = 1", ":3: unknown field `port`"),
            (
                "policy = \"cas\"\nclocks = \"phenom-2f4s\"",
                "clocks: --clocks: phenom-2f4s says nothing",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with("/etc/paceline/paceline.toml"), "{error}");
            assert!(error.contains(says) && !error.contains('\n'), "{text}: {error}");
        }
    }
}
