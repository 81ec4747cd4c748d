// SPDX-License-Identifier: GPL-2.0-only
//! A CPU that finds nothing to run must not look at every other CPU. Instructions are counted one by one, in a child
//! process that is traced, of the native build under a kernel in which no task waits.

use std::ffi::{c_char, c_void};
use std::ptr::null_mut;

use policies::HONEST;
use policy::native::{ClockCounts, Copy, Expires, Kernel, TaskStruct};
use policy::{Instance, Topology};

/// CPUs of a memory node.
const NODE: usize = 32;

fn machine(cpus: usize) -> Topology {
    let number = |cpu: usize| cpu as u16;
    Topology {
        llc: (0..cpus).map(|cpu| number(cpu / NODE)).collect(),
        core: (0..cpus).map(number).collect(),
        node: (0..cpus).map(|cpu| number(cpu / NODE)).collect(),
        core_type: vec![0; cpus],
        tick_ns: 4_000_000,
        ..Topology::default()
    }
}

/// The kernel: no task waits, no CPU is idle, and it is ten seconds since boot.
mod quiet {
    use super::*;

    const NOW_NS: u64 = 10_000_000_000;

    pub unsafe extern "C" fn create_dsq(_: *mut Kernel, _: u64, _: i32) -> i32 {
        0
    }
    pub unsafe extern "C" fn nr_queued(_: *mut Kernel, _: u64) -> i32 {
        0
    }
    pub unsafe extern "C" fn insert(_: *mut Kernel, _: *mut TaskStruct, _: u64, _: u64, _: u64) {}
    pub unsafe extern "C" fn insert_vtime(
        _: *mut Kernel,
        _: *mut TaskStruct,
        _: u64,
        _: u64,
        _: u64,
        _: u64,
    ) {
    }
    pub unsafe extern "C" fn no_queue(_: *mut Kernel, _: u64) -> bool {
        false
    }
    pub unsafe extern "C" fn select(
        _: *mut Kernel,
        _: *mut TaskStruct,
        prev_cpu: i32,
        _: u64,
        _: *mut bool,
    ) -> i32 {
        prev_cpu
    }
    pub unsafe extern "C" fn no_cpu(_: *mut Kernel, _: i32) -> bool {
        false
    }
    pub unsafe extern "C" fn a_cpu(_: *mut Kernel, _: i32) -> bool {
        true
    }
    pub unsafe extern "C" fn pick(_: *mut Kernel, _: *const c_void, _: u64) -> i32 {
        -1
    }
    pub unsafe extern "C" fn kick(_: *mut Kernel, _: i32, _: u64) {}
    pub unsafe extern "C" fn task_cpu(_: *mut Kernel, _: *const TaskStruct) -> i32 {
        0
    }
    pub unsafe extern "C" fn allowed(_: *mut Kernel, _: *const TaskStruct, _: i32) -> bool {
        true
    }
    pub unsafe extern "C" fn set(_: *mut Kernel, _: *mut TaskStruct, _: u64) {}
    pub unsafe extern "C" fn now(_: *mut Kernel) -> u64 {
        NOW_NS
    }
    pub unsafe extern "C" fn this_cpu(_: *mut Kernel) -> i32 {
        0
    }
    pub unsafe extern "C" fn random(_: *mut Kernel) -> u32 {
        0
    }
    pub unsafe extern "C" fn storage(
        _: *mut Kernel,
        _: *mut c_void,
        _: u32,
        _: *mut TaskStruct,
        _: u64,
    ) -> *mut c_void {
        null_mut()
    }
    pub unsafe extern "C" fn lock(_: *mut Kernel, _: *mut c_void) {}
    pub unsafe extern "C" fn error(_: *mut Kernel, _: *const c_char) {}
    pub unsafe extern "C" fn peek(_: *mut Kernel, _: u64) -> u64 {
        0
    }
    pub unsafe extern "C" fn next(_: *mut Kernel, _: u64, _: *mut TaskStruct) -> *mut TaskStruct {
        null_mut()
    }
    pub unsafe extern "C" fn instructions(_: *mut Kernel) -> u64 {
        0
    }
    pub unsafe extern "C" fn counts(_: *mut Kernel, _: *mut ClockCounts) -> bool {
        false
    }
    pub unsafe extern "C" fn vector(_: *mut Kernel) -> u32 {
        0
    }
    pub unsafe extern "C" fn xfeatures(_: *mut Kernel, _: *const TaskStruct) -> u64 {
        0
    }
    pub unsafe extern "C" fn reenqueue_here(_: *mut Kernel) {}
    pub unsafe extern "C" fn goes_anywhere(_: *mut Kernel, _: *const TaskStruct) -> bool {
        true
    }
    pub unsafe extern "C" fn has_siblings(_: *mut Kernel, _: *const TaskStruct) -> bool {
        false
    }
    pub unsafe extern "C" fn forker(_: *mut Kernel) -> *mut TaskStruct {
        null_mut()
    }
    pub unsafe extern "C" fn no_task(_: *mut Kernel, _: i32) -> *mut TaskStruct {
        null_mut()
    }
    pub unsafe extern "C" fn dsq_move_vtime(
        _: *mut Kernel,
        _: u64,
        _: *mut TaskStruct,
        _: u64,
        _: u64,
    ) {
    }
    pub unsafe extern "C" fn timer(_: *mut Kernel, _: Expires, _: u32, _: u64) {}
    pub unsafe extern "C" fn take(_: *mut Kernel, _: u64, _: *mut TaskStruct) -> bool {
        false
    }
}

fn quiet_kernel() -> Kernel {
    Kernel {
        runtime: null_mut(),
        create_dsq: quiet::create_dsq,
        dsq_nr_queued: quiet::nr_queued,
        dsq_insert: quiet::insert,
        dsq_insert_vtime: quiet::insert_vtime,
        dsq_move_to_local: quiet::no_queue,
        select_cpu_dfl: quiet::select,
        test_and_clear_cpu_idle: quiet::no_cpu,
        pick_idle_cpu: quiet::pick,
        kick_cpu: quiet::kick,
        task_cpu: quiet::task_cpu,
        cpu_allowed: quiet::allowed,
        set_slice: quiet::set,
        set_dsq_vtime: quiet::set,
        now_ns: quiet::now,
        this_cpu: quiet::this_cpu,
        random_u32: quiet::random,
        task_storage_get: quiet::storage,
        spin_lock: quiet::lock,
        spin_unlock: quiet::lock,
        error: quiet::error,
        dsq_peek_vtime: quiet::peek,
        dsq_next: quiet::next,
        cpu_instructions: quiet::instructions,
        clock_counts: quiet::counts,
        vector_used: quiet::vector,
        task_xfeatures: quiet::xfeatures,
        reenqueue_local: quiet::vector,
        reenqueue_here: quiet::reenqueue_here,
        cpu_is_active: quiet::a_cpu,
        goes_anywhere: quiet::goes_anywhere,
        has_siblings: quiet::has_siblings,
        forker: quiet::forker,
        dsq_take: quiet::take,
        cpu_idles: quiet::no_cpu,
        cpu_curr: quiet::no_task,
        dsq_move_vtime: quiet::dsq_move_vtime,
        timer_start: quiet::timer,
    }
}

/// Instructions that `work` takes in a child process, from one stop to the next.
fn instructions(work: impl Fn()) -> u64 {
    // SAFETY: the child only runs `work`, which allocates nothing, and ends without cleaning up.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0, "{}", std::io::Error::last_os_error());
        if child == 0 {
            libc::ptrace(libc::PTRACE_TRACEME);
            libc::raise(libc::SIGSTOP);
            work();
            libc::raise(libc::SIGSTOP);
            libc::_exit(0);
        }
        let stopped_by = || {
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            assert!(libc::WIFSTOPPED(status), "it ended: {status:x}");
            libc::WSTOPSIG(status)
        };
        assert_eq!(stopped_by(), libc::SIGSTOP);
        let mut steps = 0;
        loop {
            let none = null_mut::<c_void>();
            assert_eq!(libc::ptrace(libc::PTRACE_SINGLESTEP, child, none, none), 0);
            match stopped_by() {
                libc::SIGTRAP => steps += 1,
                libc::SIGSTOP => break,
                other => panic!("signal {other} after {steps} steps"),
            }
        }
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, null_mut(), 0);
        steps
    }
}

/// Instructions of a dispatch that finds nothing, on a CPU of the middle.
fn idle_dispatch(label: &str, cpus: usize) -> u64 {
    let instance = Instance::parse(label, &HONEST).unwrap();
    let mut kernel = quiet_kernel();
    // SAFETY: the kernel outlives the copy.
    let copy = unsafe { Copy::load(&instance, &machine(cpus), &raw mut kernel) }.unwrap();
    let ops = copy.ops();
    // SAFETY: as the kernel calls them.
    unsafe { assert_eq!(ops.init.map_or(0, |init| init()), 0) };
    let Some(dispatch) = ops.dispatch else { return 0 };
    // SAFETY: as the kernel calls it.
    let call = || unsafe { dispatch(cpus as i32 / 2, null_mut()) };
    // The first call also does what a policy does now and then.
    call();
    instructions(call).saturating_sub(instructions(|| ()))
}

#[test]
fn a_dispatch_that_finds_nothing_costs_about_the_same_on_any_number_of_cpus() {
    for policy in HONEST.iter() {
        for label in policy.trials.day.iter().chain(policy.trials.night) {
            let counts = [8, 64, 256].map(|cpus| idle_dispatch(label, cpus));
            println!("{label}: {counts:?} instructions on 8, 64 and 256 CPUs");
            let [few, .., many] = counts;
            assert!(many <= 2 * few, "{label}: {counts:?} instructions on 8, 64 and 256 CPUs");
        }
    }
}
