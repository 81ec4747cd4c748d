// SPDX-License-Identifier: GPL-2.0-only
//! Facts about this machine and its kernel that schedulers depend on. They are read, never tried out, except for
//! counters: opening one is the only way to know whether it can be opened.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::cgroup::{self, Limit};
use crate::core_scheduling::core_scheduled;
use crate::counters::{Counters, Event, What};
use crate::kernel::{FOLDER, OPS, TYPES};
use crate::perf_event::{self, Target};
use crate::process::{in_user_namespace, is_root};
use crate::{licenses, topology, tracefs};

/// The facts. None and empty lists: not present, or not readable.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// `7.2.12+deb14-cloud-amd64`.
    pub release: String,
    /// The distribution's `ID`, and its `ID_LIKE`.
    pub distribution: Vec<String>,
    /// `enabled`, `disabled` or between; None if the kernel has no sched_ext.
    pub sched_ext: Option<String>,
    /// The scheduler in charge, if there is one.
    pub attached: Option<String>,
    /// The file of the kernel's type information, if it has any.
    pub btf: Option<PathBuf>,
    /// CPUs online.
    pub cpus: usize,
    /// The highest number of a CPU plus one: numbers may have gaps.
    pub cpu_numbers: usize,
    /// Their cores.
    pub cores: usize,
    /// Their last-level caches; packages, if the kernel knows of no third level.
    pub caches: usize,
    /// Memory nodes that have CPUs.
    pub nodes: usize,
    /// CPUs of each kind, by the capacity of its cores (1,024: the greatest). One kind if all are alike or the kernel
    /// does not say.
    pub kinds: BTreeMap<u32, usize>,
    /// The processor counts cycles at each license level.
    pub licenses: bool,
    /// The TLB distinguishes entries of several address spaces (x86: pcid); None: not known.
    pub tlb_tags: Option<bool>,
    /// Counters that policies use and this process can open.
    pub counters: Vec<&'static str>,
    /// Counters that it cannot open, and the kernel's reason.
    pub missing_counters: BTreeMap<&'static str, String>,
    /// Counters of instructions for policies, and their CPUs; None if there are none.
    pub policy_counters: Option<String>,
    /// Relevant capabilities that this process has.
    pub rights: Vec<&'static str>,
    /// Requirements for loading a policy that it lacks: [`missing_to_load`].
    pub missing_to_load: Vec<&'static str>,
    /// Namespaces of a container around this process that hide parts of the machine: `pid`, `cgroup`.
    pub namespaces: Vec<&'static str>,
    /// `kernel.numa_balancing` is on.
    pub numa_balancing: Option<bool>,
    /// Limits of CPU time that differ from the default.
    pub limits: Vec<Limit>,
    /// A thread that core scheduling is asked for: [`core_scheduled`].
    pub core_scheduled: Option<String>,
}

/// Relevant capabilities, by number (include/uapi/linux/capability.h).
const RIGHTS: [(&str, u32); 5] = [
    ("CAP_SYS_PTRACE", 19),
    ("CAP_SYS_ADMIN", 21),
    ("CAP_SYS_NICE", 23),
    ("CAP_PERFMON", 38),
    ("CAP_BPF", 39),
];

/// Name of the counter that shows which threads access memory often.
pub const MISSES: &str = "last-level cache misses";

/// Relevant counters: name, type and config (include/uapi/linux/perf_event.h).
const COUNTERS: [(&str, u32, u64); 4] = [
    ("cycles", 0, 0),
    ("instructions", 0, 1),
    (MISSES, 3, 2 | 1 << 16),
    ("data TLB misses", 3, 3 | 1 << 16),
];

impl Facts {
    /// Gathers the facts of this machine.
    pub fn gather() -> Self {
        let mut facts = Self::read(Path::new("/"));
        facts.release = kernel_release();
        facts.namespaces = namespaces();
        facts.missing_to_load = missing_to_load();
        facts.core_scheduled = core_scheduled();
        for (name, kind, config) in COUNTERS {
            match perf_event::open(kind, config, Target::Thread(0)) {
                Ok(_) => facts.counters.push(name),
                Err(error) => drop(facts.missing_counters.insert(name, error.to_string())),
            }
        }
        let counters = Counters::open(What::Instructions, Event::Own);
        facts.policy_counters = counters.any().then(|| counters.describe());
        facts
    }

    /// Reads the facts from files below `root`.
    fn read(root: &Path) -> Self {
        let text = |file: &str| {
            fs::read_to_string(root.join(file)).ok().map(|text| text.trim().to_string())
        };
        let cpus = topology::online(root).unwrap_or_default();
        let topology = topology::below(root).unwrap_or_default();
        let different = |of_cpu: &[u16]| {
            let all: BTreeSet<u16> =
                cpus.iter().filter_map(|cpu| of_cpu.get(*cpu).copied()).collect();
            all.len().max(1)
        };
        let mut kinds = BTreeMap::new();
        for cpu in &cpus {
            *kinds.entry(topology::capacity(root, *cpu)).or_default() += 1;
        }
        let btf = root.join(&TYPES[1..]);
        Facts {
            distribution: distribution(&text("etc/os-release").unwrap_or_default()),
            sched_ext: text(&format!("{}/state", &FOLDER[1..])),
            attached: text(&format!("{}/{OPS}", &FOLDER[1..])),
            btf: btf.exists().then_some(btf),
            cpus: cpus.len(),
            cpu_numbers: topology.core.len(),
            cores: different(&topology.core),
            caches: different(&topology.llc),
            nodes: different(&topology.node),
            kinds,
            licenses: licenses::events(root).is_some(),
            tlb_tags: topology.tlb_tags,
            rights: real_rights(root),
            numa_balancing: text("proc/sys/kernel/numa_balancing").map(|value| value != "0"),
            limits: cgroup::limits(&root.join("sys/fs/cgroup")),
            ..Facts::default()
        }
    }
}

fn distribution(os_release: &str) -> Vec<String> {
    let value = |key: &str| {
        let line = os_release.lines().find_map(|line| line.strip_prefix(key));
        line.unwrap_or_default().trim_matches('"').to_string()
    };
    let all = format!("{} {}", value("ID="), value("ID_LIKE="));
    all.split_whitespace().map(str::to_string).collect()
}

fn rights(status: &str) -> Vec<&'static str> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let mask = u64::from_str_radix(line.unwrap_or_default().trim(), 16).unwrap_or(0);
    RIGHTS.into_iter().filter(|(_, bit)| mask >> bit & 1 == 1).map(|(name, _)| name).collect()
}

/// The running kernel's release.
pub fn kernel_release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Capabilities that hold for the machine. Those from a user namespace (`unshare -r`, an unprivileged container) hold
/// in it alone, and a machine's schedulers and counters are in none.
fn real_rights(root: &Path) -> Vec<&'static str> {
    match in_user_namespace(root) {
        true => Vec::new(),
        false => rights(&fs::read_to_string(root.join("proc/self/status")).unwrap_or_default()),
    }
}

/// Capabilities that observing the scheduler needs and this process lacks.
pub fn missing_rights() -> Vec<&'static str> {
    lacking(&real_rights(Path::new("/")), tracefs::is_open())
}

/// Requirements for loading a policy that this process lacks: it has to be root's, and to have the capabilities for
/// BPF.
pub fn missing_to_load() -> Vec<&'static str> {
    let root = Path::new("/");
    let mut missing = to_load(is_root(), &real_rights(root));
    missing.extend(is_confidential(root).then_some(UNLOCKED));
    missing
}

/// The requirement that is not met if the kernel does not let BPF programs read its memory.
const UNLOCKED: &str = "a kernel that is not locked down for confidentiality";

/// Whether the kernel does not let BPF programs read its memory, which every policy does (security/lockdown).
fn is_confidential(root: &Path) -> bool {
    let modes = fs::read_to_string(root.join("sys/kernel/security/lockdown"));
    modes.is_ok_and(|modes| modes.contains("[confidentiality]"))
}

/// The first namespaces of a machine have fixed numbers (include/linux/proc_ns.h).
const NAMESPACES: [(&str, u64); 2] = [("pid", 0xeffffffc), ("cgroup", 0xeffffffb)];

/// Namespaces of a container around this process. In one of `pid`, threads have other numbers than in the kernel; in
/// one of `cgroup`, other containers' groups are not visible. Kernels without namespaces have none.
pub fn namespaces() -> Vec<&'static str> {
    let is_own = |(name, first): &(&str, u64)| {
        fs::metadata(format!("/proc/self/ns/{name}")).is_ok_and(|own| own.ino() != *first)
    };
    NAMESPACES.into_iter().filter(is_own).map(|(name, _)| name).collect()
}

fn to_load(is_root: bool, own: &[&'static str]) -> Vec<&'static str> {
    if is_root { lacking(own, true) } else { vec!["root"] }
}

/// Tracepoints are found in tracefs, which only root can read by default.
fn lacking(own: &[&'static str], tracefs_is_open: bool) -> Vec<&'static str> {
    if own.contains(&"CAP_SYS_ADMIN") {
        return Vec::new();
    }
    match tracefs_is_open {
        true => ["CAP_BPF", "CAP_PERFMON"].into_iter().filter(|name| !own.contains(name)).collect(),
        false => vec!["CAP_SYS_ADMIN"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("{text}\n")).unwrap();
        }
        root
    }

    #[test]
    fn observing_takes_tracefs_as_well() {
        assert!(lacking(&["CAP_SYS_ADMIN"], false).is_empty());
        assert!(lacking(&["CAP_BPF", "CAP_PERFMON"], true).is_empty());
        assert_eq!(lacking(&["CAP_BPF", "CAP_PERFMON"], false), ["CAP_SYS_ADMIN"]);
        assert_eq!(lacking(&["CAP_BPF"], true), ["CAP_PERFMON"]);
    }

    #[test]
    fn loading_takes_root_and_what_a_container_may_have_taken_from_it() {
        assert_eq!(to_load(false, &["CAP_SYS_ADMIN", "CAP_BPF", "CAP_PERFMON"]), ["root"]);
        assert!(to_load(true, &["CAP_SYS_ADMIN"]).is_empty());
        assert!(to_load(true, &["CAP_BPF", "CAP_PERFMON"]).is_empty());
        assert_eq!(to_load(true, &["CAP_SYS_NICE"]), ["CAP_BPF", "CAP_PERFMON"]);
    }

    #[test]
    fn rights_within_a_user_namespace_are_none() {
        let status = ("proc/self/status", "Name: x\nCapEff:\t000001ffffffffff");
        let rights = |uid_map: &str| {
            let root = tree(&[status, ("proc/self/uid_map", uid_map)]);
            Facts::read(root.path()).rights.len()
        };
        assert_eq!(rights("         0          0 4294967295"), RIGHTS.len());
        assert_eq!(rights("         0       1000          1"), 0, "unshare -r");
        assert_eq!(rights("         0     100000      65536"), 0, "a container");
        assert_eq!(rights("0 0 1000\n1000 1000 1"), 0);
    }

    #[test]
    fn a_phone_has_two_kinds_of_cores() {
        let root = tree(&[
            ("sys/devices/system/cpu/online", "0-2"),
            ("sys/devices/system/cpu/cpu0/cpu_capacity", "446"),
            ("sys/devices/system/cpu/cpu1/cpu_capacity", "446"),
            ("sys/devices/system/cpu/cpu2/cpu_capacity", "1024"),
            ("sys/devices/system/cpu/cpu0/topology/core_cpus_list", "0"),
            ("sys/devices/system/cpu/cpu1/topology/core_cpus_list", "1"),
            ("sys/devices/system/cpu/cpu2/topology/core_cpus_list", "2"),
        ]);
        let facts = Facts::read(root.path());
        assert_eq!((facts.cpus, facts.cores, facts.caches, facts.nodes), (3, 3, 1, 1));
        assert_eq!(facts.kinds, [(446, 2), (1024, 1)].into());
        assert_eq!((facts.sched_ext, facts.btf, facts.tlb_tags), (None, None, None));
        assert!(!is_confidential(root.path()));
    }

    #[test]
    fn cores_of_low_power_are_the_slowest() {
        let online = ("sys/devices/system/cpu/online", "0-3");
        let units = [("sys/devices/cpu_core/cpus", "0-1"), ("sys/devices/cpu_atom/cpus", "2")];
        let named = ("sys/devices/cpu_lowpower/cpus", "3");
        let kinds = [(256, 1), (512, 1), (1024, 2)].into();
        let known = tree(&[online, units[0], units[1], named]);
        assert_eq!(Facts::read(known.path()).kinds, kinds);
        assert_eq!(topology::below(known.path()).unwrap().core_type, [0, 0, 1, 2]);
        let in_no_unit = tree(&[online, units[0], units[1]]);
        assert_eq!(Facts::read(in_no_unit.path()).kinds, kinds);
    }

    #[test]
    fn a_laptop_with_a_scheduler_in_charge() {
        let root = tree(&[
            ("sys/devices/system/cpu/online", "0-3"),
            ("sys/devices/cpu_atom/cpus", "2-3"),
            ("sys/devices/cpu_core/cpus", "0-1"),
            ("sys/devices/system/cpu/cpu0/topology/core_cpus_list", "0-1"),
            ("sys/devices/system/cpu/cpu1/topology/core_cpus_list", "0-1"),
            ("sys/devices/system/cpu/cpu0/cache/index0/level", "1"),
            ("sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list", "0-1"),
            ("sys/devices/system/cpu/cpu0/cache/index3/level", "3"),
            ("sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list", "0-3"),
            ("sys/devices/system/cpu/cpu1/cache/index3/level", "3"),
            ("sys/devices/system/cpu/cpu1/cache/index3/shared_cpu_list", "0-3"),
            ("sys/devices/system/cpu/cpu2/topology/core_cpus_list", "2"),
            ("sys/devices/system/cpu/cpu2/topology/package_cpus_list", "2-3"),
            ("sys/devices/system/cpu/cpu3/topology/core_cpus_list", "3"),
            ("sys/devices/system/cpu/cpu3/topology/package_cpus_list", "2-3"),
            ("sys/devices/system/node/node0/cpulist", "0-2"),
            ("sys/devices/system/node/node1/cpulist", "3"),
            ("sys/devices/system/node/node0/distance", "10 12"),
            ("sys/devices/system/node/node1/distance", "12 10"),
            ("sys/kernel/sched_ext/state", "enabled"),
            (concat!("sys/kernel/sched_ext/", "root/ops"), "lavd"),
            ("sys/kernel/security/lockdown", "none integrity [confidentiality]"),
            ("sys/kernel/btf/vmlinux", ""),
            ("proc/cpuinfo", "processor : 0\nflags\t\t: fpu pcid sse"),
            ("proc/self/status", "Name: x\nCapEff:\t0000008000800000"),
            ("proc/sys/kernel/numa_balancing", "1"),
            ("etc/os-release", "NAME=\"x\"\nID=pop\nID_LIKE=\"ubuntu debian\""),
        ]);
        let facts = Facts::read(root.path());
        assert_eq!(topology::below(root.path()).unwrap().node_distance, [[10, 12], [12, 10]]);
        assert_eq!(facts.kinds, [(512, 2), (1024, 2)].into());
        assert_eq!((facts.cores, facts.caches, facts.nodes), (3, 2, 2));
        assert!(is_confidential(root.path()));
        assert_eq!(facts.sched_ext.as_deref(), Some("enabled"));
        assert_eq!(facts.attached.as_deref(), Some("lavd"));
        assert_eq!(facts.rights, ["CAP_SYS_NICE", "CAP_BPF"]);
        assert_eq!(facts.distribution, ["pop", "ubuntu", "debian"]);
        assert_eq!((facts.tlb_tags, facts.numa_balancing), (Some(true), Some(true)));
        assert!(facts.btf.is_some());
    }
}
