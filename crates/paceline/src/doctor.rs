// SPDX-License-Identifier: GPL-2.0-only
//! `doctor`: whether policies can be loaded on this machine, what is missing and how to get it, and which policies fit.

use comparison::loading::CONTAINER;
use live::{END_COOKIES, Facts, Limit, MISSES, STOP_IT};
use policies::POLICIES;
use policy::native::MAX_CPUS;
use policy::{Fit, Policy, Site};
use report::text::visible;
use serde::Serialize;
use terminal::{Failure, output};

use crate::cli::Doctor;

/// One line of the examination.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Finding {
    /// The item that was examined.
    check: &'static str,
    /// Whether it is as it should be; null: it is neither right nor wrong, or not known.
    ok: Option<bool>,
    /// The finding.
    says: String,
    /// How to fix it, or what it means for loading a policy.
    mend: Option<String>,
    /// Each single finding, if there may be many.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    all: Vec<String>,
    /// No policy can be loaded without it.
    #[serde(skip)]
    needed: bool,
}

/// Examines this machine.
pub fn run(args: &Doctor) -> Result<(), Failure> {
    let findings = examined();
    let shown = if args.json {
        let text = serde_json::to_string_pretty(&findings).map_err(Failure::run)?;
        output::print(&format!("{text}\n"))
    } else {
        output::print(&findings.iter().map(line).collect::<String>())
    };
    let refused = findings.iter().any(|finding| finding.needed && finding.ok == Some(false));
    output::end(shown, if refused { Err(Failure::Status(1)) } else { Ok(()) })
}

/// Why policies cannot be loaded on this machine now, and how to fix it. None: they can.
pub fn obstacle() -> Option<String> {
    obstacle_of(&examined())
}

fn examined() -> Vec<Finding> {
    let facts = Facts::gather();
    let btf = facts.btf.as_deref().map(vm::probe::check_btf);
    let sound = btf.map(|sound| sound.map_err(|error| format!("{error:#}")));
    examine(&facts, sound)
}

fn obstacle_of(findings: &[Finding]) -> Option<String> {
    let first = findings.iter().find(|finding| finding.needed && finding.ok == Some(false))?;
    let says = visible(&first.says);
    Some(first.mend.as_ref().map_or(says.clone(), |mend| format!("{says}: {mend}")))
}

fn line(finding: &Finding) -> String {
    let mark = match finding.ok {
        Some(true) => "ok",
        Some(false) => "wrong",
        None => "--",
    };
    let mend = finding.mend.iter().map(|mend| format!("{:25}{mend}\n", "")).collect::<String>();
    format!("{mark:<6} {:<17} {}\n{mend}", finding.check, visible(&finding.says))
}

fn examine(facts: &Facts, sound: Option<Result<(), String>>) -> Vec<Finding> {
    let mut findings = vec![kernel(facts), sched_ext(facts), types(facts, sound), attached(facts)];
    findings.extend([may_load(facts), topology(facts), kinds(facts), counters(facts)]);
    findings.extend([core_scheduling(facts), speeds(facts)]);
    findings.extend([page_moves(facts), numa_balancing(facts), limits(facts)]);
    findings.extend(policies(facts));
    findings
}

fn finding(check: &'static str, ok: Option<bool>, says: impl Into<String>) -> Finding {
    Finding { check, ok, says: says.into(), mend: None, all: Vec::new(), needed: false }
}

impl Finding {
    fn needed(self) -> Self {
        Finding { needed: true, ..self }
    }

    fn mend(self, how: impl Into<String>) -> Self {
        Finding { mend: Some(how.into()), ..self }
    }
}

/// The oldest version with sched_ext.
const LEAST: (u32, u32) = (6, 12);

fn kernel(facts: &Facts) -> Finding {
    let mut numbers = facts.release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let version = match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor),
        _ => return finding("kernel", None, format!("{}: of no known version", facts.release)),
    };
    let says = format!("Linux {}", facts.release);
    match version >= LEAST {
        true => finding("kernel", Some(true), says).needed(),
        false => finding("kernel", Some(false), format!("{says}: sched_ext came with 6.12"))
            .needed()
            .mend(package(facts)),
    }
}

/// For distributions without a known package: Fedora and its relatives too.
const OTHERS: &str = "install a kernel of 6.12 or later with CONFIG_SCHED_CLASS_EXT=y";

/// The kernel package that has it.
fn package(facts: &Facts) -> String {
    let known = [
        (
            "ubuntu",
            "Ubuntu: linux-generic of 25.04 or later (6.14) has it, and linux-generic-hwe-24.04 of 24.04",
        ),
        (
            "debian",
            "Debian 13: linux-image-amd64 of trixie-backports has it (apt install -t trixie-backports \
             linux-image-amd64), its own 6.12 has not",
        ),
        ("rhel", OTHERS),
        ("centos", OTHERS),
        ("amzn", OTHERS),
        ("fedora", "Fedora: `kernel` of Fedora 41 or later (6.12) has it: dnf upgrade kernel"),
        ("arch", "Arch: `linux` (6.12 or later) has it: pacman -Syu linux"),
    ];
    let own = facts.distribution.iter().find_map(|id| known.iter().find(|(name, _)| id == name));
    match own {
        Some((_, text)) => (*text).into(),
        None => OTHERS.into(),
    }
}

fn sched_ext(facts: &Facts) -> Finding {
    match &facts.sched_ext {
        Some(_) => finding("sched_ext", Some(true), "the kernel has it").needed(),
        None => finding("sched_ext", Some(false), "the kernel has none (CONFIG_SCHED_CLASS_EXT)")
            .needed()
            .mend(package(facts)),
    }
}

fn types(facts: &Facts, sound: Option<Result<(), String>>) -> Finding {
    match sound {
        None => finding("type information", Some(false), "the kernel has none: no policy loads")
            .mend("boot a kernel with CONFIG_DEBUG_INFO_BTF=y"),
        // Another finding says that already.
        Some(Err(_)) if facts.sched_ext.is_none() => {
            finding("type information", None, "not looked at: there is no sched_ext")
        }
        Some(Ok(())) => finding("type information", Some(true), "sound"),
        Some(Err(why)) => finding("type information", Some(false), why)
            .mend("boot another build of the kernel: this one can load no scheduler at all"),
    }
    .needed()
}

fn attached(facts: &Facts) -> Finding {
    match (facts.sched_ext.as_deref(), &facts.attached) {
        (None, _) => finding("attached", None, "none can be"),
        (Some("disabled"), _) => {
            finding("attached", Some(true), "none: Linux's own class is in charge")
        }
        (Some(state), other) => {
            let other = other.as_deref().unwrap_or("a scheduler");
            finding("attached", Some(false), format!("{other} is {state}")).needed().mend(STOP_IT)
        }
    }
}

fn may_load(facts: &Facts) -> Finding {
    let missing = &facts.missing_to_load;
    match (missing.is_empty(), facts.namespaces.is_empty()) {
        (true, true) => finding("rights", Some(true), "this process may load policies").needed(),
        (true, false) => finding(
            "rights",
            None,
            format!("this process may load policies, from {} namespaces", facts.namespaces.join(" and ")),
        )
        .mend(format!(
            "others' cgroup limits or threads' numbers are not to be seen there: start the container with {CONTAINER}"
        )),
        (false, _) => finding("rights", Some(false), format!("missing: {}", missing.join(", ")))
            .needed()
            .mend(format!(
                "run it with sudo (in a container: with {CONTAINER}); compare --on vm and --on sim need no rights"
            )),
    }
}

fn core_scheduling(facts: &Facts) -> Finding {
    let finding = |ok, says: String| finding("core scheduling", Some(ok), says).needed();
    match &facts.core_scheduled {
        None => finding(true, "no thread has a cookie, as far as this process may know".into()),
        Some(thread) => {
            finding(false, format!("thread {thread} has a cookie: kernels hang under a policy"))
                .mend(END_COOKIES)
        }
    }
}

fn topology(facts: &Facts) -> Finding {
    let Facts { cpus, cores, caches, nodes, .. } = facts;
    let some = |count: &usize, one: &str, more: &str| {
        format!("{count} {}", if *count == 1 { one } else { more })
    };
    let says = format!(
        "{}, {}, {}, {}",
        some(cpus, "CPU", "CPUs"),
        some(cores, "core", "cores"),
        some(caches, "last-level cache", "last-level caches"),
        some(nodes, "memory node", "memory nodes")
    );
    match facts.cpu_numbers > MAX_CPUS {
        false => finding("topology", Some(true), says),
        true => finding("topology", Some(false), says)
            .needed()
            .mend(format!(
                "numbers of CPUs go up to {}, and policies have room for {MAX_CPUS}: boot with nr_cpus={MAX_CPUS}",
                facts.cpu_numbers - 1
            )),
    }
}

fn kinds(facts: &Facts) -> Finding {
    let kinds: Vec<String> =
        facts.kinds.iter().rev().map(|(does, cpus)| format!("{cpus} of {does}")).collect();
    match kinds.len() {
        0 | 1 => finding("core types", Some(true), "all alike, as far as the kernel tells"),
        _ => finding(
            "core types",
            Some(true),
            format!("{} CPUs (the most is 1024)", kinds.join(", ")),
        ),
    }
}

fn counters(facts: &Facts) -> Finding {
    let has = facts.counters.join(", ");
    let missing: Vec<&str> = facts.missing_counters.keys().copied().collect();
    let why = facts.missing_counters.values().next().map_or("", String::as_str);
    match (facts.counters.is_empty(), missing.is_empty()) {
        (_, true) => finding("counters", Some(true), has),
        (false, _) => {
            finding("counters", None, format!("{has}; not {} ({why})", missing.join(", ")))
        }
        (true, _) => finding("counters", None, format!("none ({why})")).mend(
            "flsched, cas and o1 need none; in a virtual machine ask for a PMU, on a real one see \
             kernel.perf_event_paranoid",
        ),
    }
}

/// The source of tasks' speeds for policies of uneven cores.
fn speeds(facts: &Facts) -> Finding {
    match (&facts.policy_counters, facts.kinds.len()) {
        (Some(counters), _) => {
            finding("speeds", Some(true), format!("instructions are counted: {counters}"))
        }
        (None, 0 | 1) => {
            finding("speeds", None, "no counter of instructions, and one kind of core")
        }
        (None, _) => finding("speeds", None, "no counter of instructions")
            .mend("min-fair and its like go by `run --profile FILE`, or share evenly (max-fair)"),
    }
}

fn page_moves(facts: &Facts) -> Finding {
    // The kernel requires this right for moving pages of another user's process, except shared pages.
    match (facts.nodes, facts.rights.contains(&"CAP_SYS_PTRACE")) {
        (1, _) => finding("page moves", None, "one memory node: nowhere to move to"),
        (_, true) => finding("page moves", Some(true), "pages of any process may be moved"),
        (_, false) => {
            finding("page moves", Some(false), "only those of own processes may be moved")
                .mend("CAP_SYS_PTRACE is missing: run it as root (sudo)")
        }
    }
}

fn numa_balancing(facts: &Facts) -> Finding {
    match facts.numa_balancing {
        Some(true) => finding("NUMA balancing", None, "on")
            .mend("while a policy is in charge the kernel's scan is off: its tasks' pages stay"),
        Some(false) => finding("NUMA balancing", Some(true), "off"),
        None => finding("NUMA balancing", Some(true), "the kernel has none"),
    }
}

fn limits(facts: &Facts) -> Finding {
    let caps = facts.limits.iter().filter(|limit| limit.caps());
    let weights = facts.limits.iter().filter(|limit| !limit.caps());
    let all: Vec<String> = caps.chain(weights).map(Limit::to_string).collect();
    let Some(first) = all.first() else { return finding("cgroup limits", Some(true), "none") };
    let found = finding("cgroup limits", None, format!("{}, {first} the first", all.len()));
    Finding { all, ..found }.mend(
        "paceline heeds them; avx-fair, dino and policies of uneven cores heed cpu.max; where one is ignored `run` \
         refuses unless told to; --json has them all",
    )
}

/// This machine, as far as a policy may ask whether it fits.
fn site(facts: &Facts) -> Site {
    Site {
        cpus: facts.cpus,
        kinds: facts.kinds.len(),
        domains: facts.nodes.max(facts.caches),
        counts_misses: facts.counters.contains(&MISSES),
        counts_licenses: facts.licenses,
        tlb_tags: facts.tlb_tags,
    }
}

/// The policies that fit this machine, and why.
fn policies(facts: &Facts) -> Vec<Finding> {
    let site = site(facts);
    let answer = |policy: &&Policy| {
        let Fit { fits, why } = policy.fits?(&site);
        Some(finding(policy.name, fits, why))
    };
    POLICIES.iter().filter_map(answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> Facts {
        Facts {
            release: "7.2.12-amd64".into(),
            sched_ext: Some("disabled".into()),
            rights: vec!["CAP_SYS_ADMIN", "CAP_SYS_NICE", "CAP_PERFMON", "CAP_BPF"],
            cpus: 8,
            cpu_numbers: 8,
            cores: 8,
            caches: 1,
            nodes: 1,
            ..Facts::default()
        }
    }

    fn wrong(facts: &Facts, btf: Option<Result<(), String>>) -> Vec<&'static str> {
        let findings = examine(facts, btf).into_iter();
        findings.filter(|it| it.needed && it.ok == Some(false)).map(|it| it.check).collect()
    }

    #[test]
    fn only_what_is_needed_is_wrong() {
        assert!(wrong(&sound(), Some(Ok(()))).is_empty());
        assert_eq!(wrong(&sound(), None), ["type information"]);
        assert_eq!(wrong(&sound(), Some(Err("aux".into()))), ["type information"]);
        let old = Facts { release: "6.1.0-44-amd64".into(), sched_ext: None, ..sound() };
        assert_eq!(wrong(&old, Some(Err("no struct".into()))), ["kernel", "sched_ext"]);
        let user = Facts { missing_to_load: vec!["root"], ..sound() };
        assert_eq!(wrong(&user, Some(Ok(()))), ["rights"]);
        let (state, by) = (Some("enabled".to_string()), Some("lavd".to_string()));
        let taken = Facts { sched_ext: state, attached: by, ..sound() };
        assert_eq!(wrong(&taken, Some(Ok(()))), ["attached"]);
        let cookie = Facts { core_scheduled: Some("7 (sh)".into()), ..sound() };
        assert_eq!(wrong(&cookie, Some(Ok(()))), ["core scheduling"]);
        let with_gaps = Facts { cpu_numbers: 1920, ..sound() };
        assert_eq!(wrong(&with_gaps, Some(Ok(()))), ["topology"]);
    }

    #[test]
    fn an_obstacle_is_the_first_that_is_needed_and_wrong_with_its_mending() {
        assert_eq!(obstacle_of(&examine(&sound(), Some(Ok(())))), None);
        let user = Facts { missing_to_load: vec!["root"], ..sound() };
        let said = obstacle_of(&examine(&user, Some(Ok(())))).unwrap();
        assert!(said.starts_with("missing: root: run it with sudo"), "{said}");
        let old = Facts { release: "6.1.0-44-amd64".into(), sched_ext: None, ..sound() };
        let said = obstacle_of(&examine(&old, None)).unwrap();
        let wanted = "Linux 6.1.0-44-amd64: sched_ext came with 6.12: install";
        assert!(said.starts_with(wanted), "{said}");
    }

    #[test]
    fn what_caps_is_named_first_and_all_are_listed() {
        let limit = |group: &str, file, value: &str| Limit {
            group: group.into(),
            file,
            value: value.into(),
        };
        let limits_found = vec![limit("/a", "cpu.weight", "50"), limit("/b", "cpu.max", "1 2")];
        let found = limits(&Facts { limits: limits_found, ..sound() });
        assert_eq!(found.says, "2, /b/cpu.max is 1 2 the first");
        assert_eq!(found.all, ["/b/cpu.max is 1 2", "/a/cpu.weight is 50"]);
    }

    #[test]
    fn each_policy_is_told_of() {
        let fits = |facts: &Facts| {
            let fits = policies(facts).into_iter().filter(|policy| policy.ok == Some(true));
            fits.map(|policy| policy.check).collect::<Vec<_>>()
        };
        assert_eq!(policies(&sound()).len(), 6);
        assert!(fits(&sound()).is_empty());
        let large = Facts {
            cpus: 64,
            nodes: 2,
            caches: 4,
            kinds: [(512, 32), (1024, 32)].into(),
            counters: vec![MISSES],
            licenses: true,
            tlb_tags: Some(false),
            ..sound()
        };
        assert_eq!(fits(&large), ["paceline", "flsched", "cas", "min-fair", "dino", "avx-fair"]);
        let blind = Facts { counters: Vec::new(), ..large };
        assert_eq!(fits(&blind), ["paceline", "flsched", "cas", "min-fair", "avx-fair"]);
    }

    #[test]
    fn the_package_is_the_distributions_own() {
        let of = |ids: &[&str]| {
            let distribution = ids.iter().map(|id| (*id).to_string()).collect();
            package(&Facts { distribution, ..sound() })
        };
        assert!(of(&["pop", "ubuntu", "debian"]).starts_with("Ubuntu"));
        assert!(of(&["debian"]).starts_with("Debian"));
        assert!(of(&["arch"]).starts_with("Arch"));
        assert_eq!(of(&["rocky", "rhel", "centos", "fedora"]), OTHERS);
        assert!(of(&["fedora"]).starts_with("Fedora"));
        assert!(of(&["mine"]).contains("CONFIG_SCHED_CLASS_EXT=y"));
    }
}
