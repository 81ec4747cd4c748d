// SPDX-License-Identifier: GPL-2.0-only
//! Counters of retired instructions, one for each CPU, opened for a policy that reads them.
//!
//! Who reads them: the policy itself, which the kernel allows from 6.15 on (ae0a457f5d33), else a program on each
//! switch (`bpf/switched.bpf.c`), which may since 5.7 (b80b033bedae) and adds them to the policy's own table of
//! tasks. Uneven machines have a counter unit for each kind of core, so each CPU is asked for its own.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use anyhow::Context;
use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder};
use libbpf_sys::perf_event_attr;
use policy::{Instance, Topology};

use crate::load::set_rodata;
use crate::{log, topology};

static SWITCHED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/switched.bpf.o"));

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Event {
    /// Retired instructions, as far as CPUs have a counter unit that may be used.
    #[default]
    Instructions,
    /// Nanoseconds, which every CPU counts: to see that the way from the counter to a task's speed is open.
    CpuClock,
    /// Nothing.
    Nothing,
}

/// Who reads it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reader {
    /// The policy, where the kernel lets it; else the program at switches.
    #[default]
    Either,
    /// The program at switches.
    Switches,
}

/// What is to be counted, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counting {
    /// What.
    pub event: Event,
    /// By whom.
    pub reader: Reader,
}

/// include/uapi/linux/perf_event.h
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const HW_INSTRUCTIONS: u64 = 1;
const SW_CPU_CLOCK: u64 = 0;
/// Which counter unit a generic hardware event is for, in the upper half of its config.
const UNIT_SHIFT: u32 = 32;
/// INST_RETIRED of Arm's PMUv3.
const ARM_INSTRUCTIONS: u64 = 0x08;
/// Folder of counter units below /.
const UNITS: &str = "sys/bus/event_source/devices";

/// Counters that were opened, and the reasons for those that were not.
#[derive(Debug, Default)]
pub struct Counters {
    /// By CPU, with the name of its unit.
    opened: Vec<(usize, String, OwnedFd)>,
    missing: Vec<(usize, String)>,
}

impl Counters {
    /// Opens one for each online CPU, as far as there are any.
    pub fn open(event: Event) -> Self {
        let mut counters = Counters::default();
        if event == Event::Nothing {
            return counters;
        }
        let root = Path::new("/");
        for cpu in topology::online(root).unwrap_or_default() {
            let wanted = match event {
                Event::Instructions => instructions_of(root, cpu),
                _ => vec![("cpu-clock".to_string(), SOFTWARE, SW_CPU_CLOCK)],
            };
            let mut why = String::new();
            let opened = wanted.into_iter().find_map(|(unit, kind, config)| {
                match open(kind, config, Whom::Cpu(cpu)) {
                    Ok(fd) => Some((cpu, unit, fd)),
                    Err(error) => {
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

    /// Whether there is any.
    pub fn any(&self) -> bool {
        !self.opened.is_empty()
    }

    /// CPUs by unit, and those without: `cpu_core on 0-3, cpu_atom on 4-11`.
    pub fn describe(&self) -> String {
        let mut units: Vec<(&str, Vec<usize>)> = Vec::new();
        for (cpu, unit, _) in &self.opened {
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

    /// Puts them where a policy reads them.
    pub(crate) fn put(&self, object: &Object) -> anyhow::Result<()> {
        let map = object.maps().find(|map| map.name() == "instructions");
        let map = map.context("the program has no map of counters")?;
        for (cpu, _, fd) in &self.opened {
            let (key, value) = (*cpu as u32, fd.as_raw_fd());
            map.update(&key.to_ne_bytes(), &value.to_ne_bytes(), MapFlags::ANY)
                .with_context(|| format!("the counter of CPU {cpu} cannot be read by a program"))?;
        }
        Ok(())
    }
}

/// The program that reads them at switches in a policy's place, until it is dropped.
pub(crate) struct Switched {
    _links: Vec<Link>,
    _object: Object,
}

impl Switched {
    /// Over the table of tasks of `policy`.
    pub fn attach(
        counters: &Counters,
        policy: &Object,
        instance: &Instance,
        topology: &Topology,
    ) -> anyhow::Result<Self> {
        let (result, words) = log::listen(|| {
            let mut object = ObjectBuilder::default().name("switched")?.open_memory(SWITCHED)?;
            set_rodata(&mut object, SWITCHED, &instance.config(topology))?;
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
        counters.put(&object)?;
        let links: Result<Vec<Link>, _> =
            object.progs_mut().map(|program| program.attach()).collect();
        let links = links.context("the reader of counters cannot be attached")?;
        Ok(Switched { _links: links, _object: object })
    }
}

/// Ways to count this CPU's instructions, the best first: the unit's name, type and config of the event.
pub(crate) fn instructions_of(root: &Path, cpu: usize) -> Vec<(String, u32, u64)> {
    let mut ways = Vec::new();
    let mut units: Vec<_> =
        fs::read_dir(root.join(UNITS)).into_iter().flatten().flatten().collect();
    units.sort_by_key(|unit| unit.file_name());
    for unit in units {
        let name = unit.file_name().to_string_lossy().into_owned();
        // Units of cores say which CPUs they belong to; those of the rest of a chip have a `cpumask`.
        let read = |file: &str| fs::read_to_string(unit.path().join(file)).ok();
        let Some(cpus) = read("cpus") else { continue };
        let number = read("type").and_then(|text| text.trim().parse::<u32>().ok());
        let (true, Some(number)) = (topology::cpu_list(&cpus).contains(&cpu), number) else {
            continue;
        };
        let generic = u64::from(number) << UNIT_SHIFT | HW_INSTRUCTIONS;
        ways.push((name.clone(), HARDWARE, generic));
        if name.starts_with("arm") {
            ways.push((name, number, ARM_INSTRUCTIONS));
        }
    }
    ways.push(("cpu".into(), HARDWARE, HW_INSTRUCTIONS));
    ways
}

/// Whose events are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Whom {
    /// All on a CPU: needs CAP_PERFMON.
    Cpu(usize),
    /// A thread's, wherever it runs.
    Thread(u32),
}

/// Opens a counter that counts from now on, and never takes turns with others.
pub(crate) fn open(kind: u32, config: u64, whom: Whom) -> io::Result<OwnedFd> {
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    let mut wanted = perf_event_attr {
        type_: kind,
        size: size_of::<perf_event_attr>() as u32,
        config,
        ..perf_event_attr::default()
    };
    let (thread, cpu) = match whom {
        Whom::Cpu(cpu) => (-1, cpu as i32),
        Whom::Thread(tid) => (tid as i32, -1),
    };
    wanted.set_pinned(1);
    if let Whom::Thread(_) = whom {
        wanted.set_exclude_kernel(1);
    }
    let no_group = -1;
    // SAFETY: the kernel reads the struct during the call; what it returns is a new descriptor
    let opened = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const wanted,
            thread,
            cpu,
            no_group,
            CLOSE_ON_EXEC,
        )
    };
    if opened < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is ours and open
    Ok(unsafe { OwnedFd::from_raw_fd(opened as i32) })
}

/// `0-3,8`.
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
    use super::*;

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

    #[test]
    fn cpus_are_written_as_the_kernel_does() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(ranges(&[]), "");
    }
}
