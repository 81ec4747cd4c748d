// SPDX-License-Identifier: GPL-2.0-only
//! One runqueue of EEVDF: virtual time, lag, eligibility and the pick. Pure: no kernel here.
//!
//! V is the mean of vruntimes by weight. A task's lag is V less its vruntime: the time it is owed. A task with a lag of
//! 0 or more is eligible. Of these the earliest virtual deadline runs. Source: Stoica and Abdel-Wahab, Earliest
//! Eligible Virtual Deadline First (1995), as kernel/sched/fair.c has it.
//!
//! An entity on it is a task, or a cgroup with all its tasks on this CPU (`eevdf_tree`).

use std::collections::BTreeSet;

/// An entity, by its index.
pub(super) type EntityId = usize;

/// Weights have ten more bits than nice values give, for the shares of cgroups (`scale_load`).
pub(super) const SCALE: i64 = 1024;

/// `scale_load_down`: the weight as averages of load count it.
fn scaled_down(weight: i64) -> u64 {
    if weight == 0 { 0 } else { (weight / SCALE).max(2) as u64 }
}

/// `value` times `by`, divided by `of`, rounded to zero.
fn in_proportion(value: i64, by: i64, of: i64) -> i64 {
    match value.checked_mul(by) {
        Some(product) => product / of,
        None => (i128::from(value) * i128::from(by) / i128::from(of)) as i64,
    }
}

/// `struct sched_entity`. Virtual times are CPU time at weight 1024, ns.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Entity {
    pub vruntime: i64,
    pub deadline: i64,
    /// Lag kept while off the queue.
    pub vlag: i64,
    /// `deadline` is relative to `vruntime` while off the queue.
    pub rel_deadline: bool,
    /// Until this vruntime it is not preempted (RUN_TO_PARITY).
    pub protected: i64,
    /// A task's weight is [`SCALE`] times that of its nice value.
    pub weight: i64,
    /// Requested slice.
    pub slice_ns: i64,
    pub on_rq: bool,
    /// Asleep, but not eligible: it stays queued until its debt is paid (DELAY_DEQUEUE).
    pub delayed: bool,
    seq: u64,
}

impl Entity {
    pub fn new(weight: i64, slice_ns: i64) -> Self {
        Entity { weight: weight * SCALE, slice_ns, ..Entity::default() }
    }

    /// Its weight, as averages of load count it: 1024 at nice 0.
    pub fn load(&self) -> u64 {
        scaled_down(self.weight)
    }

    /// CPU time as virtual time: `calc_delta_fair`.
    pub fn fair(&self, ns: i64) -> i64 {
        if self.weight == 1024 * SCALE { ns } else { in_proportion(ns, 1024 * SCALE, self.weight) }
    }

    fn vslice(&self) -> i64 {
        self.fair(self.slice_ns)
    }

    /// CPU time until its deadline.
    pub fn left_ns(&self) -> i64 {
        in_proportion(self.deadline - self.vruntime, self.weight, 1024 * SCALE)
    }

    fn is_protected(&self) -> bool {
        self.protected > self.vruntime
    }
}

/// `struct cfs_rq`.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// By deadline, without the running task.
    tree: BTreeSet<(i64, u64, EntityId)>,
    pub curr: Option<EntityId>,
    /// Σ weight and Σ weight × vruntime of the tree.
    weight: i64,
    moment: i128,
    /// V when the queue was last not empty.
    zero: i64,
    seq: u64,
}

/// How a task is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placing {
    /// It is new: half a slice.
    Initial,
    /// It is queued again with its lag.
    Back,
}

impl Queue {
    /// Tasks on it, the running one and delayed ones included.
    pub fn len(&self, entities: &[Entity]) -> usize {
        self.tree.len() + usize::from(self.running(entities).is_some())
    }

    fn running(&self, entities: &[Entity]) -> Option<EntityId> {
        self.curr.filter(|curr| entities[*curr].on_rq)
    }

    /// Σ weight, Σ weight × vruntime, the running task included.
    fn sums(&self, entities: &[Entity]) -> (i64, i128) {
        match self.running(entities) {
            Some(curr) => {
                let entity = &entities[curr];
                let moment = i128::from(entity.weight) * i128::from(entity.vruntime);
                (self.weight + entity.weight, self.moment + moment)
            }
            None => (self.weight, self.moment),
        }
    }

    /// Weight of all entities on it.
    fn weight(&self, entities: &[Entity]) -> i64 {
        self.sums(entities).0
    }

    /// The same, as averages of load count it.
    pub fn load(&self, entities: &[Entity]) -> u64 {
        scaled_down(self.weight(entities))
    }

    /// V: `avg_vruntime`.
    pub fn average(&self, entities: &[Entity]) -> i64 {
        match self.sums(entities) {
            (0, _) => self.zero,
            (weight, moment) => moment.div_euclid(i128::from(weight)) as i64,
        }
    }

    /// `entity_eligible`: its lag is not negative.
    pub fn eligible(&self, entities: &[Entity], task: EntityId) -> bool {
        let (weight, moment) = self.sums(entities);
        moment >= i128::from(entities[task].vruntime) * i128::from(weight)
    }

    /// `place_entity`, `enqueue_entity`.
    pub fn enqueue(&mut self, entities: &mut [Entity], task: EntityId, placing: Placing) {
        let average = self.average(entities);
        let load = self.weight(entities);
        let entity = &mut entities[task];
        let lag = match load {
            0 => 0,
            // Joining moves V: to have this lag afterwards it must start with more.
            load => in_proportion(entity.vlag, load + entity.weight, load),
        };
        entity.vruntime = average - lag;
        if entity.rel_deadline {
            entity.deadline += entity.vruntime;
            entity.rel_deadline = false;
        } else {
            let part = if placing == Placing::Initial { 2 } else { 1 };
            entity.deadline = entity.vruntime + entity.vslice() / part;
        }
        entity.on_rq = true;
        if self.curr != Some(task) {
            self.insert(entities, task);
        }
        self.zero = self.average(entities);
    }

    /// `dequeue_entity`: keeps its lag. `sleeps` says that its deadline is void.
    pub fn dequeue(&mut self, entities: &mut [Entity], task: EntityId, sleeps: bool, tick_ns: i64) {
        self.update_lag(entities, task, tick_ns);
        self.zero = self.average(entities);
        if self.curr != Some(task) {
            self.remove(entities, task);
        }
        let entity = &mut entities[task];
        entity.delayed = false;
        if !sleeps {
            entity.deadline -= entity.vruntime;
            entity.rel_deadline = true;
        }
        entity.on_rq = false;
        if !self.tree.is_empty() || self.running(entities).is_some() {
            self.zero = self.average(entities);
        }
    }

    /// `update_entity_lag`: within a slice and a tick. The debt of a delayed sleeper does not grow, and becomes no
    /// credit (DELAY_ZERO). Returns whether its vruntime no longer matches the lag.
    fn update_lag(&self, entities: &mut [Entity], task: EntityId, tick_ns: i64) -> bool {
        let average = self.average(entities);
        let entity = &mut entities[task];
        let limit = entity.fair(entity.slice_ns + tick_ns);
        let mut lag = (average - entity.vruntime).clamp(-limit, limit);
        if entity.delayed {
            lag = lag.max(entity.vlag).min(0);
        }
        entity.vlag = lag;
        average - lag != entity.vruntime
    }

    /// `set_delayed`: a task sleeps and stays queued until its debt is paid.
    pub fn delay(&mut self, entities: &mut [Entity], task: EntityId, tick_ns: i64) {
        self.update_lag(entities, task, tick_ns);
        entities[task].delayed = true;
    }

    /// `requeue_delayed_entity`: a task woken before its debt was paid.
    pub fn revive(&mut self, entities: &mut [Entity], task: EntityId, tick_ns: i64) {
        let moved = self.update_lag(entities, task, tick_ns);
        entities[task].delayed = false;
        if moved {
            if self.curr != Some(task) {
                self.remove(entities, task);
            }
            entities[task].on_rq = false;
            self.enqueue(entities, task, Placing::Back);
        }
    }

    /// `reweight_entity`: an entity has another weight, and the same lag and time to its deadline.
    pub fn reweight(&mut self, entities: &mut [Entity], at: EntityId, weight: i64, tick_ns: i64) {
        let Entity { on_rq, delayed, weight: was, .. } = entities[at];
        let protected = entities[at].is_protected() && self.curr == Some(at);
        let left = entities[at].protected - entities[at].vruntime;
        if on_rq {
            self.dequeue(entities, at, false, tick_ns);
        }
        let entity = &mut entities[at];
        entity.weight = weight;
        entity.vlag = in_proportion(entity.vlag, was, weight);
        if entity.rel_deadline {
            entity.deadline = in_proportion(entity.deadline, was, weight);
        }
        if on_rq {
            self.enqueue(entities, at, Placing::Back);
            entities[at].delayed = delayed;
        }
        if protected {
            entities[at].protected = entities[at].vruntime + in_proportion(left, was, weight);
        }
    }

    /// `update_curr`: charges the running task. Returns whether it is to give way to others.
    pub fn charge(&mut self, entities: &mut [Entity], ns: i64) -> bool {
        let Some(curr) = self.running(entities) else { return false };
        let entity = &mut entities[curr];
        entity.vruntime += entity.fair(ns);
        let ended = entity.vruntime >= entity.deadline;
        if ended {
            entity.deadline = entity.vruntime + entity.vslice();
        }
        let gives_way = ended || !entity.is_protected();
        self.zero = self.average(entities);
        gives_way && self.len(entities) > 1
    }

    /// `pick_eevdf`.
    pub fn pick(&self, entities: &[Entity]) -> Option<EntityId> {
        let curr = self.running(entities);
        if self.tree.is_empty() {
            return curr;
        }
        let curr = curr.filter(|curr| self.eligible(entities, *curr));
        if let Some(curr) = curr.filter(|curr| entities[*curr].is_protected()) {
            return Some(curr);
        }
        let (weight, moment) = self.sums(entities);
        let eligible =
            |task: EntityId| moment >= i128::from(entities[task].vruntime) * i128::from(weight);
        let best = self.tree.iter().find(|(_, _, task)| eligible(*task));
        match (best, curr) {
            (Some((deadline, _, best)), Some(curr)) => {
                Some(if entities[curr].deadline < *deadline { curr } else { *best })
            }
            (Some((_, _, best)), None) => Some(*best),
            (None, curr) => curr,
        }
    }

    /// `set_next_entity`: leaves the tree and is protected until its deadline.
    pub fn set_next(&mut self, entities: &mut [Entity], task: EntityId) {
        self.remove(entities, task);
        self.curr = Some(task);
        self.protect(entities, task);
    }

    /// `set_protect_slice`.
    pub fn protect(&mut self, entities: &mut [Entity], task: EntityId) {
        entities[task].protected = entities[task].deadline;
    }

    /// `put_prev_entity`.
    pub fn put_prev(&mut self, entities: &mut [Entity], task: EntityId) {
        self.curr = None;
        if entities[task].on_rq {
            self.insert(entities, task);
        }
    }

    /// `yield_task_fair`: gives up the rest of its request.
    pub fn give_way(&mut self, entities: &mut [Entity], task: EntityId) {
        if self.eligible(entities, task) {
            entities[task].vruntime = entities[task].vruntime.max(entities[task].deadline);
        }
        let vslice = entities[task].vslice();
        entities[task].deadline += vslice;
        entities[task].protected = entities[task].vruntime;
    }

    /// Tasks that wait, by deadline.
    pub fn waiting(&self) -> impl Iterator<Item = EntityId> {
        self.tree.iter().map(|(_, _, task)| *task)
    }

    fn insert(&mut self, entities: &mut [Entity], task: EntityId) {
        self.seq += 1;
        let entity = &mut entities[task];
        entity.seq = self.seq;
        self.tree.insert((entity.deadline, entity.seq, task));
        self.weight += entity.weight;
        self.moment += i128::from(entity.weight) * i128::from(entity.vruntime);
    }

    fn remove(&mut self, entities: &[Entity], task: EntityId) {
        let entity = &entities[task];
        let was = self.tree.remove(&(entity.deadline, entity.seq, task));
        debug_assert!(was, "task {task} is in the tree");
        self.weight -= entity.weight;
        self.moment -= i128::from(entity.weight) * i128::from(entity.vruntime);
        // No weight or vruntime may change while its task is in the tree.
        debug_assert!(!self.tree.is_empty() || (self.weight, self.moment) == (0, 0));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SLICE_NS: i64 = 2_800_000;
    const TICK_NS: i64 = 4_000_000;

    fn queue(weights: &[i64]) -> (Queue, Vec<Entity>) {
        let mut entities: Vec<Entity> =
            weights.iter().map(|weight| Entity::new(*weight, SLICE_NS)).collect();
        let mut queue = Queue::default();
        (0..weights.len()).for_each(|at| queue.enqueue(&mut entities, at, Placing::Back));
        (queue, entities)
    }

    /// Runs the queue alone: the picked task runs until it must give way.
    fn run(queue: &mut Queue, entities: &mut [Entity], total_ns: i64) -> Vec<i64> {
        let mut ran = vec![0; entities.len()];
        let mut left = total_ns;
        while left > 0 {
            let next = queue.pick(entities).expect("an entity can run");
            match queue.curr {
                Some(curr) if curr == next => queue.protect(entities, curr),
                prev => {
                    prev.iter().for_each(|prev| queue.put_prev(entities, *prev));
                    queue.set_next(entities, next);
                }
            }
            loop {
                let step = 100_000.min(left);
                left -= step;
                ran[next] += step;
                if queue.charge(entities, step) || left <= 0 {
                    break;
                }
            }
        }
        ran
    }

    #[test]
    fn equal_tasks_take_turns_of_a_slice() {
        let (mut queue, mut entities) = queue(&[1024; 3]);
        let ran = run(&mut queue, &mut entities, 3 * SLICE_NS);
        assert_eq!(ran, [SLICE_NS; 3]);
    }

    #[test]
    fn a_sleeper_in_debt_stays_owing() {
        let (mut queue, mut entities) = queue(&[1024; 2]);
        queue.set_next(&mut entities, 0);
        queue.charge(&mut entities, SLICE_NS / 2);
        assert!(!queue.eligible(&entities, 0) && queue.eligible(&entities, 1));
        queue.dequeue(&mut entities, 0, true, TICK_NS);
        queue.put_prev(&mut entities, 0);
        assert_eq!(entities[0].vlag, -SLICE_NS / 4);
        queue.enqueue(&mut entities, 0, Placing::Back);
        let lag = queue.average(&entities) - entities[0].vruntime;
        assert!((lag + SLICE_NS / 4).abs() <= 1, "{lag}");
    }

    #[test]
    fn running_task_is_not_preempted_while_eligible_and_protected() {
        let (mut queue, mut entities) = queue(&[1024]);
        queue.set_next(&mut entities, 0);
        entities.push(Entity::new(1024, SLICE_NS));
        queue.enqueue(&mut entities, 1, Placing::Initial);
        assert_eq!(queue.pick(&entities), Some(0), "eligible and protected");
        queue.charge(&mut entities, 1_000_000);
        assert_eq!(queue.pick(&entities), Some(1), "no longer eligible");
    }

    #[test]
    fn delayed_sleeper_woken_late_has_no_credit() {
        let (mut queue, mut entities) = queue(&[1024; 2]);
        queue.set_next(&mut entities, 0);
        queue.charge(&mut entities, SLICE_NS / 2);
        entities[0].delayed = true;
        queue.put_prev(&mut entities, 0);
        queue.set_next(&mut entities, 1);
        queue.charge(&mut entities, 2 * SLICE_NS);
        queue.revive(&mut entities, 0, TICK_NS);
        let lag = queue.average(&entities) - entities[0].vruntime;
        assert!(lag.abs() <= 1 && !entities[0].delayed, "{lag}");
    }

    #[test]
    fn an_entity_of_another_weight_keeps_its_lag_and_the_time_to_its_deadline() {
        let (mut queue, mut entities) = queue(&[1024; 3]);
        queue.set_next(&mut entities, 0);
        queue.charge(&mut entities, SLICE_NS / 2);
        for at in [0, 1] {
            let owed = |queue: &Queue, entities: &[Entity]| {
                let Entity { vruntime, weight, .. } = entities[at];
                (queue.average(entities) - vruntime) * weight / SCALE / 1024
            };
            let (lag, left) = (owed(&queue, &entities), entities[at].left_ns());
            queue.reweight(&mut entities, at, 256 * SCALE, TICK_NS);
            let moved = owed(&queue, &entities) - lag;
            assert!(moved.abs() <= 2 && (entities[at].left_ns() - left).abs() <= 2, "{moved} ns");
            assert!(entities[at].on_rq && queue.len(&entities) == 3);
        }
        assert!(entities[0].is_protected(), "as before");
    }

    proptest! {
        #[test]
        fn shares_follow_weights(weights in prop::collection::vec(prop::sample::select(vec![15i64, 110, 335, 820, 1024, 3121, 9548]), 2..6)) {
            let (mut queue, mut entities) = queue(&weights);
            let total: i64 = weights.iter().sum();
            let least = *weights.iter().min().unwrap();
            let rounds = 40 * SLICE_NS * total / least;
            let ran = run(&mut queue, &mut entities, rounds);
            for (ran, weight) in ran.iter().zip(&weights) {
                let due = rounds as f64 * *weight as f64 / total as f64;
                // Lag is bounded by one request and the tick's coarseness.
                prop_assert!((*ran as f64 - due).abs() <= 2.0 * SLICE_NS as f64 + 200_000.0, "{ran} of {due}");
            }
        }

        #[test]
        fn some_task_is_always_eligible(ops in prop::collection::vec((0..6usize, 0..4u8, 1..5_000_000i64), 1..200)) {
            let weights = [15i64, 335, 1024, 1024, 9548, 820];
            let mut entities: Vec<Entity> = weights.iter().map(|w| Entity::new(*w, SLICE_NS)).collect();
            let mut queue = Queue::default();
            for (task, op, ns) in ops {
                match op {
                    0 if !entities[task].on_rq && queue.curr != Some(task) => queue.enqueue(&mut entities, task, Placing::Back),
                    1 if entities[task].on_rq => {
                        queue.dequeue(&mut entities, task, ns % 2 == 0, TICK_NS);
                        if queue.curr == Some(task) { queue.put_prev(&mut entities, task); }
                    }
                    2 => { queue.charge(&mut entities, ns); }
                    _ => {}
                }
                let on: usize = entities.iter().filter(|e| e.on_rq).count();
                prop_assert_eq!(queue.len(&entities), on, "no task is lost");
                let next = queue.pick(&entities);
                prop_assert_eq!(next.is_some(), on > 0);
                if let Some(next) = next && queue.curr != Some(next) {
                    if let Some(prev) = queue.curr { queue.put_prev(&mut entities, prev); }
                    queue.set_next(&mut entities, next);
                }
            }
        }
    }
}
