// SPDX-License-Identifier: GPL-2.0-only
//! A policy's native build: the C structs as Rust sees them, and private copies of the object.
//!
//! Layouts mirror `policies/common/kernel.h` and `kernel_native.h`; a test compares the two.

use std::ffi::{CStr, c_char, c_void};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::{Instance, Topology};

/// `MAX_CPUS` of kernel.h: the most CPUs a policy's tables hold.
pub const MAX_CPUS: usize = 512;

/// `TURBO_CORES` of clocks.h: the most active cores that a turbo table tells apart.
pub const TURBO_CORES: usize = 128;

/// `struct sched_ext_entity`.
#[repr(C)]
#[derive(Debug, Default, Clone)]
#[allow(missing_docs)]
pub struct SchedExtEntity {
    pub weight: u32,
    pub flags: u32,
    pub slice: u64,
    pub dsq_vtime: u64,
}

/// `struct task_struct`, as far as a policy may name it. The runtime owns every field.
#[repr(C)]
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct TaskStruct {
    pub pid: i32,
    pub tgid: i32,
    pub flags: u32,
    pub nr_cpus_allowed: i32,
    pub static_prio: i32,
    /// The number of its scheduling policy: 0 is SCHED_NORMAL, 3 SCHED_BATCH, 5 SCHED_IDLE.
    pub policy: u32,
    /// Opaque to policies: the runtime may point it at its own data.
    pub cpus_ptr: *const c_void,
    pub mm: *mut c_void,
    pub scx: SchedExtEntity,
}

/// `struct scx_exit_info`.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct ScxExitInfo {
    pub kind: u32,
    pub exit_code: i64,
    pub reason: *const c_char,
    pub msg: *const c_char,
    pub dump: *const c_char,
}

/// `struct scx_init_task_args`.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct ScxInitTaskArgs {
    pub fork: bool,
    pub cgroup: *mut Cgroup,
}

/// `struct cgroup`.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Cgroup {
    pub own: CgroupSubsysState,
    pub kn: *mut KernfsNode,
}

/// `struct cgroup_subsys_state`, which `struct cgroup` has as `self`: it names the cgroup, and that around it.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct CgroupSubsysState {
    pub cgroup: *mut Cgroup,
    /// Null in the root.
    pub parent: *mut CgroupSubsysState,
}

/// `struct kernfs_node`: the folder of a cgroup.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct KernfsNode {
    pub id: u64,
}

/// `struct scx_exit_task_args`.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct ScxExitTaskArgs {
    pub cancelled: bool,
}

/// `struct clock_counts` of clocks.h: of this CPU, since some moment in the past.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct ClockCounts {
    /// Cycles at each license level of its core.
    pub cycles: [u64; 3],
    /// Time in which a limit on power held its core below its turbo, ns.
    pub limited_ns: u64,
    /// Energy of its core, µJ.
    pub energy_uj: u64,
}

/// `struct kernel`: the functions that a native policy calls.
#[repr(C)]
#[allow(missing_docs)]
pub struct Kernel {
    /// For the runtime.
    pub runtime: *mut c_void,
    pub create_dsq: unsafe extern "C" fn(*mut Kernel, u64, i32) -> i32,
    pub dsq_nr_queued: unsafe extern "C" fn(*mut Kernel, u64) -> i32,
    pub dsq_insert: unsafe extern "C" fn(*mut Kernel, *mut TaskStruct, u64, u64, u64),
    pub dsq_insert_vtime: unsafe extern "C" fn(*mut Kernel, *mut TaskStruct, u64, u64, u64, u64),
    pub dsq_move_to_local: unsafe extern "C" fn(*mut Kernel, u64) -> bool,
    pub select_cpu_dfl:
        unsafe extern "C" fn(*mut Kernel, *mut TaskStruct, i32, u64, *mut bool) -> i32,
    pub test_and_clear_cpu_idle: unsafe extern "C" fn(*mut Kernel, i32) -> bool,
    pub pick_idle_cpu: unsafe extern "C" fn(*mut Kernel, *const c_void, u64) -> i32,
    pub kick_cpu: unsafe extern "C" fn(*mut Kernel, i32, u64),
    pub task_cpu: unsafe extern "C" fn(*mut Kernel, *const TaskStruct) -> i32,
    pub cpu_allowed: unsafe extern "C" fn(*mut Kernel, *const TaskStruct, i32) -> bool,
    pub set_slice: unsafe extern "C" fn(*mut Kernel, *mut TaskStruct, u64),
    pub set_dsq_vtime: unsafe extern "C" fn(*mut Kernel, *mut TaskStruct, u64),
    pub now_ns: unsafe extern "C" fn(*mut Kernel) -> u64,
    pub this_cpu: unsafe extern "C" fn(*mut Kernel) -> i32,
    pub random_u32: unsafe extern "C" fn(*mut Kernel) -> u32,
    pub task_storage_get:
        unsafe extern "C" fn(*mut Kernel, *mut c_void, u32, *mut TaskStruct, u64) -> *mut c_void,
    pub spin_lock: unsafe extern "C" fn(*mut Kernel, *mut c_void),
    pub spin_unlock: unsafe extern "C" fn(*mut Kernel, *mut c_void),
    pub error: unsafe extern "C" fn(*mut Kernel, *const c_char),
    pub dsq_peek_vtime: unsafe extern "C" fn(*mut Kernel, u64) -> u64,
    /// The next task of a queue behind this one, or the first one for a null pointer.
    pub dsq_next: unsafe extern "C" fn(*mut Kernel, u64, *mut TaskStruct) -> *mut TaskStruct,
    /// User instructions that this CPU has retired so far.
    pub cpu_instructions: unsafe extern "C" fn(*mut Kernel) -> u64,
    /// This CPU's counters of its clock; false if there are none that work.
    pub clock_counts: unsafe extern "C" fn(*mut Kernel, *mut ClockCounts) -> bool,
    /// License level of the widest vector code on this CPU since the last call. Afterwards, first uses trap again.
    pub vector_used: unsafe extern "C" fn(*mut Kernel) -> u32,
    pub task_xfeatures: unsafe extern "C" fn(*mut Kernel, *const TaskStruct) -> u64,
    /// Re-enqueues the tasks of this CPU's local queue and returns their number; in cpu_release alone.
    pub reenqueue_local: unsafe extern "C" fn(*mut Kernel) -> u32,
    /// Re-enqueues them a little later.
    pub reenqueue_here: unsafe extern "C" fn(*mut Kernel),
    /// Whether tasks are put on a CPU. A CPU that is going offline becomes inactive before cpu_offline is called.
    pub cpu_is_active: unsafe extern "C" fn(*mut Kernel, i32) -> bool,
    /// Whether a task may run on all CPUs of the machine.
    pub goes_anywhere: unsafe extern "C" fn(*mut Kernel, *const TaskStruct) -> bool,
    /// Whether other tasks have a task's address space.
    pub has_siblings: unsafe extern "C" fn(*mut Kernel, *const TaskStruct) -> bool,
    /// In init_task, the task that forks the new one, if that was recorded; else null.
    pub forker: unsafe extern "C" fn(*mut Kernel) -> *mut TaskStruct,
    /// In dispatch: the CPU takes this task from a queue, if it is still in it.
    pub dsq_take: unsafe extern "C" fn(*mut Kernel, u64, *mut TaskStruct) -> bool,
    /// Whether a CPU idles and is not claimed.
    pub cpu_idles: unsafe extern "C" fn(*mut Kernel, i32) -> bool,
    /// The task that runs on a CPU; null if none does.
    pub cpu_curr: unsafe extern "C" fn(*mut Kernel, i32) -> *mut TaskStruct,
    /// In dispatch or a timer: moves a task from one queue to another, with this vtime, if it is still in it.
    pub dsq_move_vtime: unsafe extern "C" fn(*mut Kernel, u64, *mut TaskStruct, u64, u64),
    /// Starts the timer of this number, in place of its last start: calls the function after so many ns.
    pub timer_start: unsafe extern "C" fn(*mut Kernel, Expires, u32, u64),
}

/// A function that is called when the timer of a number expires.
pub type Expires = unsafe extern "C" fn(u32);

/// `struct sched_ext_ops`; a callback that is None is not implemented.
#[repr(C)]
#[derive(Clone)]
#[allow(missing_docs)]
pub struct SchedExtOps {
    pub select_cpu: Option<unsafe extern "C" fn(*mut TaskStruct, i32, u64) -> i32>,
    pub enqueue: Option<unsafe extern "C" fn(*mut TaskStruct, u64)>,
    pub dequeue: Option<unsafe extern "C" fn(*mut TaskStruct, u64)>,
    pub dispatch: Option<unsafe extern "C" fn(i32, *mut TaskStruct)>,
    pub tick: Option<unsafe extern "C" fn(*mut TaskStruct)>,
    pub runnable: Option<unsafe extern "C" fn(*mut TaskStruct, u64)>,
    pub running: Option<unsafe extern "C" fn(*mut TaskStruct)>,
    pub stopping: Option<unsafe extern "C" fn(*mut TaskStruct, bool)>,
    pub quiescent: Option<unsafe extern "C" fn(*mut TaskStruct, u64)>,
    pub set_weight: Option<unsafe extern "C" fn(*mut TaskStruct, u32)>,
    pub set_cpumask: Option<unsafe extern "C" fn(*mut TaskStruct, *const c_void)>,
    pub update_idle: Option<unsafe extern "C" fn(i32, bool)>,
    pub cpu_acquire: Option<unsafe extern "C" fn(i32, *mut c_void)>,
    pub cpu_release: Option<unsafe extern "C" fn(i32, *mut c_void)>,
    pub cpu_online: Option<unsafe extern "C" fn(i32)>,
    pub cpu_offline: Option<unsafe extern "C" fn(i32)>,
    pub init_task: Option<unsafe extern "C" fn(*mut TaskStruct, *mut ScxInitTaskArgs) -> i32>,
    pub exit_task: Option<unsafe extern "C" fn(*mut TaskStruct, *mut ScxExitTaskArgs)>,
    pub enable: Option<unsafe extern "C" fn(*mut TaskStruct)>,
    pub disable: Option<unsafe extern "C" fn(*mut TaskStruct)>,
    pub cgroup_move: Option<unsafe extern "C" fn(*mut TaskStruct, *mut Cgroup, *mut Cgroup)>,
    pub init: Option<unsafe extern "C" fn() -> i32>,
    pub exit: Option<unsafe extern "C" fn(*mut ScxExitInfo)>,
    pub flags: u64,
    pub timeout_ms: u32,
    pub name: [c_char; 128],
    pub exit_dump_len: u32,
    pub dump_cpu: Option<unsafe extern "C" fn(*mut c_void, i32, bool)>,
    pub dump_task: Option<unsafe extern "C" fn(*mut c_void, *mut TaskStruct)>,
}

/// Why a private copy could not be made.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// No memory file could be made; limits on files apply to it.
    #[error("cannot make a private copy of policy {policy}: {source}; raise {}", limit(.source))]
    Memfd {
        /// The policy.
        policy: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// The dynamic linker refused it.
    #[error("cannot load the native build of policy {policy}: {reason}; rebuild it")]
    Link {
        /// The policy.
        policy: &'static str,
        /// The linker's error.
        reason: String,
    },
    /// It lacks the variable of a knob.
    #[error("the native build of policy {policy} has no {symbol}; rebuild it")]
    Variable {
        /// The policy.
        policy: &'static str,
        /// The knob's variable.
        symbol: &'static str,
    },
}

/// The limit that has to be raised.
fn limit(why: &std::io::Error) -> &'static str {
    match why.kind() {
        std::io::ErrorKind::FileTooLarge => "`ulimit -f`",
        std::io::ErrorKind::OutOfMemory => "`ulimit -v`",
        _ => "`ulimit -n`",
    }
}

/// A private copy of a policy's shared object: its globals are this copy's own.
pub struct Copy {
    ops: SchedExtOps,
    // Dropped in this order: the file must outlive the library. Otherwise a later file with the same number has the
    // same path, and the linker returns this copy.
    library: Library,
    _file: File,
}

impl Copy {
    /// Loads a copy, with the instance's knobs and the topology set and `kernel` as its kernel.
    ///
    /// # Safety
    /// `kernel` must stay valid, and its functions callable, as long as any callback may run.
    pub unsafe fn load(
        instance: &Instance,
        topology: &Topology,
        kernel: *mut Kernel,
    ) -> Result<Self, LoadError> {
        let policy = instance.policy.name;
        let file = memory_file(instance.policy.build.native.bytes())
            .map_err(|source| LoadError::Memfd { policy, source })?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let link = |error: libloading::Error| LoadError::Link { policy, reason: error.to_string() };
        // SAFETY: the object is one of ours, and has no constructors.
        let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) }.map_err(link)?;
        // SAFETY: the symbols are defined by kernel_native.h and OPS() with these types.
        let ops = unsafe {
            **library.get::<*mut *mut Kernel>(b"kernel\0").map_err(link)? = kernel;
            let name = format!("{}_ops\0", instance.policy.build.ops);
            (**library.get::<*const SchedExtOps>(name.as_bytes()).map_err(link)?).clone()
        };
        let copy = Copy { ops, library, _file: file };
        for (symbol, value) in instance.on(topology).variables() {
            if !copy.write(symbol, &value.to_ne_bytes()) {
                return Err(LoadError::Variable { policy, symbol });
            }
        }
        for (symbol, bytes) in topology.config() {
            copy.write(symbol, &bytes);
        }
        Ok(copy)
    }

    /// The policy's callbacks.
    pub fn ops(&self) -> &SchedExtOps {
        &self.ops
    }

    /// The name that the policy gives itself.
    pub fn name(&self) -> String {
        // SAFETY: C fills the array from a string literal, so a NUL ends it.
        unsafe { CStr::from_ptr(self.ops.name.as_ptr()) }.to_string_lossy().into_owned()
    }

    /// Address of a global of the policy, or None if it has none of this name.
    pub fn symbol(&self, name: &str) -> Option<*mut u8> {
        let name = format!("{name}\0");
        // SAFETY: only the address is taken.
        let symbol = unsafe { self.library.get::<*mut u8>(name.as_bytes()) };
        symbol.ok().map(|address| *address)
    }

    /// Sets a variable, and says whether there is one of this name.
    fn write(&self, symbol: &str, bytes: &[u8]) -> bool {
        let Some(address) = self.symbol(symbol) else { return false };
        // SAFETY: policy-build checks that knobs have eight bytes, and config() gives each other variable as many as
        // topology.h and clocks.h declare.
        unsafe { address.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        true
    }
}

fn memory_file(bytes: &[u8]) -> std::io::Result<File> {
    let fd = rustix::fs::memfd_create(c"paceline-policy", rustix::fs::MemfdFlags::CLOEXEC)?;
    // SAFETY: the descriptor was just made and is handed over.
    let mut file = unsafe { File::from_raw_fd(fd.into_raw_fd()) };
    file.write_all(bytes)?;
    Ok(file)
}
