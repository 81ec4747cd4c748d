// SPDX-License-Identifier: GPL-2.0-only
//! The command to run after `try`, with the user's own command in it, quoted for a shell.

use std::path::Path;

use terminal::shell::line;

/// Length of a policy's first run on a real machine.
const FIRST: &str = "60s";
/// Rounds of a comparison on this machine.
const ROUNDS: &str = "5";

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Nothing was recorded, or there is nothing to compare.
    Unknown,
    /// The replay is on another machine.
    OtherMachine,
    /// The replay is far off, and other tasks used the machine.
    OffAndBusy,
    /// The replay is far off, and pipes were not recorded.
    OffAndUnseen,
    /// The replay is far off for an unknown reason.
    Off,
    /// Other tasks used the machine.
    Busy,
    /// The samples of procfs missed too much.
    Missed,
    /// One replay of each policy cannot tell a gain from chance.
    OneRun,
}

/// Facts that decide what can be run next.
#[derive(Clone, Debug, Default)]
pub struct Ways {
    /// The command that was recorded.
    pub command: Vec<String>,
    /// Options of this `try` that the next one keeps.
    pub options: Vec<String>,
    /// The named machine for the replay.
    pub machine: Option<String>,
    /// Every call was recorded.
    pub calls: bool,
    /// Participating policies that a kernel can load.
    pub policies: Vec<String>,
    /// The reason this kernel cannot load a policy now.
    pub obstacle: Option<String>,
}

impl Ways {
    /// The command to try policies that gain; `first` is the policy they are compared with.
    pub fn to_try(&self, first: &str, gaining: &[&str]) -> String {
        let listed = [&[first], gaining].concat().join(",");
        match (gaining, &self.obstacle) {
            ([one], None) => self.words(&["run", one, "--for", FIRST], &[]),
            (_, None) => {
                self.words(&["compare", "--on", "here", "--runs", ROUNDS, "--policy", &listed], &[])
            }
            (_, Some(_)) => self.on_vm(&listed),
        }
    }

    /// The command if there is no answer.
    pub fn after(&self, refusal: Refusal, is_coarse: bool) -> String {
        let machine: Vec<&str> =
            self.machine.iter().flat_map(|name| ["--machine", name.as_str()]).collect();
        let again = |more: &[&str]| self.again(&[&machine, more].concat());
        match refusal {
            Refusal::Missed => format!("sudo {}", again(&[])),
            Refusal::Off if is_coarse => format!("sudo {}", again(&[])),
            Refusal::Off => self.on_vm(&self.policies.join(",")),
            Refusal::OffAndUnseen => again(&["--calls"]),
            Refusal::OneRun => again(&["--runs", "5"]),
            Refusal::OtherMachine => self.again(&[]),
            Refusal::Unknown | Refusal::OffAndBusy | Refusal::Busy => again(&[]),
        }
    }

    fn on_vm(&self, policies: &str) -> String {
        // A guest sees only named files.
        let files = self.command.iter().skip(1).map(String::as_str).filter(|word| is_path(word));
        let with: Vec<&str> = files.flat_map(|path| ["--with", path]).collect();
        self.words(&["compare", "--on", "vm", "--policy", policies], &with)
    }

    fn again(&self, more: &[&str]) -> String {
        let mut options: Vec<&str> = self.options.iter().map(String::as_str).collect();
        if self.calls && !more.contains(&"--calls") {
            options.push("--calls");
        }
        options.extend(more);
        self.words(&["try"], &options)
    }

    fn words(&self, verb: &[&str], options: &[&str]) -> String {
        let own = self.command.iter().map(String::as_str);
        let before = ["paceline"].iter().chain(verb).chain(options).chain(&["--"]).copied();
        line(before.chain(own))
    }
}

fn is_path(word: &str) -> bool {
    !word.starts_with('-') && word.contains('/') && Path::new(word).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ways(command: &[&str], obstacle: Option<&str>) -> Ways {
        Ways {
            command: command.iter().map(ToString::to_string).collect(),
            options: vec!["--policy".into(), "flsched:slice=5ms,pull=on".into()],
            policies: vec!["default".into(), "flsched".into()],
            obstacle: obstacle.map(String::from),
            ..Ways::default()
        }
    }

    #[test]
    fn a_policy_is_run_where_it_can_be_loaded_and_seen_in_a_guest_elsewhere() {
        let command = ["sh", "-c", "echo it's $HOME"];
        let run = ways(&command, None).to_try("default", &["cas"]);
        assert_eq!(run, r"paceline run cas --for 60s -- sh -c 'echo it'\''s $HOME'");
        let compared = ways(&command, None).to_try("default", &["cas", "o1"]);
        let wanted = "paceline compare --on here --runs 5 --policy default,cas,o1 -- sh";
        assert!(compared.starts_with(wanted), "{compared}");
        let vm = ways(&command, Some("no sched_ext")).to_try("default", &["cas"]);
        assert!(vm.starts_with("paceline compare --on vm --policy default,cas -- sh -c "), "{vm}");
    }

    #[test]
    fn a_guest_is_given_the_files_that_the_command_names() {
        let make = ["make", "-C", "/etc", "-j8", "/none/such"];
        let vm = ways(&make, Some("old")).to_try("default", &["cas"]);
        let wanted = "paceline compare --on vm --policy default,cas --with /etc -- make -C /etc -j8 /none/such";
        assert_eq!(vm, wanted);
    }

    #[test]
    fn what_is_done_again_keeps_its_options_and_mends_what_was_wrong() {
        let again = |refusal, coarse| ways(&["make"], None).after(refusal, coarse);
        let tried = "paceline try --policy flsched:slice=5ms,pull=on";
        assert_eq!(again(Refusal::Busy, false), format!("{tried} -- make"));
        assert_eq!(again(Refusal::OffAndUnseen, false), format!("{tried} --calls -- make"));
        assert_eq!(again(Refusal::Missed, true), format!("sudo {tried} -- make"));
        assert_eq!(again(Refusal::OneRun, false), format!("{tried} --runs 5 -- make"));
        let real = again(Refusal::Off, false);
        assert_eq!(real, "paceline compare --on vm --policy default,flsched -- make");
        let calls = Ways { calls: true, ..ways(&["make"], None) };
        assert!(calls.after(Refusal::Busy, false).contains("--calls -- make"));
        let elsewhere = Ways { machine: Some("plain-2".into()), ..ways(&["make"], None) };
        assert!(elsewhere.after(Refusal::Busy, false).contains("--machine plain-2 -- make"));
        assert!(!elsewhere.after(Refusal::OtherMachine, false).contains("--machine"));
    }
}
