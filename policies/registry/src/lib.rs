// SPDX-License-Identifier: GPL-2.0-only
//! Every policy that ships, as one list.
//!
//! The command, the book and the tests read it. A new policy is its own folder, and a line in [`FOLDERS`].

use std::sync::LazyLock;

use policy::Policy;

/// A folder of `policies/`: the policies of one crate, which share a README and a page of the book.
#[derive(Clone, Copy, Debug)]
pub struct Folder {
    /// Its name, and that of the page.
    pub name: &'static str,
    /// `README.md`.
    pub readme: &'static str,
    /// `verifier.txt`: the most instructions that the kernel's verifier may walk in a program, by policy and program.
    pub budgets: &'static str,
    /// Its policies.
    pub policies: &'static [&'static Policy],
}

impl Folder {
    /// The title of its page: the README's first heading.
    pub fn title(&self) -> &'static str {
        let first = self.readme.lines().next().unwrap_or_default();
        first.strip_prefix("# ").expect("a README begins with its heading")
    }
}

macro_rules! folders {
    ($($name:ident),* $(,)?) => {
        &[$(Folder {
            name: stringify!($name),
            readme: include_str!(concat!("../../", stringify!($name), "/README.md")),
            budgets: include_str!(concat!("../../", stringify!($name), "/verifier.txt")),
            policies: $name::ALL,
        }),*]
    };
}

/// In the order in which `paceline list` shows them.
pub static FOLDERS: &[Folder] = folders![composed, flsched, cas, uneven, dino, avx, baseline];

/// All policies in a row.
pub static POLICIES: LazyLock<Vec<&'static Policy>> =
    LazyLock::new(|| FOLDERS.iter().flat_map(|folder| folder.policies).copied().collect());

/// All that are no fault on purpose.
pub static HONEST: LazyLock<Vec<&'static Policy>> =
    LazyLock::new(|| POLICIES.iter().copied().filter(|policy| !policy.cheats).collect());

/// One honest policy of each build: the first that tests load without knobs, by day before by night.
pub static BUILDS: LazyLock<Vec<&'static Policy>> = LazyLock::new(|| {
    let by_day = HONEST.iter().filter(|policy| policy.trials.day.contains(&policy.name));
    let by_night = HONEST.iter().filter(|policy| policy.trials.night.contains(&policy.name));
    let mut builds: Vec<&'static Policy> = Vec::new();
    for policy in by_day.chain(by_night) {
        if builds.iter().all(|other| other.build.source != policy.build.source) {
            builds.push(policy);
        }
    }
    builds
});

/// The folder that a policy is from. None: it does not ship.
pub fn folder_of(policy: &Policy) -> Option<&'static Folder> {
    FOLDERS.iter().find(|folder| folder.policies.iter().any(|own| own.name == policy.name))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use object::{File, Object, ObjectSymbol};
    use policy::Instance;

    use super::*;

    #[test]
    fn each_policy_is_from_one_folder() {
        for folder in FOLDERS {
            for policy in folder.policies {
                assert_eq!(folder_of(policy).map(|of| of.name), Some(folder.name));
            }
            assert!(!folder.title().is_empty(), "{}", folder.name);
        }
        let names: BTreeSet<&str> = POLICIES.iter().map(|policy| policy.name).collect();
        assert_eq!(names.len(), POLICIES.len(), "two policies have one name");
    }

    #[test]
    fn each_build_is_loaded_in_guests_under_a_policy_without_knobs() {
        for policy in HONEST.iter() {
            let known = BUILDS.iter().any(|other| other.build.source == policy.build.source);
            assert!(known, "no `trials` name {}, nor another policy of its build", policy.name);
        }
    }

    #[test]
    fn trials_are_variants_of_their_own_policy() {
        for policy in POLICIES.iter() {
            for label in [policy.trials.day, policy.trials.night].concat() {
                let variant = Instance::parse(label, &[policy]);
                assert_eq!(variant.map(|variant| variant.label).as_deref(), Ok(label));
            }
        }
    }

    #[test]
    fn a_knob_takes_its_own_default() {
        for policy in POLICIES.iter() {
            for knob in policy.knobs {
                let default = knob.variable.default;
                let read = knob.parse(&knob.format(default));
                assert_eq!(read, Ok(default), "{}", policy.name);
            }
        }
    }

    /// Whether an object has a `u64` of this name.
    fn counts(object: &[u8], name: &str) -> bool {
        let file = File::parse(object).unwrap();
        file.symbols().any(|symbol| symbol.name() == Ok(name) && symbol.size() == 8)
    }

    #[test]
    fn both_builds_have_the_counters_that_results_list() {
        let mut counters = 0;
        for policy in POLICIES.iter() {
            for name in policy.totals {
                let both = [policy.build.bpf.bytes(), policy.build.native.bytes()];
                assert!(both.iter().all(|object| counts(object, name)), "{}: {name}", policy.name);
                counters += 1;
            }
            assert!(!counts(policy.build.bpf.bytes(), "no_such_counter"));
        }
        assert!(counters > 0);
    }

    #[test]
    fn budgets_are_of_the_folders_own_policies() {
        for folder in FOLDERS {
            for line in folder.budgets.lines() {
                let words: Vec<&str> = line.split(' ').collect();
                let &[name, _, most] = &words[..] else { panic!("{}: {line}", folder.name) };
                assert!(folder.policies.iter().any(|own| own.name == name), "{line}");
                assert!(most.parse::<u32>().is_ok(), "{line}");
            }
        }
    }
}
