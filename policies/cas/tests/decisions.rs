// SPDX-License-Identifier: GPL-2.0-only
//! The decisions of `o1` and `cas`, called as the data plane calls them, with plain values. A
//! runqueue made of them shows the orders of the talk and the bounds of an epoch.

#[macro_use]
#[path = "../../common/tests/decisions.rs"]
mod decisions;

use proptest::prelude::*;

const MS: u64 = 1_000_000;
const SLICE: u64 = 100 * MS;
const NICE_0: u8 = 20;
/// The knob's value in `cas`: 1 + the threshold.
const OFF: u64 = 0;

/// `struct o1_task` of order_o1.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct O1Task {
    sleep_avg_ns: u64,
    slice_ns: i64,
    nice: u8,
    prio: u8,
    sleep: u8,
    phase: u8,
}

impl O1Task {
    fn new(nice: u8) -> Self {
        let mut task = O1Task { sleep_avg_ns: 0, slice_ns: 0, nice, prio: 0, sleep: 0, phase: 0 };
        task.refill();
        task
    }

    fn refill(&mut self) {
        call!(refill(self => *mut O1Task, SLICE => u64) -> ());
    }

    fn wakes(&mut self, slept: u64) {
        call!(wakes(self => *mut O1Task, slept => u64, true => bool, SLICE => u64) -> ());
    }

    fn starts(&mut self, waited: u64) {
        call!(starts(self => *mut O1Task, waited => u64, true => bool, SLICE => u64) -> ());
    }

    fn ran(&mut self, ran: u64) {
        call!(ran(self => *mut O1Task, ran => u64, SLICE => u64) -> ());
    }

    fn turn(&self) -> u64 {
        call!(turn(self => *const O1Task, 1 => u32, SLICE => u64) -> u64)
    }

    fn interactive(&self) -> bool {
        call!(interactive(self.prio.into() => u32, self.nice.into() => u32) -> bool)
    }
}

fn key(epoch: u32, prio: u32, sequence: u64, slot: u32) -> u64 {
    call!(key(epoch => u32, prio => u32, sequence => u64, slot => u32) -> u64)
}

fn slot_of(key: u64) -> usize {
    call!(slot_of(key => u64) -> u32) as usize
}

fn epoch_of(key: u64) -> u32 {
    call!(epoch_of(key => u64) -> u32)
}

/// Values of the table in `sched.c`'s own comment, and its ends.
#[test]
fn slices_follow_from_nice() {
    let slice = |nice: i32| call!(slice((nice + 20) as u32 => u32, SLICE => u64) -> u64) / MS;
    assert_eq!([-20, -10, -1, 0, 10, 19].map(slice), [800, 600, 420, 100, 50, 5]);
}

#[test]
fn sleep_moves_priority_by_at_most_five() {
    let prio = |nice: u32, slept: u64| call!(prio(nice => u32, slept => u64, SLICE => u64) -> u32);
    assert_eq!([0, 5 * SLICE, 10 * SLICE].map(|slept| prio(20, slept)), [25, 20, 15]);
    assert_eq!((prio(0, 10 * SLICE), prio(39, 0)), (0, 39), "never beyond the ends");
}

/// "Prevents user tasks from achieving best priority with one single large enough sleep."
#[test]
fn one_long_sleep_makes_a_task_just_interactive_and_more_sleep_the_best() {
    let mut task = O1Task::new(NICE_0);
    task.wakes(60_000 * MS);
    assert_eq!(task.sleep_avg_ns, 8 * SLICE - MS, "a tick from promotion");
    assert!(task.interactive() && task.prio == 18, "{task:?}");
    assert_eq!(task.turn(), 40 * MS, "and has its slice in parts: TIMESLICE_GRANULARITY");
    task.starts(0);
    task.wakes(60_000 * MS);
    assert_eq!((task.sleep_avg_ns, task.prio), (10 * SLICE, 15));
    assert!(!O1Task::new(39).interactive(), "nice 19 never is");
}

#[test]
fn waiting_after_a_sleep_counts_for_a_part_as_sleep() {
    let mut task = O1Task::new(NICE_0);
    task.wakes(0);
    task.starts(100 * MS);
    assert_eq!(task.sleep_avg_ns, 30 * MS);
    task.starts(100 * MS);
    assert_eq!(task.sleep_avg_ns, 30 * MS, "a turn that follows on another brings nothing");
}

#[test]
fn running_task_loses_a_high_bonus_more_slowly() {
    let lost = |bonus: u64| {
        let mut task = O1Task { sleep_avg_ns: bonus * SLICE, ..O1Task::new(NICE_0) };
        task.ran(10 * MS);
        assert_eq!(task.slice_ns, 90 * MS as i64);
        bonus * SLICE - task.sleep_avg_ns
    };
    assert_eq!([1, 5, 10].map(lost), [10 * MS, 2 * MS, MS]);
}

#[test]
fn interactive_tasks_go_on_until_others_starve() {
    let starving = |since: u64, best: u8, nice: u32, now: u64| {
        call!(starving(since => u64, best => u8, nice => u32, now => u64, 3 => u32,
              SLICE => u64) -> bool)
    };
    assert!(!starving(0, 0, 20, 1 << 40), "no task waits for the next epoch");
    assert!(!starving(1, 20, 20, 3000 * MS), "10 slices for each of three");
    assert!(starving(1, 20, 20, 3001 * MS));
    assert!(starving(1, 19, 20, 2), "a better one waits");
}

/// `struct o1_expired` of order_o1.h.
#[repr(C)]
#[derive(Default)]
struct Expired {
    since_ns: u64,
    best_nice: u8,
}

/// "We place interactive tasks back into the active array, if possible", for at most 10 slices for
/// each runnable task. That is counted from the first slice that ended, which may be an interactive
/// task's.
#[test]
fn interactive_tasks_that_end_their_slices_start_the_clock() {
    let mut sleeper = O1Task::new(NICE_0);
    sleeper.wakes(60_000 * MS);
    let mut expired = Expired::default();
    let mut goes_on = |task: &O1Task, now: u64| call!(goes_on(&mut expired => *mut Expired, task => *const O1Task, now => u64, 3 => u32, SLICE => u64) -> bool);
    assert!(goes_on(&sleeper, MS));
    assert!(goes_on(&sleeper, 3001 * MS));
    assert!(!goes_on(&sleeper, 3002 * MS), "no other task's slice ended");
    assert!(!goes_on(&O1Task::new(NICE_0), 3003 * MS), "a task that does not sleep never does");
}

/// Keys of one epoch and priority are in the order of their creation for a day.
#[test]
fn sequences_do_not_run_out() {
    let made = |sequence: u64| key(1, 20, sequence, 3);
    assert!(made(1 << 28) < made((1 << 28) + 1) && made((1 << 27) - 1) < made(1 << 27));
    assert!(made((1 << 35) - 1) < key(1, 21, 0, 0), "and never run into the priority");
    assert_eq!((epoch_of(made((1 << 35) - 1)), slot_of(made(1 << 35))), (1, 3));
}

#[test]
fn a_wakeup_from_another_context_takes_the_cpu_only_beyond_the_threshold() {
    let preempts = |prio: u32, running: u32, here: bool, threshold: u64| call!(preempts(prio => u32, running => u32, here => bool, threshold => u64) -> bool);
    assert!(preempts(19, 20, false, OFF));
    assert!(!preempts(20, 20, true, OFF));
    assert!(preempts(19, 20, true, 11), "within a context it is the O(1) scheduler's");
    assert!(!preempts(10, 20, false, 11));
    assert!(preempts(9, 20, false, 11));
}

#[test]
fn epochs_wrap() {
    let later = |epoch: u32, than: u32| call!(later(epoch => u32, than => u32) -> bool);
    assert!(later(8, 7) && !later(7, 7) && !later(7, 8));
    assert!(later(0x1_0000, 0xffff) && later(0, 0xffff) && !later(0xffff, 0));
    let heads = [key(0xffff, 39, 9, 0), key(0x1_0000, 0, 1, 1)];
    assert_eq!(slot_of(next(&heads, 0b10, 0xffff, 41)), 0, "the epoch before the wrap is first");
}

#[test]
fn an_idle_cpu_takes_from_its_own_context_first_and_from_the_others_last() {
    let slots = |class: u32| call!(slots_of(class => u32, 0b0011 => u32, 0b0101 => u32) -> u32);
    assert_eq!([0, 1, 2].map(|class| slots(class) & 0b1111), [0b0011, 0b1000, 0b0100]);
}

/// `struct context_tags` of order_context.h.
#[repr(C)]
#[derive(Default)]
struct Tags {
    slot: [u8; 8],
    next: u8,
}

#[test]
fn tags_are_given_out_in_turn() {
    let mut tags = Tags::default();
    let mut tagged = 0;
    let mut enter = |slot: u32| {
        tagged = call!(tag(&mut tags => *mut Tags, tagged => u32, slot => u32, 2 => u32) -> u32);
        tagged
    };
    assert_eq!([1, 2, 1].map(&mut enter), [0b0010, 0b0110, 0b0110]);
    assert_eq!(enter(3), 0b1100, "the first tag goes, though its context ran last");
    assert_eq!(enter(1), 0b1010);
}

fn next(heads: &[u64], here: u32, epoch: u32, threshold: u64) -> u64 {
    next_of_tagged(heads, here, 0, epoch, threshold)
}

fn next_of_tagged(heads: &[u64], here: u32, tagged: u32, epoch: u32, threshold: u64) -> u64 {
    call!(next(heads.as_ptr() => *const u64, heads.len() as u32 => u32, here => u32, tagged => u32,
          epoch => u32, threshold => u64) -> u64)
}

/// A CPU's runqueue as main.bpf.c keeps it, of tasks that never sleep.
struct Queue {
    threshold: u64,
    slots: Vec<Vec<u64>>,
    tasks: Vec<(u32, O1Task)>,
    by_key: std::collections::BTreeMap<u64, usize>,
    epoch: u32,
    sequence: u64,
    here: u32,
}

impl Queue {
    /// Tasks by slot and priority, in the order in which they came.
    fn new(threshold: u64, slots: usize, tasks: &[(u32, u8)]) -> Self {
        let task = |&(slot, prio): &(u32, u8)| (slot, O1Task { prio, ..O1Task::new(NICE_0) });
        let mut queue = Queue {
            threshold,
            slots: vec![Vec::new(); slots],
            tasks: tasks.iter().map(task).collect(),
            by_key: Default::default(),
            epoch: 1,
            sequence: 0,
            here: 0,
        };
        for task in 0..tasks.len() {
            queue.insert(task, 1);
        }
        queue
    }

    fn insert(&mut self, task: usize, epoch: u32) {
        let (slot, state) = self.tasks[task];
        let key = key(epoch, state.prio.into(), self.sequence, slot);
        self.sequence += 1;
        self.slots[slot as usize].push(key);
        self.slots[slot as usize].sort_unstable();
        self.by_key.insert(key, task);
    }

    /// The next task, taken out of the queue.
    fn take(&mut self) -> Option<usize> {
        let heads: Vec<u64> =
            self.slots.iter().map(|slot| slot.first().copied().unwrap_or(0)).collect();
        let key = next(&heads, self.here, self.epoch, self.threshold);
        if key == 0 {
            return None;
        }
        self.epoch = epoch_of(key);
        self.here = 1 << slot_of(key);
        self.slots[slot_of(key)].remove(0);
        self.by_key.remove(&key)
    }

    /// The order in which all tasks run once.
    fn order(mut self) -> Vec<usize> {
        std::iter::from_fn(|| self.take()).collect()
    }
}

/// Slide 17: A, C and E are of one context, B and D of another; A = B, then C = D = E.
const SLIDE_17: [(u32, u8); 5] = [(1, 20), (2, 20), (1, 22), (2, 22), (1, 22)];

fn order_and_switches(threshold: u64, tasks: &[(u32, u8)]) -> (String, usize) {
    let order = Queue::new(threshold, 3, tasks).order();
    let switches = order.windows(2).filter(|two| tasks[two[0]].0 != tasks[two[1]].0).count();
    (order.iter().map(|task| (b'A' + *task as u8) as char).collect(), switches)
}

#[test]
fn the_order_of_slide_17() {
    let told = |threshold| order_and_switches(threshold, &SLIDE_17);
    assert_eq!(told(OFF), ("ABCDE".into(), 4));
    assert_eq!(told(1), ("ABDCE".into(), 2), "threshold 0");
    assert_eq!(told(2), ("ABDCE".into(), 2), "threshold 1");
    assert_eq!(told(3), ("ACEBD".into(), 1), "threshold 2");
}

/// Slide 47: the O(1) scheduler changes the address space 3 times, CAS once, in the order A C D B
/// E. So A, C and D are siblings there, and B and E.
#[test]
fn the_order_of_slide_47() {
    let tasks = [(1, 20), (2, 20), (1, 20), (1, 20), (2, 20)];
    assert_eq!(order_and_switches(OFF, &tasks), ("ABCDE".into(), 3));
    assert_eq!(order_and_switches(11, &tasks), ("ACDBE".into(), 1));
}

/// `struct context_owner` of context_slots.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Owner {
    mm: u64,
    seen_ns: u64,
    threads: u32,
}

/// The n-th address of an mm_struct.
fn mm(n: u64) -> u64 {
    0xffff_8880_0000_0000 + n * 1088
}

/// The slot of a context, with one more thread.
fn find(owners: &mut [Owner; 32], mm: u64, slots: u32, now: u64) -> u32 {
    let slot = call!(find(owners => *mut [Owner; 32], mm => u64, slots => u32, now => u64,
                          SLICE => u64) -> u32);
    moves(owners, 0, slot);
    slot
}

fn moves(owners: &mut [Owner; 32], from: u32, to: u32) {
    call!(moves(owners => *mut [Owner; 32], from => u32, to => u32) -> ());
}

#[test]
fn hashes_reach_every_slot_but_that_of_kernel_threads() {
    let slot = |mm: u64, slots: u32| call!(context(mm => u64, slots => u32) -> u32);
    assert_eq!(slot(0, 16), 0, "no address space: a slot of its own");
    let used: std::collections::BTreeSet<u32> = (1..=2000).map(|n| slot(mm(n), 16)).collect();
    assert_eq!(used.into_iter().collect::<Vec<_>>(), (1..16).collect::<Vec<_>>());
    assert_eq!(slot(12345, 1), 0);
}

#[test]
fn contexts_share_a_slot_only_where_there_are_more_than_slots() {
    let mut owners = [Owner::default(); 32];
    for round in 0..100 {
        let used: std::collections::BTreeSet<u32> =
            (1..=8).map(|n| find(&mut owners, mm(n * 37), 9, round * MS)).collect();
        assert_eq!(used.into_iter().collect::<Vec<_>>(), (1..9).collect::<Vec<_>>());
    }
    for n in 1000..1100 {
        let home = call!(context(mm(n) => u64, 9 => u32) -> u32);
        assert_eq!(find(&mut owners, mm(n), 9, 100 * MS), home, "all are taken: as the hash says");
    }
    assert_eq!(find(&mut owners, 0, 9, 0), 0, "kernel threads have theirs");
    assert_eq!(find(&mut owners, mm(1), 1, 0), 0);
    assert!((1..100).all(|n| find(&mut owners, mm(n), 2, 0) == 1));
}

#[test]
fn a_context_gives_its_slot_up_with_its_last_thread_and_if_it_sleeps() {
    let owner = |owners: &[Owner; 32]| owners[1].mm;
    let mut owners = [Owner::default(); 32];
    assert_eq!(find(&mut owners, mm(1), 2, 0), 1);
    find(&mut owners, mm(1), 2, 0);
    moves(&mut owners, 1, 0);
    find(&mut owners, mm(2), 2, MS);
    assert_eq!(owner(&owners), mm(1), "one thread is left");
    moves(&mut owners, 1, 0);
    moves(&mut owners, 1, 0);
    find(&mut owners, mm(2), 2, 2 * MS);
    assert_eq!(owner(&owners), mm(2));
    find(&mut owners, mm(3), 2, 10 * SLICE);
    assert_eq!(owner(&owners), mm(2), "not yet");
    find(&mut owners, mm(3), 2, 11 * SLICE);
    assert_eq!(owner(&owners), mm(3));
}

/// The knob's value in `cas`: 1 + the slack.
fn slack(ms: u64) -> u64 {
    ms * MS + 1
}

/// The start of the virtual clocks of CPUs.
const BEGINS: u64 = 1 << 32;

fn tag_ran(key: u64, ran: u64, weight: u32) -> u64 {
    call!(tag_ran(key => u64, ran => u64, weight => u32) -> u64)
}

#[test]
fn a_tag_moves_on_by_cpu_time_over_weight_and_keeps_its_slot() {
    let key = call!(tag_with_slot(BEGINS => u64, 5 => u32) -> u64);
    assert_eq!(slot_of(key), 5);
    assert_eq!(tag_ran(key, MS, 100) - key, MS);
    assert_eq!(tag_ran(key, MS, 200) - key, MS / 2 / 32 * 32, "twice the weight, half as fast");
    assert_eq!(slot_of(tag_ran(key, 1_000_003, 77)), 5);
    assert_eq!(tag_ran(key, MS, 1), tag_ran(key, MS, 12), "no lighter than an eighth of nice 0");
    assert_eq!(tag_ran(key, MS, 10_000), tag_ran(key, MS, 800), "nor heavier than 8 times");
}

#[test]
fn woken_task_starts_at_the_clock_and_a_task_ahead_stays_ahead() {
    let arrives = |own: u64, from: u64, clock: u64| call!(tag_arrives(own => u64, from => u64, clock => u64) -> u64);
    assert_eq!(arrives(BEGINS, BEGINS + 9 * MS, BEGINS + 20 * MS), BEGINS + 20 * MS);
    assert_eq!(arrives(BEGINS + 3 * MS, BEGINS, BEGINS + 20 * MS), BEGINS + 23 * MS);
    assert_eq!(arrives(0, BEGINS, BEGINS), BEGINS, "new");
}

#[test]
fn by_virtual_time_a_wakeup_from_another_context_has_to_be_ahead_by_more() {
    let preempts = |ahead: u64, here: bool| call!(tag_preempts(BEGINS => u64, BEGINS + ahead * MS => u64, here => bool, slack(3) => u64, SLICE => u64) -> bool);
    assert!(!preempts(1, true) && preempts(2, true), "1 ms, a hundredth of the slice");
    assert!(!preempts(4, false) && preempts(5, false), "and the slack");
}

/// Tasks that always can run, on one CPU, by virtual time: their tags, by number.
struct Fair {
    slack: u64,
    slots: Vec<u32>,
    tags: Vec<u64>,
    here: u32,
}

impl Fair {
    fn new(slack: u64, slots: &[u32]) -> Self {
        let tags = vec![BEGINS; slots.len()];
        Fair { slack, slots: slots.to_vec(), tags, here: 0 }
    }

    /// The next task, which runs for `ran`.
    fn turn(&mut self, ran: u64) -> usize {
        let mut heads = [0; 8];
        for (task, slot) in self.slots.iter().enumerate() {
            let key = call!(tag_with_slot(self.tags[task] => u64, *slot => u32) -> u64);
            let head = &mut heads[*slot as usize];
            if *head == 0 || key < *head {
                *head = key;
            }
        }
        let key = call!(next_by_vtime(heads.as_ptr() => *const u64, 8 => u32, self.here => u32,
                        self.slack => u64) -> u64);
        self.here = 1 << slot_of(key);
        let same = |task: &usize| {
            self.slots[*task] as usize == slot_of(key) && self.tags[*task] == key / 32 * 32
        };
        let task = (0..self.tags.len()).find(same).expect("a context has it");
        self.tags[task] = tag_ran(self.tags[task], ran, 100);
        task
    }
}

#[test]
fn slack_lets_siblings_run_in_a_row_and_no_slack_does_not() {
    let order = |slack: u64| -> Vec<usize> {
        let mut fair = Fair::new(slack, &[1, 2, 1, 2]);
        (0..8).map(|_| fair.turn(3 * MS)).collect()
    };
    assert_eq!(order(slack(0)), [0, 2, 1, 3, 1, 3, 0, 2], "equals stay together, no more");
    assert_eq!(order(slack(3)), [0, 2, 0, 2, 1, 3, 1, 3]);
}

proptest! {
    /// The service error: no always-runnable task is ahead of another by more than the slack and
    /// one turn, whatever their contexts and however short their turns are.
    #[test]
    fn the_slack_bounds_how_far_a_task_is_ahead(
        slots in prop::collection::vec(1u32..8, 2..30), slack_ms in 0u64..50,
        turns in prop::collection::vec(1u64..4000, 500),
    ) {
        let mut fair = Fair::new(slack(slack_ms), &slots);
        for turn in turns {
            fair.turn(turn * 1000);
            let (least, most) = (fair.tags.iter().min().unwrap(), fair.tags.iter().max().unwrap());
            prop_assert!(most - least <= slack_ms * MS + 4 * MS, "{} ns", most - least);
        }
    }

    /// With the threshold off it is the O(1) scheduler: by priority, then by arrival, however tasks
    /// are spread over slots.
    #[test]
    fn threshold_off_is_the_o1_order(
        tasks in prop::collection::vec((0u32..8, 0u8..40), 1..60),
    ) {
        let order = Queue::new(OFF, 8, &tasks).order();
        let mut expected: Vec<usize> = (0..tasks.len()).collect();
        expected.sort_by_key(|task| tasks[*task].1);
        prop_assert_eq!(order, expected);
    }

    /// Whatever the threshold, no task goes before a task that is better by more than that.
    #[test]
    fn no_task_goes_before_one_better_by_more_than_the_threshold(
        tasks in prop::collection::vec((0u32..8, 0u8..40), 1..60), threshold in 0u64..40,
    ) {
        let order = Queue::new(threshold + 1, 8, &tasks).order();
        for (place, task) in order.iter().enumerate() {
            let later = order[place + 1..].iter().map(|other| u64::from(tasks[*other].1)).min();
            let better = later.is_some_and(|best| best + threshold < u64::from(tasks[*task].1));
            prop_assert!(!better, "{:?}", order);
        }
    }

    /// At a threshold beyond all differences each context runs until none of its tasks waits.
    #[test]
    fn an_infinite_threshold_enters_each_context_once(
        tasks in prop::collection::vec((0u32..8, 0u8..40), 1..60),
    ) {
        let order = Queue::new(41, 8, &tasks).order();
        let mut slots: Vec<u32> = order.iter().map(|task| tasks[*task].0).collect();
        slots.dedup();
        let entered = slots.len();
        slots.sort_unstable();
        slots.dedup();
        prop_assert_eq!(entered, slots.len());
    }

    /// The current context goes first, then one with a tag, each within the threshold. So tags
    /// never end a context that would stay without them, and no task goes before one that is better
    /// by more.
    #[test]
    fn a_context_with_a_tag_goes_before_one_without(
        prios in prop::collection::vec(0u32..40, 8), present in 1u32..256, tagged in 0u32..256,
        here in 0u32..8, threshold in 0u64..40,
    ) {
        let head = |slot: u32| match present >> slot & 1 {
            0 => 0,
            _ => key(1, prios[slot as usize], slot.into(), slot),
        };
        let heads: Vec<u64> = (0..8).map(head).collect();
        let chosen = slot_of(next_of_tagged(&heads, 1 << here, tagged, 1, threshold + 1));
        let best = (0..8).filter(|slot| heads[*slot] != 0).map(|slot| prios[slot]).min().unwrap();
        let within = |slot: usize| heads[slot] != 0 && u64::from(prios[slot] - best) <= threshold;
        prop_assert!(within(chosen));
        if within(here as usize) {
            prop_assert_eq!(chosen, here as usize);
        } else if (0..8).any(|slot| tagged >> slot & 1 == 1 && within(slot)) {
            prop_assert_eq!(tagged >> chosen & 1, 1);
        }
    }

    /// Two contexts in one slot count as one: the order is that of one context, and no task is lost
    /// or duplicated.
    #[test]
    fn a_collision_costs_a_false_same_context_and_no_more(
        tasks in prop::collection::vec((0u32..6, 0u8..40), 1..60), threshold in 0u64..42,
    ) {
        let collided: Vec<(u32, u8)> = tasks.iter().map(|(mm, prio)| (mm % 3, *prio)).collect();
        let mut order = Queue::new(threshold, 3, &collided).order();
        order.sort_unstable();
        prop_assert!(order.into_iter().eq(0..tasks.len()));
    }

    /// CPU hogs of one nice value: until an epoch ends, each has one slice and no more, at any
    /// threshold. So a context that never sleeps delays others by its slices, and no longer.
    #[test]
    fn no_task_has_more_than_a_slice_in_an_epoch(
        tasks in prop::collection::vec((0u32..8, 0u8..40), 2..40), threshold in 0u64..42,
        part in 1u64..150,
    ) {
        let mut queue = Queue::new(threshold, 8, &tasks);
        let slices = tasks.len() as u64;
        let mut had = vec![0; tasks.len()];
        let mut epoch = queue.epoch;
        for _ in 0..2000 {
            let task = queue.take().expect("a task always waits");
            if queue.epoch != epoch {
                prop_assert!(had.iter().all(|had| *had == SLICE), "epoch {}: {:?}", epoch, had);
                had.fill(0);
                epoch = queue.epoch;
            }
            let state = &mut queue.tasks[task].1;
            let ran = (part * MS).min(state.slice_ns as u64);
            state.ran(ran);
            had[task] += ran;
            let over = state.slice_ns <= 0;
            if over {
                state.refill();
            }
            let next = queue.epoch + u32::from(over);
            queue.insert(task, next);
        }
        prop_assert!(epoch > 1 || 2000 * part * MS <= slices * SLICE);
    }
}
