// SPDX-License-Identifier: GPL-2.0-only
//! Which symbols of the kernel the names of machines/paths.toml stand for.

/// A name, the symbols that contribute their own parts, and a remark for its line.
///
/// Names are those of 6.12 and before; symbols of later kernels stand beside them. Inlined code counts for the symbol
/// that contains it. A symbol that a kernel lacks is skipped.
pub struct Function {
    pub name: &'static str,
    pub symbols: &'static [&'static str],
    pub note: &'static str,
    pub kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Called and returned from.
    Call,
    /// Called and never returned from.
    Unreturning,
    /// An entry of interrupts.
    Interrupt,
    /// Not a path length: its instructions do not belong to its caller.
    Apart,
    /// As `Apart`, and an entry of interrupts.
    InterruptApart,
    /// Its calls begin and end the measurement.
    Mark,
}

impl Kind {
    /// The plugin's letter for it.
    pub fn letter(self) -> char {
        match self {
            Kind::Call | Kind::Apart => 'f',
            Kind::Unreturning => 'n',
            Kind::Interrupt | Kind::InterruptApart => 'i',
            Kind::Mark => 'm',
        }
    }
}

const fn call(name: &'static str, symbols: &'static [&'static str]) -> Function {
    Function { name, symbols, note: "", kind: Kind::Call }
}

const fn noted(
    name: &'static str,
    symbols: &'static [&'static str],
    note: &'static str,
) -> Function {
    Function { name, symbols, note, kind: Kind::Call }
}

const fn kind(name: &'static str, symbols: &'static [&'static str], kind: Kind) -> Function {
    Function { name, symbols, note: "", kind }
}

/// The plugin's own name for the code of BPF programs.
pub const BPF: &str = "bpf_callback";

pub const FUNCTIONS: &[Function] = &[
    call("activate_task", &["activate_task", "enqueue_task"]),
    noted("balance_one", &["balance_one", "do_pick_task_scx"], "balance_one is inlined in it"),
    call("bpf_spin_lock", &["bpf_spin_lock"]),
    call("check_preempt_wakeup", &["wakeup_preempt_fair", "check_preempt_wakeup_fair"]),
    call("consume_dispatch_q", &["consume_dispatch_q"]),
    call("deactivate_task", &["deactivate_task", "dequeue_task", "block_task"]),
    call("dequeue_task_fair", &["dequeue_task_fair"]),
    call("dequeue_task_scx", &["dequeue_task_scx"]),
    call("dispatch_dequeue", &["dispatch_dequeue"]),
    call("dispatch_enqueue", &["dispatch_enqueue"]),
    call("dispatch_to_local_dsq", &["dispatch_to_local_dsq"]),
    call("do_enqueue_task", &["do_enqueue_task"]),
    call("do_sched_yield", &["do_sched_yield"]),
    call("enqueue_task_fair", &["enqueue_task_fair"]),
    call("enqueue_task_scx", &["enqueue_task_scx"]),
    call("find_busiest_queue", &["sched_balance_find_src_rq"]),
    call("finish_task_switch", &["finish_task_switch"]),
    call("flush_dispatch_buf", &["flush_dispatch_buf"]),
    call("idle_balance", &["sched_balance_newidle"]),
    call("idle_cpu", &["idle_cpu"]),
    call("kick_cpus_irq_workfn", &["kick_cpus_irq_workfn"]),
    call("load_balance", &["sched_balance_rq", "sched_balance_find_src_group"]),
    call("migration_stop", &["migration_cpu_stop"]),
    noted("move_task", &["can_migrate_task"], "for each task looked at"),
    call(
        "move_task_between_dsqs",
        &["move_remote_task_to_local_dsq", "move_local_task_to_local_dsq"],
    ),
    call("pick_eevdf", &["pick_eevdf"]),
    call("pick_next_task_fair", &["pick_next_task_fair", "pick_task_fair"]),
    call("pick_task_scx", &["pick_task_scx"]),
    call("place_entity", &["place_entity"]),
    call("put_prev_task_fair", &["put_prev_task_fair"]),
    call("put_prev_task_scx", &["put_prev_task_scx"]),
    call("rebalance_domains", &["sched_balance_domains"]),
    call("resched_curr", &["resched_curr", "__resched_curr"]),
    call("reweight_task_scx", &["reweight_task_scx"]),
    call("sched_balance_trigger", &["sched_balance_trigger"]),
    call("sched_setaffinity", &["sched_setaffinity", "__sched_setaffinity"]),
    call("sched_setscheduler", &["do_sched_setscheduler", "__sched_setscheduler"]),
    call("sched_ttwu_pending", &["sched_ttwu_pending"]),
    call("schedule", &["schedule", "__schedule"]),
    call("scheduler_tick", &["sched_tick"]),
    call("scx_bpf_create_dsq", &["scx_bpf_create_dsq"]),
    call("scx_bpf_dsq_nr_queued", &["scx_bpf_dsq_nr_queued"]),
    call("scx_bpf_now", &["scx_bpf_now"]),
    call("scx_bpf_task_storage_get", &["bpf_task_storage_get"]),
    call("scx_dsq_insert_preamble", &["scx_dsq_insert_preamble"]),
    call("scx_init_task", &["scx_init_task", "__scx_init_task"]),
    call("scx_kick_cpu", &["scx_kick_cpu"]),
    call(
        "scx_pick_idle_cpu",
        &["scx_pick_idle_cpu", "pick_idle_cpu_in_node", "pick_idle_cpu_from_online_nodes"],
    ),
    call("scx_select_cpu_dfl", &["scx_select_cpu_dfl"]),
    call("scx_test_and_clear_cpu_idle", &["scx_idle_test_and_clear_cpu"]),
    call("select_task_rq_fair", &["select_task_rq_fair", "select_idle_sibling", "wake_affine"]),
    call("select_task_rq_scx", &["select_task_rq_scx"]),
    call("set_cpus_allowed_scx", &["set_cpus_allowed_scx"]),
    call("set_next_entity", &["set_next_task_fair", "set_next_entity"]),
    call("set_next_task_scx", &["set_next_task_scx"]),
    call("task_fork_fair", &["task_fork_fair"]),
    call("task_tick_fair", &["task_tick_fair"]),
    call("task_tick_scx", &["task_tick_scx"]),
    call("try_to_wake_up", &["try_to_wake_up"]),
    call("ttwu_do_activate", &["ttwu_do_activate"]),
    call("ttwu_queue_wakelist", &["ttwu_queue_wakelist"]),
    call("update_curr", &["update_curr"]),
    call("update_curr_scx", &["update_curr_scx", "update_curr_common"]),
    call("update_idle_scx", &["__scx_update_idle"]),
    call("update_load_avg", &["update_load_avg"]),
    call("update_rq_clock", &["update_rq_clock"]),
    call("wake_up_new_task", &["wake_up_new_task"]),
    call("yield_task_fair", &["yield_task_fair"]),
    call("yield_task_scx", &["yield_task_scx"]),
    call("context_switch", &["__switch_to_asm", "__switch_to"]),
    call("copy_process", &["kernel_clone", "copy_process"]),
    kind("do_exit", &["do_exit"], Kind::Unreturning),
    call("futex_wait", &["futex_wait", "__futex_wait"]),
    call("futex_wake", &["futex_wake"]),
    call("hrtimer_nanosleep", &["hrtimer_nanosleep"]),
    call("hrtimer_wakeup", &["hrtimer_wakeup"]),
    call("pipe_read", &["pipe_read", "anon_pipe_read"]),
    call("pipe_write", &["pipe_write", "anon_pipe_write"]),
    call(
        "prepare_to_wait",
        &["prepare_to_wait", "prepare_to_wait_exclusive", "prepare_to_wait_event"],
    ),
    kind(
        "reschedule_ipi",
        &["asm_sysvec_reschedule_ipi", "asm_sysvec_call_function_single"],
        Kind::Interrupt,
    ),
    call("switch_mm", &["switch_mm", "switch_mm_irqs_off"]),
    kind("timer_interrupt", &["asm_sysvec_apic_timer_interrupt"], Kind::Interrupt),
    call("unix_stream_recvmsg", &["unix_stream_recvmsg"]),
    call("unix_stream_sendmsg", &["unix_stream_sendmsg"]),
    call(
        "wake_up_common",
        &["__wake_up", "__wake_up_sync_key", "__wake_up_common_lock", "__wake_up_common"],
    ),
    // shared by the functions that it inlines
    kind(IDLE, &["do_idle"], Kind::Apart),
    // divided by the number of CPUs that it visits
    kind(GROUP_STATS, &["update_sd_lb_stats"], Kind::Apart),
    kind(IDLEST, &["sched_balance_find_dst_group"], Kind::Apart),
    // charged elsewhere by the simulator, or to no task
    kind(
        "spinning",
        &["native_queued_spin_lock_slowpath", "smp_call_function_many_cond"],
        Kind::Apart,
    ),
    kind("copying", &["rep_movs_alternative", "copy_user_generic_string"], Kind::Apart),
    kind("softirqs", &["handle_softirqs"], Kind::Apart),
    kind("deferred", &["task_work_run", "irq_work_run"], Kind::Apart),
    kind(
        "interrupts",
        &[
            "asm_common_interrupt",
            "asm_exc_page_fault",
            "asm_exc_general_protection",
            "asm_exc_invalid_op",
            "asm_exc_int3",
            "asm_exc_device_not_available",
            "asm_sysvec_irq_work",
            "asm_sysvec_call_function",
            "asm_sysvec_spurious_apic_interrupt",
        ],
        Kind::InterruptApart,
    ),
    kind("mark", &["ksys_sync"], Kind::Mark),
];

/// From idle to idle.
const IDLE: &str = "do_idle";

/// Names without a function of their own, the function that inlines each, and their part of it. A part of nothing is
/// the whole's already, which has a name itself.
pub const INLINED: &[(&str, &str, f64)] = &[
    ("cpu_idle_enter", IDLE, 0.5),
    ("cpu_idle_exit", IDLE, 0.5),
    ("select_idle_sibling", "select_task_rq_fair", 0.0),
    ("wake_affine", "select_task_rq_fair", 0.0),
];

/// Its length is that of one call, over all CPUs that it visits.
pub const GROUP_STATS: &str = "update_sd_lb_stats";
/// As [`GROUP_STATS`].
pub const IDLEST: &str = "sched_balance_find_dst_group";

/// Names with a length per CPU visited, and the function that visits them.
pub const PER_CPU: &[(&str, &str)] =
    &[("update_sg_lb_stats", GROUP_STATS), ("find_idlest_cpu", IDLEST)];
