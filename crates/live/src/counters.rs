// SPDX-License-Identifier: GPL-2.0-only
//! Counters for policies that read them: each CPU's retired instructions, its cycles at each license level, or its
//! cycles.
//!
//! From kernel 6.15 on (ae0a457f5d33) the policy itself reads them. Before, a program reads them on each switch
//! (`bpf/switched.bpf.c`), which is allowed since 5.7 (b80b033bedae), and adds them to the policy's own table of tasks.
//! That does not work for licenses, which are charged while a task still runs. Uneven machines have a counter unit for
//! each kind of core, so each CPU is asked for its own.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use anyhow::Context;
use libbpf_rs::{Link, MapCore, MapHandle, Object, ObjectBuilder};
use policy::{Instance, Told, Topology};

use crate::perf_event::{Target, open};
use crate::renewal::{Renewal, Renewed};
use crate::variables::set_config;
use crate::{licenses, log, topology};

static SWITCHED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/switched.bpf.o"));

/// The event to count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Event {
    /// The event that the policy uses, if the CPUs have a counter unit that may be used.
    #[default]
    Own,
    /// Nanoseconds, which every CPU counts, instead of instructions or of cycles at the highest license level. It tests
    /// the path from the counter to a task's speed.
    CpuClock,
    /// Nothing.
    Nothing,
}

/// The reader of the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reader {
    /// The policy, if the kernel allows it; else the program at switches.
    #[default]
    Either,
    /// The program at switches.
    Switches,
}

/// The counts that a policy uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum What {
    /// Retired instructions.
    #[default]
    Instructions,
    /// Cycles at each license level.
    Licenses,
    /// Cycles, if a model gives the levels.
    Cycles,
}

impl What {
    /// On a machine with this many kinds of cores. None: its control plane uses no counts.
    pub fn of(instance: &Instance, kinds: usize) -> Option<Self> {
        let modelled = instance.choice("source") == Some("model");
        Some(match instance.policy.told(kinds)? {
            Told::Levels if modelled => What::Cycles,
            Told::Levels => What::Licenses,
            Told::Speeds | Told::Misses => What::Instructions,
        })
    }

    /// The policy's maps from which it reads them.
    fn maps(self) -> &'static [&'static str] {
        match self {
            What::Instructions => &["instructions"],
            What::Licenses => &["license_0", "license_1", "license_2"],
            What::Cycles => &["core_cycles"],
        }
    }
}

/// The event to count, and its reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counting {
    /// The event.
    pub event: Event,
    /// The reader.
    pub reader: Reader,
}

/// include/uapi/linux/perf_event.h
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const HW_CYCLES: u64 = 0;
const HW_INSTRUCTIONS: u64 = 1;
const SW_CPU_CLOCK: u64 = 0;
/// Never counts anything.
const SW_DUMMY: u64 = 9;
/// The counter unit of a generic hardware event, in the upper half of its config.
const UNIT_SHIFT: u32 = 32;
/// INST_RETIRED of Arm's PMUv3.
const ARM_INSTRUCTIONS: u64 = 0x08;
/// Folder of counter units below /.
const UNITS: &str = "sys/bus/event_source/devices";

/// Counters that were opened, and the reasons for those that were not.
#[derive(Debug, Default)]
pub struct Counters {
    what: What,
    opened: Vec<Opened>,
    missing: Vec<(usize, String)>,
}

/// The counters of a CPU: one for each map.
#[derive(Debug)]
struct Opened {
    cpu: usize,
    /// The name of its counter unit.
    unit: String,
    /// Type and config of each event.
    events: Vec<(u32, u64)>,
    /// Held until they are put into the policy's maps.
    counters: Vec<OwnedFd>,
}

/// A way to count: the unit's name, and the type and config of each event.
type Way = (String, Vec<(u32, u64)>);

impl Counters {
    /// Opens the counters of each online CPU that has them.
    pub(crate) fn open(what: What, event: Event) -> Self {
        let mut counters = Counters { what, ..Counters::default() };
        if event == Event::Nothing {
            return counters;
        }
        let root = Path::new("/");
        for cpu in topology::online(root).unwrap_or_default() {
            let mut why = "this kind of processor does not count them".to_string();
            let opened = ways(root, cpu, what, event).into_iter().find_map(|(unit, events)| {
                let open = |(kind, config): &(u32, u64)| open(*kind, *config, Target::Cpu(cpu));
                match events.iter().map(open).collect() {
                    Ok(counters) => Some(Opened { cpu, unit, events, counters }),
                    Err(error) => {
                        let error: io::Error = error;
                        why = error.to_string();
                        None
                    }
                }
            });
            match opened {
                Some(one) => counters.opened.push(one),
                None => counters.missing.push((cpu, why)),
            }
        }
        counters
    }

    /// Whether any counter is open.
    pub fn any(&self) -> bool {
        !self.opened.is_empty()
    }

    /// CPUs by unit, and CPUs without counters: `cpu_core on 0-3, cpu_atom on 4-11`.
    pub fn describe(&self) -> String {
        let mut units: Vec<(&str, Vec<usize>)> = Vec::new();
        for Opened { cpu, unit, .. } in &self.opened {
            match units.iter_mut().find(|(known, _)| known == unit) {
                Some((_, cpus)) => cpus.push(*cpu),
                None => units.push((unit, vec![*cpu])),
            }
        }
        let mut parts: Vec<String> =
            units.iter().map(|(unit, cpus)| format!("{unit} on {}", ranges(cpus))).collect();
        if let Some((_, why)) = self.missing.first() {
            let cpus: Vec<usize> = self.missing.iter().map(|(cpu, _)| *cpu).collect();
            parts.push(format!("none on {} ({why})", ranges(&cpus)));
        }
        parts.join(", ")
    }

    /// Puts them into the policy's maps. A CPU that goes offline and comes back gets them again.
    pub(crate) fn put(&mut self, object: &Object) -> anyhow::Result<Renewal> {
        let map = |name: &str| {
            let map = object.maps().find(|map| map.name() == name);
            map.with_context(|| format!("the program has no map {name}"))
        };
        let mut all = Vec::new();
        for Opened { cpu, events, counters, .. } in &mut self.opened {
            for ((event, counter), name) in
                events.iter().zip(counters.drain(..)).zip(self.what.maps())
            {
                let one = Renewed::new(*cpu, *event, counter, MapHandle::try_from(&map(name)?)?);
                one.put().with_context(|| {
                    format!("the counter of CPU {cpu} cannot be read by a program")
                })?;
                all.push(one);
            }
        }
        Ok(Renewal::start(all)?)
    }

    /// Whether the policy has the maps for them.
    pub(crate) fn fit(&self, object: &Object) -> bool {
        self.what.maps().iter().all(|name| object.maps().any(|map| map.name() == *name))
    }

    /// Closes them and notes the reason.
    pub(crate) fn give_up(&mut self, why: &str) {
        let cpus = self.opened.drain(..).map(|of| (of.cpu, why.to_string()));
        self.missing.splice(..0, cpus);
    }
}

/// The program that reads them at switches in the policy's place, until it is dropped.
pub(crate) struct Switched {
    _links: Vec<Link>,
    _renewal: Renewal,
    _object: Object,
}

impl Switched {
    /// Attaches it to the table of tasks of `policy`.
    pub fn attach(
        counters: &mut Counters,
        policy: &Object,
        topology: &Topology,
    ) -> anyhow::Result<Self> {
        let (result, words) = log::listen(|| {
            let mut object = ObjectBuilder::default().name("switched")?.open_memory(SWITCHED)?;
            set_config(&mut object, SWITCHED, &topology.config())?;
            for shared in [".bss.task_table", "task_slots"] {
                let theirs = policy.maps().find(|map| map.name() == shared);
                let theirs = theirs.with_context(|| format!("the policy has no map {shared}"))?;
                let mut own = object
                    .maps_mut()
                    .find(|map| map.name() == shared)
                    .with_context(|| format!("the reader of counters has no map {shared}"))?;
                own.reuse_fd(theirs.as_fd())?;
            }
            Ok::<_, anyhow::Error>(object.load()?)
        });
        let object = result.with_context(|| {
            format!("the kernel refuses the reader of counters: {}", log::reason(&words))
        })?;
        let renewal = counters.put(&object)?;
        let links: Result<Vec<Link>, _> =
            object.progs_mut().map(|program| program.attach()).collect();
        let links = links.context("the reader of counters cannot be attached")?;
        Ok(Switched { _links: links, _renewal: renewal, _object: object })
    }
}

/// Ways to count on a CPU, the best first.
fn ways(root: &Path, cpu: usize, what: What, event: Event) -> Vec<Way> {
    const CLOCK: (u32, u64) = (SOFTWARE, SW_CPU_CLOCK);
    const STANDS: (u32, u64) = (SOFTWARE, SW_DUMMY);
    let clock = |events| vec![("cpu-clock".to_string(), events)];
    let single = |(unit, kind, config)| (unit, vec![(kind, config)]);
    match (event, what) {
        (Event::Nothing, _) => Vec::new(),
        (Event::CpuClock, What::Licenses) => clock(vec![STANDS, STANDS, CLOCK]),
        (Event::CpuClock, _) => clock(vec![CLOCK]),
        (Event::Own, What::Licenses) => {
            let events = licenses::events(root);
            events.into_iter().map(|events| ("license events".to_string(), events)).collect()
        }
        (Event::Own, What::Cycles) => {
            counted_of(root, cpu, HW_CYCLES).into_iter().map(single).collect()
        }
        (Event::Own, What::Instructions) => {
            instructions_of(root, cpu).into_iter().map(single).collect()
        }
    }
}

/// Ways to count this CPU's instructions, the best first: the unit's name, type and config of the event.
pub(crate) fn instructions_of(root: &Path, cpu: usize) -> Vec<(String, u32, u64)> {
    counted_of(root, cpu, HW_INSTRUCTIONS)
}

/// Ways to count another generic event on this CPU.
fn counted_of(root: &Path, cpu: usize, event: u64) -> Vec<(String, u32, u64)> {
    let mut ways = Vec::new();
    let mut units: Vec<_> =
        fs::read_dir(root.join(UNITS)).into_iter().flatten().flatten().collect();
    units.sort_by_key(|unit| unit.file_name());
    for unit in units {
        let name = unit.file_name().to_string_lossy().into_owned();
        // Units of cores list their CPUs; units of the rest of a chip have a `cpumask`.
        let read = |file: &str| fs::read_to_string(unit.path().join(file)).ok();
        let Some(cpus) = read("cpus") else { continue };
        let number = read("type").and_then(|text| text.trim().parse::<u32>().ok());
        let (true, Some(number)) = (topology::cpu_list(&cpus).contains(&cpu), number) else {
            continue;
        };
        let generic = u64::from(number) << UNIT_SHIFT | event;
        ways.push((name.clone(), HARDWARE, generic));
        if name.starts_with("arm") && event == HW_INSTRUCTIONS {
            ways.push((name, number, ARM_INSTRUCTIONS));
        }
    }
    ways.push(("cpu".into(), HARDWARE, event));
    ways
}

/// Ranges such as `0-3,8`.
pub(crate) fn ranges(cpus: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for cpu in cpus {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == *cpu => *last = *cpu,
            _ => parts.push((*cpu, *cpu)),
        }
    }
    let part = |(first, last): &(usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    parts.iter().map(part).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use super::*;
    use crate::perf_event::FILES_LEFT;

    fn units(units: &[(&str, &str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, file, cpus) in units {
            let folder = root.path().join(UNITS).join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("type"), "10\n").unwrap();
            fs::write(folder.join(file), format!("{cpus}\n")).unwrap();
        }
        root
    }

    #[test]
    fn each_cpu_has_the_unit_of_its_kind() {
        let laptop = units(&[
            ("cpu_core", "cpus", "0-3"),
            ("cpu_atom", "cpus", "4-11"),
            ("uncore_imc", "cpumask", "0"),
        ]);
        let plain = ("cpu".to_string(), HARDWARE, HW_INSTRUCTIONS);
        let of = |name: &str| (name.to_string(), HARDWARE, 10 << 32 | 1);
        assert_eq!(instructions_of(laptop.path(), 2), [of("cpu_core"), plain.clone()]);
        assert_eq!(instructions_of(laptop.path(), 4), [of("cpu_atom"), plain.clone()]);
        let phone = units(&[("armv8_cortex_a55", "cpus", "0-3")]);
        let own = ("armv8_cortex_a55".to_string(), 10, ARM_INSTRUCTIONS);
        assert_eq!(instructions_of(phone.path(), 0), [of("armv8_cortex_a55"), own, plain.clone()]);
        assert_eq!(instructions_of(phone.path(), 4), [plain]);
    }

    /// In a process of its own, which may open few files.
    #[test]
    fn counters_of_threads_leave_files_to_others() {
        const CLOCK: (u32, u64) = (SOFTWARE, SW_CPU_CLOCK);
        const FEW: &str = "PACELINE_TEST_FEW_FILES";
        let most = 128;
        if std::env::var_os(FEW).is_none() {
            let own = std::env::current_exe().unwrap();
            let name = "counters::tests::counters_of_threads_leave_files_to_others";
            let few = format!("ulimit -n {most}; exec \"$0\" --exact {name}");
            let mut command = std::process::Command::new("sh");
            command.args(["-c", &few]).arg(own).env(FEW, "1");
            assert!(command.status().unwrap().success());
            return;
        }
        let opened = (0..most).map_while(|_| open(CLOCK.0, CLOCK.1, Target::Thread(0)).ok());
        let opened: Vec<OwnedFd> = opened.collect();
        assert!(opened.len() as u64 + FILES_LEFT <= most, "{} of {most}", opened.len());
        assert!(fs::read_dir("/proc").is_ok());
    }

    #[test]
    fn cpus_are_written_as_the_kernel_does() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(ranges(&[]), "");
    }
}
