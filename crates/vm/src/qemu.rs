// SPDX-License-Identifier: GPL-2.0-only
//! The machine: QEMU's arguments for a shape and a clock.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use crate::job::{MESSAGES, RECORDS};
use crate::{Clock, Request, Shape};

/// All that the emulator offers, but for fast string operations. Under icount a `rep stosb` counts an instruction for
/// each byte, so clearing a page would count 4,096; a processor with these operations takes some hundred cycles.
/// Without them the kernel moves eight bytes at a time.
const CPU: &str = "max,-erms,-fsrm";

/// Files of one boot.
pub(crate) struct Files<'a> {
    pub kernel: &'a Path,
    pub image: &'a Path,
    /// Messages from the agent arrive here.
    pub messages: &'a Path,
    /// The observer's records arrive here.
    pub records: &'a Path,
    /// The serial console, with the kernel's last messages.
    pub console: &'a Path,
}

/// The host threads that run the guest's CPUs, on the clock `threads`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Threads {
    /// A thread for each CPU: side by side.
    OneEach,
    /// One thread for all CPUs: in turn.
    One,
}

/// A CPU's part of a round on the clock `parallel`: at one instruction a nanosecond, 20,000 instructions.
const PARALLEL_TURN: Duration = Duration::from_micros(20);

/// Everything on QEMU's command line.
///
/// QEMU ends a CPU's turn when a virtual timer is due and has no option for it. A network filter that buffers on an
/// interval is such a timer. It stands in front of a port where nothing ever arrives, and the guest does not see it.
pub(crate) fn arguments(
    request: &Request,
    files: &Files<'_>,
    boot: usize,
    threads: Threads,
) -> Vec<OsString> {
    let Request { clock, seed, .. } = request;
    let image_bytes = files.image.metadata().map_or(0, |image| image.len());
    let shape = &with_room(&request.shape, image_bytes);
    let mut line: Vec<OsString> = Vec::new();
    let mut add = |words: &[&str]| line.extend(words.iter().map(OsString::from));
    add(&["-no-user-config", "-nodefaults", "-display", "none", "-no-reboot"]);
    // its own monitor, on its standard input
    add(&["-chardev", "stdio,id=monitor,signal=off", "-mon", "chardev=monitor,mode=readline"]);
    add(&["-machine", "q35", "-cpu", CPU]);
    let by_timer = matches!(clock, Clock::Dilated | Clock::Icount) && shape.cpus > 1;
    let turn = request.turn.filter(|_| by_timer);
    let cpus = if turn.is_some() { spaced(shape) } else { vec!["-smp".into(), smp(shape)] };
    for word in cpus {
        add(&[&word]);
    }
    match *clock {
        Clock::Parallel => {
            let instructions = request.turn.unwrap_or(PARALLEL_TURN).as_nanos();
            add(&["-accel", &format!("tcg,thread=single,turn={instructions}")]);
            add(&["-icount", "shift=0,sleep=off", "-rtc", "clock=vm"]);
            add(&["-seed", &seed_of(*seed, boot)]);
        }
        Clock::Dilated | Clock::Icount => {
            add(&["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off"]);
            add(&["-rtc", "clock=vm"]);
            if let Some(turn) = turn {
                let buffer = "filter-buffer,id=turn,netdev=turns,queue=rx";
                let interval = turn.as_micros().max(1);
                add(&["-netdev", "hubport,id=turns,hubid=0"]);
                add(&["-object", &format!("{buffer},interval={interval}")]);
            }
            add(&["-seed", &seed_of(*seed, boot)]);
        }
        Clock::Threads => match threads {
            Threads::OneEach => add(&["-accel", "tcg,thread=multi"]),
            Threads::One => add(&["-accel", "tcg,thread=single"]),
        },
    }
    add(&["-m", &format!("{}M", shape.memory_mib)]);
    for word in numa(shape) {
        add(&[&word]);
    }
    // QEMU takes these paths as they are, with commas
    add(&["-kernel", &files.kernel.to_string_lossy(), "-initrd", &files.image.to_string_lossy()]);
    add(&["-append", &kernel_command_line(request, boot, turn.is_some())]);
    if let Some(plugin) = &request.plugin {
        add(&["-plugin", plugin]);
    }
    add(&["-chardev", &format!("file,id=console,path={}", text(files.console))]);
    add(&["-serial", "chardev:console"]);
    add(&["-device", "virtio-serial-pci"]);
    for (port, file) in [(MESSAGES, files.messages), (RECORDS, files.records)] {
        add(&["-chardev", &format!("file,id={port},path={}", text(file))]);
        add(&["-device", &format!("virtserialport,chardev={port},name={port}")]);
    }
    line
}

/// The seed of a boot's random numbers.
fn seed_of(seed: u64, boot: usize) -> String {
    (seed.wrapping_add(boot as u64) % (1 << 31)).to_string()
}

/// The shape, with enough memory for a large image. The image exists twice while it is unpacked. It becomes a file
/// system that takes at most half of the remaining memory, the program's own files included.
fn with_room(shape: &Shape, image_bytes: u64) -> Shape {
    let wanted = 4 * (image_bytes >> 20) as usize;
    let memory_mib = shape.memory_mib.max(wanted.next_multiple_of(shape.nodes));
    Shape { memory_mib, ..shape.clone() }
}

/// Words after `--` go to the agent. `nokaslr` is among them because only the kernel's decompressor reads it.
fn kernel_command_line(request: &Request, boot: usize, spaced: bool) -> String {
    let cpus = request.shape.cpus;
    let own = if spaced { format!(" nr_cpus={cpus}") } else { String::new() };
    let layout = if request.plugin.is_some() { " nokaslr" } else { "" };
    // A guest that hangs is sent an NMI: it says where its CPUs are.
    let hangs = match request.clock.counts_instructions() {
        false => " unknown_nmi_panic panic_print=0x40",
        true => "",
    };
    let balancing = if request.shape.numa_balancing { "" } else { " numa_balancing=disable" };
    format!(
        "console=ttyS0 quiet loglevel=4 panic=-1 rdinit=/init random.trust_cpu=on \
         no_timer_check cryptomgr.notests damon_stat.enabled=N transparent_hugepage=never{balancing}{own}{hangs} \
         -- guest {boot}{layout}"
    )
}

fn smp(shape: &Shape) -> String {
    let Shape { cpus, nodes, smt, .. } = *shape;
    let cores = cpus / nodes / smt;
    format!("{cpus},sockets={nodes},cores={cores},threads={smt}")
}

/// CPUs with an unused CPU behind each, on sockets of their own.
///
/// If a timer is due in a CPU's turn, QEMU before 8.1 lets the next CPU run only the timers. Then it goes on with the
/// CPU after that. If all CPUs are busy and timers end their short turns, the odd CPUs starve until chance changes that
/// [accel/tcg/tcg-accel-ops-icount.c, icount_prepare_for_run]. Here the next CPU is one that never wakes. It costs time
/// in boot: the first CPU gives its turn up in each round of a busy loop [arch/x86/kernel/apic/apic.c,
/// calibrate_APIC_clock].
fn spaced(shape: &Shape) -> Vec<String> {
    let Shape { cpus, nodes, smt, .. } = *shape;
    let cores = cpus / nodes / smt;
    let sockets = 2 * nodes;
    let all = 2 * cpus;
    let mut words = vec![
        "-smp".into(),
        format!("1,maxcpus={all},sockets={sockets},cores={cores},threads={smt}"),
    ];
    let mut plug = |cpu: usize| {
        let (socket, core, thread) = (cpu / smt / cores, cpu / smt % cores, cpu % smt);
        let place = format!("socket-id={socket},core-id={core},thread-id={thread}");
        words.extend(["-device".into(), format!("max-x86_64-cpu,{place}")]);
    };
    plug(cpus);
    for cpu in 1..cpus {
        plug(cpu);
        plug(cpus + cpu);
    }
    words
}

fn numa(shape: &Shape) -> Vec<String> {
    let mut words = Vec::new();
    if shape.nodes == 1 {
        return words;
    }
    let (cpus, memory) = (shape.cpus / shape.nodes, shape.memory_mib / shape.nodes);
    for node in 0..shape.nodes {
        let (first, last) = (node * cpus, (node + 1) * cpus - 1);
        words
            .extend(["-object".into(), format!("memory-backend-ram,id=node{node},size={memory}M")]);
        let node = format!("node,nodeid={node},cpus={first}-{last},memdev=node{node}");
        words.extend(["-numa".into(), node]);
    }
    for (from, row) in shape.distances.iter().enumerate() {
        for (to, distance) in row.iter().enumerate() {
            words.extend(["-numa".into(), format!("dist,src={from},dst={to},val={distance}")]);
        }
    }
    words
}

/// QEMU doubles a comma inside an option's value.
fn text(path: &Path) -> String {
    path.to_string_lossy().replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorkloadRef;

    fn line(shape: Shape, clock: Clock, turn: Option<Duration>) -> String {
        line_by(shape, clock, turn, Threads::OneEach)
    }

    fn line_by(shape: Shape, clock: Clock, turn: Option<Duration>, threads: Threads) -> String {
        let nothing = WorkloadRef::Command { argv: Vec::new(), with: Vec::new() };
        let request =
            Request { shape, clock, turn, boots: 4, seed: 40, ..Request::new(Vec::new(), nothing) };
        let files = Files {
            kernel: Path::new("/k"),
            image: Path::new("/i"),
            messages: Path::new("/m,1"),
            records: Path::new("/r"),
            console: Path::new("/c"),
        };
        let words = arguments(&request, &files, 3, threads);
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_large_image_has_room_to_be_unpacked() {
        let shape = Shape { cpus: 6, nodes: 3, ..Shape::default() };
        assert_eq!(with_room(&shape, 100 << 20).memory_mib, 2048);
        assert_eq!(with_room(&shape, 700 << 20).memory_mib, 2802);
    }

    #[test]
    fn nodes_hold_whole_cores_and_their_share_of_memory() {
        let distances = vec![vec![10, 21], vec![21, 10]];
        let shape =
            Shape { cpus: 8, nodes: 2, smt: 2, distances, memory_mib: 1024, ..Shape::default() };
        let line = line(shape, Clock::Dilated, None);
        assert!(line.contains("-smp 8,sockets=2,cores=2,threads=2"), "{line}");
        assert!(line.contains("node,nodeid=1,cpus=4-7,memdev=node1"), "{line}");
        assert!(line.contains("id=node1,size=512M"), "{line}");
        assert!(line.contains("dist,src=0,dst=1,val=21"), "{line}");
        assert!(line.contains("path=/m,,1"), "{line}");
        assert!(line.contains("-- guest 3"), "{line}");
    }

    #[test]
    fn only_the_clock_of_instructions_is_repeatable() {
        let exact = line(Shape::default(), Clock::Icount, None);
        assert!(exact.contains("-icount shift=0,sleep=off") && exact.contains("-seed 43"));
        let side_by_side = line(Shape::default(), Clock::Threads, None);
        assert!(side_by_side.contains("thread=multi") && !side_by_side.contains("-icount"));
        let in_turn = line_by(Shape::default(), Clock::Threads, None, Threads::One);
        assert!(in_turn.contains("thread=single") && !in_turn.contains("-icount"));
    }

    #[test]
    fn turns_are_for_cpus_that_take_turns() {
        let turn = Some(Duration::from_micros(20));
        let many = Shape { cpus: 4, ..Shape::default() };
        assert!(line(many.clone(), Clock::Dilated, turn).contains("queue=rx,interval=20"));
        assert!(!line(many.clone(), Clock::Dilated, None).contains("filter-buffer"));
        let two = line(Shape { cpus: 2, ..Shape::default() }, Clock::Dilated, turn);
        assert!(two.contains("-smp 1,maxcpus=4,sockets=2,cores=2,threads=1"), "{two}");
        let sockets: Vec<&str> = two.split("socket-id=").skip(1).map(|rest| &rest[..1]).collect();
        assert_eq!(sockets, ["1", "0", "1"], "each of the guest's own has one of no use behind it");
        assert!(two.contains("nr_cpus=2"), "{two}");
        assert!(!line(many, Clock::Threads, turn).contains("filter-buffer"));
        assert!(!line(Shape::default(), Clock::Icount, turn).contains("filter-buffer"));
    }
}
