// SPDX-License-Identifier: GPL-2.0-only
//! The kernel functions that EEVDF's class charges, by their names in `machines/paths.toml`.

use machine::Paths;

use crate::account::Func;

/// Functions that are charged.
pub(super) struct Funcs {
    pub enqueue: Func,
    pub dequeue: Func,
    /// For a task that is woken before its debt is paid.
    pub enqueue_delayed: Func,
    /// `dequeue` of a task that stays until its debt is paid, if the machine gives a separate length, and the rest of
    /// it when the task leaves.
    pub dequeue_delayed: Option<Func>,
    pub dequeue_rest: Func,
    pub update_curr: Func,
    pub update_load_avg: Func,
    pub place_entity: Func,
    pub pick_eevdf: Func,
    pub pick: Func,
    pub put_prev: Func,
    pub set_next: Func,
    pub preempt: Func,
    pub tick: Func,
    pub fork: Func,
    pub yield_task: Func,
    pub select: Func,
    pub wake_affine: Func,
    pub idle_sibling: Func,
    pub idle_cpu: Func,
    pub idlest_cpu: Func,
    pub rebalance: Func,
    pub newidle: Func,
    pub load_balance: Func,
    pub group_stats: Func,
    pub busiest_queue: Func,
    pub move_task: Func,
}

impl Funcs {
    pub fn new(paths: &Paths) -> Self {
        let id = |name| Func::from(paths.id(name));
        Funcs {
            enqueue: id("enqueue_task_fair"),
            dequeue: id("dequeue_task_fair"),
            enqueue_delayed: id("enqueue_task_fair"),
            dequeue_delayed: None,
            dequeue_rest: id("dequeue_task_fair"),
            update_curr: id("update_curr"),
            update_load_avg: id("update_load_avg"),
            place_entity: id("place_entity"),
            pick_eevdf: id("pick_eevdf"),
            pick: id("pick_next_task_fair"),
            put_prev: id("put_prev_task_fair"),
            set_next: id("set_next_entity"),
            preempt: id("check_preempt_wakeup"),
            tick: id("task_tick_fair"),
            fork: id("task_fork_fair"),
            yield_task: id("yield_task_fair"),
            select: id("select_task_rq_fair"),
            wake_affine: id("wake_affine"),
            idle_sibling: id("select_idle_sibling"),
            idle_cpu: id("idle_cpu"),
            idlest_cpu: id("find_idlest_cpu"),
            rebalance: id("rebalance_domains"),
            newidle: id("idle_balance"),
            load_balance: id("load_balance"),
            group_stats: id("update_sg_lb_stats"),
            busiest_queue: id("find_busiest_queue"),
            move_task: id("move_task"),
        }
    }
}
