/* SPDX-License-Identifier: GPL-2.0 */
/*
 * CAS: the context-aware scheduler. Threads of one address space run after each other, so that the TLB
 * and the caches stay warm, on Linux 2.6's O(1) scheduler, whose order is changed only inside an epoch.
 *
 * Every CPU has a few queues ("slots"), one for each address space while there are no more of these,
 * ordered by epoch, priority and arrival (or, with a slack, by virtual time). Beside each queue stands
 * a word with the key of its first task (the hint), so the next task is chosen by comparing words. All of a CPU's state is written under its runqueue's
 * lock, which every callback here holds: a task is only ever queued on the CPU whose runqueue it is on.
 * Two things happen behind its back. Another CPU takes a task, or the kernel does, because a property
 * of it changes: then the hint promises too much, which is marked in `stale` and looked up later. A
 * hint never promises too little, for only its own CPU raises it: no task is forgotten. The least hint of
 * all other contexts is kept as well, until one of those hints or the current context changes; so while
 * a context stays, a choice costs the same however many others wait.
 *
 * It suits many threads of a few programs that block often. It does not suit programs of one thread,
 * machines whose TLB has tags for all that run, nor anyone who counts on latency within an epoch.
 *
 * Yamada, Kusakabe: Effect of Context Aware Scheduler on TLB.
 */
#include "kernel.h"
#include "topology.h"
#include "order_o1.h"
#include "order_context.h"
#include "context_slots.h"
#include "place_idle.h"
#include "place_home.h"
#include "share.h"

LICENSE;

CONFIG u64 knob_slice_ns = 100000000;	/* DEF_TIMESLICE */
#ifdef O1
CONFIG u64 knob_threshold = THRESHOLD_OFF;
CONFIG u64 knob_slots = 1;
#else
CONFIG u64 knob_threshold = 11;		/* one more than the threshold; THRESHOLD_OFF */
CONFIG u64 knob_slots = 16;		/* queues a CPU */
#endif
CONFIG u64 knob_slack;			/* virtual time: one more than the slack; SLACK_OFF */
CONFIG u64 knob_aggregate;		/* CPUs of a context's home; 0: it has none */
CONFIG u64 knob_smt;			/* siblings of a core run the same context */
CONFIG u64 knob_tags;			/* contexts whose TLB entries a CPU keeps; 0: one */
CONFIG u64 knob_look;			/* enum look */

enum look {
	PEEK,		/* read a queue's head without a lock, where the kernel can be trusted to */
	ITERATE,	/* under its lock */
};

#define NEAR 8	/* CPUs that a wakeup looks at: each may be a line of another's cache */

/* Where a task is. */
enum phase {
	OUT,		/* new or asleep */
	QUEUED,		/* waits in the present epoch */
	EXPIRED,	/* waits for the next one */
	RUNNING,
	STOPPED,	/* was running, and is about to be queued again */
	DECIDED,	/* the same, and its key is made */
};

/* All that is kept of a task: 40 bytes. */
struct cas_task {
	u64 stamp_ns;	/* when it last started, stopped or woke; 0: never */
	u64 key;
	struct o1_task o1;
};

struct cas_cpu {
	u64 hint[SLOTS_MAX];	/* no more than the key of each slot's first task; 0: none */
	u64 elsewhere;		/* the least hint of slots that are not of the current context, or 0 */
	struct o1_expired expired;
	u64 turn_end_ns;	/* of who runs */
	u64 vtime;		/* by virtual time: the least tag of all that could run */
	u64 running_key;	/* by virtual time: of who runs, when it started */
	u64 since_ns;		/* when that was */
	struct context_tags tags;
	volatile u64 mm;	/* an address on its way to be a number */
	u64 entered_mm;		/* whose the current context is */
	volatile u64 woken_mm;	/* the same, of whom this CPU wakes: written without the lock */
	u64 turn_ns;		/* how long who runs here does so, about */
	u32 epoch;
	u32 sequence;
	u32 here;		/* which slots are of the current context */
	u32 tagged;		/* whose TLB entries this CPU keeps */
	u32 weight;		/* of who runs */
	u32 stale;		/* which hints may be too low; others set bits too */
	u8 slot;		/* the current context's */
	u8 looked;		/* which slot's hint to look up, besides: one more than it, or 0 */
	u8 elsewhere_known;	/* neither `here` nor a hint elsewhere changed since */
	u8 running;		/* somebody runs, or is about to */
	u8 prio;		/* of who runs */
	u8 preempting;		/* who runs did not end its turn itself */
	u8 takes_home;		/* who starts next has its home here */
} __attribute__((aligned(64)));

CPU_TABLE(struct cas_cpu, cpus)

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct cas_task);
} tasks SEC(".maps");

static __always_inline struct cas_task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, 0, 0);
}

static __always_inline u32 nice_of(const struct task_struct *p)
{
	u32 nice = p->static_prio - 100;

	return nice < O1_PRIOS ? nice : O1_NICE_0;
}

static volatile struct context_owner contexts[SLOTS_MAX];

/* For an address that is not where its hash says, or was not seen for a while. */
u32 find_slot(u64 mm, u64 now)
{
	return context_find_slot(contexts, mm, knob_slots, now, knob_slice_ns);
}

static __always_inline u32 slot_at(u64 mm, u64 now)
{
	u32 slot = context_slot(mm, knob_slots) & (SLOTS_MAX - 1);

	if (slot == SLOT_KERNEL || context_owns(&contexts[slot], mm, now, knob_slice_ns))
		return slot;
	return find_slot(mm, now) & (SLOTS_MAX - 1);
}

/*
 * The slot of its address space, read each time: exec changes p->mm and tells nobody. The verifier
 * lets nobody calculate with a pointer, but with what was read from memory.
 */
static __always_inline u32 slot_of(struct cas_cpu *c, const struct task_struct *p, u64 now)
{
	if (knob_slots == 1)
		return SLOT_KERNEL;
	c->mm = (u64)p->mm;
	return slot_at(c->mm, now);
}

static __always_inline u64 dsq_of(s32 cpu, u32 slot)
{
	return (u64)cpu << SLOT_BITS | slot;
}

static __always_inline u64 head_of(s32 cpu, u32 slot)
{
	if (knob_look == PEEK && dsq_can_peek())
		return dsq_peek_vtime(dsq_of(cpu, slot));
	return dsq_first_vtime(dsq_of(cpu, slot));
}

/* All writing of hints is here, so that what was made of them is never older than they are. */
static __always_inline void set_hint(struct cas_cpu *c, u32 slot, u64 key)
{
	c->hint[slot] = key;
	if (knob_slots > 1 && !(c->here >> slot & 1))
		c->elsewhere_known = false;
}

/* What to ask of the kernel for a turn. */
static __always_inline u64 slice_of(const struct cas_task *t)
{
	u64 turn = knob_slack ? VTIME_TURN(knob_slice_ns) : o1_turn(&t->o1, nr_cpus, knob_slice_ns);

	return slice_by_tick(turn, tick_ns);
}

/* The virtual clock of the CPU that a task's key belongs to. */
static __always_inline u64 clock_of(const struct cas_task *t)
{
	struct cas_cpu *c = cpus_of(t->o1.cpu);

	return c ? c->vtime : VTIME_BEGINS;
}

/* A task is queued by this slot from here on: its key is made next. */
static __always_inline void join(struct cas_task *t, u32 slot)
{
	if (knob_slots > 1)
		context_moves(contexts, key_slot(t->key), slot);
}

static __always_inline void make_key(struct cas_cpu *c, struct cas_task *t, u32 epoch, u32 slot)
{
	t->key = key_of(epoch, t->o1.prio, c->sequence++, slot);
}

/* Looks up the hints that may be too low. */
int refresh(s32 cpu)
{
	struct cas_cpu *c = cpus_of(cpu);
	u32 stale, slot;

	if (!c)
		return 0;
	stale = __sync_fetch_and_and(&c->stale, 0);
	for (slot = 0; slot < SLOTS_MAX && slot < knob_slots; slot++)
		if (stale >> slot & 1)
			set_hint(c, slot, head_of(cpu, slot));
	return 0;
}

/*
 * Which slots count as current. Where the siblings of a core are to come together, those of the busy one
 * with the lowest number.
 */
static __always_inline u32 current_slots(s32 cpu, const struct cas_cpu *c)
{
	s32 sibling = cpu, first = cpu;
	u32 here = c->here, i;

	for (i = 0; knob_smt && i < SIBLINGS_MAX; i++) {
		const struct cas_cpu *of;

		sibling = cpu_next_sibling(sibling);
		of = cpus_of(sibling);
		if (of && of->running && sibling < first) {
			first = sibling;
			here = of->here;
		}
	}
	return here;
}

/* Of two keys, or 0 for none, the one that goes first. */
static __always_inline u64 lesser(const struct cas_cpu *c, u64 a, u64 b)
{
	if (!a || !b)
		return a ? a : b;
	return key_rank(b, c->epoch) < key_rank(a, c->epoch) ? b : a;
}

/* The least hint of these slots, or 0. */
static __always_inline u64 least_hint(const struct cas_cpu *c, u32 slots)
{
	u64 least = 0;
	u32 slot;

	for (slot = 0; slot < SLOTS_MAX && slot < knob_slots; slot++)
		if (slots >> slot & 1)
			least = lesser(c, least, c->hint[slot]);
	return least;
}

/* The same of the current context's. */
static __always_inline u64 own_hint(const struct cas_cpu *c, u32 here)
{
	if (here != c->here)
		return least_hint(c, here);
	return lesser(c, c->hint[SLOT_KERNEL], c->hint[c->slot & (SLOTS_MAX - 1)]);
}

/* The same of all others': kept, where `here` is the CPU's own context. */
static __always_inline u64 hint_elsewhere(struct cas_cpu *c, u32 here)
{
	if (here != c->here)
		return least_hint(c, ~here);
	if (!c->elsewhere_known) {
		c->elsewhere = least_hint(c, ~here);
		c->elsewhere_known = true;
	}
	return c->elsewhere;
}

/*
 * The key of who is next on a CPU, where `prev`, if it is not 0, may go on as one of its context. While
 * the context stays and nothing changes elsewhere, only its own slots are looked at.
 */
u64 choose(s32 cpu, u64 prev)
{
	struct context_search search = CONTEXT_SEARCH;
	struct cas_cpu *c = cpus_of(cpu);
	u32 here;
	u64 own, elsewhere;

	if (!c)
		return 0;
	here = current_slots(cpu, c);
	if (knob_slots == 1) {
		own = c->hint[0];
		elsewhere = 0;
	} else {
		own = own_hint(c, here);
		elsewhere = hint_elsewhere(c, here);
	}
	if (prev)
		context_consider(&search, key_rank(prev, c->epoch),
				 !knob_smt || here >> key_slot(prev) & 1);
	if (own)
		context_consider(&search, key_rank(own, c->epoch), true);
	if (elsewhere)
		context_consider(&search, key_rank(elsewhere, c->epoch), false);
	if (knob_tags)
		context_consider_tagged(&search, least_hint(c, c->tagged), c->epoch);
	if (!knob_slack)
		return context_chooses(&search, c->epoch, knob_threshold);
	if (search.reg != RANK_NONE && search.reg > c->vtime)
		c->vtime = search.reg & VTIME_MASK;
	return context_chooses_by_vtime(&search, knob_slack);
}

/* In how many of its slots somebody waits. */
static __always_inline u32 slots_waiting(const struct cas_cpu *c)
{
	u32 slot, count = 0;

	for (slot = 0; slot < SLOTS_MAX && slot < knob_slots; slot++)
		count += !!c->hint[slot];
	return count;
}

/* Which of these slots of another CPU has most waiting: a context that is entered may as well stay. */
u32 fullest(s32 victim, u32 slots)
{
	struct cas_cpu *theirs = cpus_of(victim);
	u32 slot, best = SLOT_KERNEL;
	s32 most = 0;

	if (!theirs)
		return best;
	for (slot = 0; slot < SLOTS_MAX && slot < knob_slots; slot++) {
		s32 queued;

		if (!(slots >> slot & 1) || !theirs->hint[slot])
			continue;
		queued = scx_bpf_dsq_nr_queued(dsq_of(victim, slot));
		if (queued > most) {
			most = queued;
			best = slot;
		}
	}
	return best;
}

/* Takes the first task of a queue that may run here. */
static __always_inline bool take_first(struct cas_cpu *own, struct cas_cpu *theirs, s32 victim,
				       u32 slot)
{
	if (!theirs->hint[slot] || !dsq_move_to_local(dsq_of(victim, slot)))
		return false;
	__sync_fetch_and_or(&theirs->stale, 1u << slot);
	own->takes_home = knob_aggregate && slots_waiting(theirs) > 1;
	return true;
}

/* Takes a task of this class that waits on `victim`, if there is one that may run here. */
int take(s32 cpu, s32 victim, u32 class)
{
	struct cas_cpu *own = cpus_of(cpu), *theirs = cpus_of(victim);
	u32 slots, first, slot;

	if (!own || !theirs)
		return 0;
	slots = share_slots(class, own->here, theirs->here);
	first = class == SHARE_OWN ? own->slot : fullest(victim, slots);
	first &= SLOTS_MAX - 1;
	if (take_first(own, theirs, victim, first))
		return 1;
	for (slot = 0; slot < SLOTS_MAX && slot < knob_slots; slot++)
		if (slots >> slot & 1 && slot != first && take_first(own, theirs, victim, slot))
			return 1;
	return 0;
}

/* How many wait on this CPU. */
static __always_inline u32 waiting(s32 cpu, const struct cas_cpu *c)
{
	u32 slot, count = 0;

	for (slot = 0; slot < SLOTS_MAX && slot < knob_slots; slot++)
		if (c->hint[slot])
			count += scx_bpf_dsq_nr_queued(dsq_of(cpu, slot));
	return count;
}

/* Its slice is over: it goes on in this epoch or waits for the next. Returns which. */
static __always_inline u32 expire(s32 cpu, struct cas_cpu *c, struct cas_task *t, u64 now)
{
	o1_refill(&t->o1, knob_slice_ns);
	if (o1_interactive(t->o1.prio, t->o1.nice) &&
	    (!c->expired.since_ns ||
	     !o1_starving(&c->expired, t->o1.nice, now, waiting(cpu, c) + 1, knob_slice_ns)))
		return c->epoch;
	if (!c->expired.since_ns) {
		c->expired.since_ns = now;
		c->expired.best_nice = t->o1.nice;
	} else if (t->o1.nice < c->expired.best_nice) {
		c->expired.best_nice = t->o1.nice;
	}
	return c->epoch + 1;
}

/* Whether a key is of a later epoch than a CPU's present one; by virtual time there are none. */
static __always_inline bool is_later(const struct cas_cpu *c, u64 key)
{
	return !knob_slack && epoch_later(key_epoch(key), c->epoch);
}

/* The present epoch ends: the arrays change places. */
static __always_inline void begin_epoch(struct cas_cpu *c, u32 epoch)
{
	c->epoch = epoch;
	c->expired.since_ns = 0;
}

static __always_inline void charge(struct cas_cpu *c, struct cas_task *t,
				   const struct task_struct *p, u64 now)
{
	u64 ran = now - t->stamp_ns;

	c->turn_ns = home_turn(c->turn_ns, ran);
	if (knob_slack)
		t->key = vtime_ran(t->key, ran, p->scx.weight);
	else
		o1_ran(&t->o1, ran, knob_slice_ns);
	t->stamp_ns = now;
}

/* Where a task that ran, and could go on, belongs now. */
static __always_inline void decide(s32 cpu, struct cas_cpu *c, struct cas_task *t, u32 slot, u64 now)
{
	if (knob_slack)
		t->key = vtime_key(t->key, slot);
	else if (t->o1.slice_ns <= 0)
		make_key(c, t, expire(cpu, c, t, now), slot);
	else if (c->preempting)			/* as if it had never left the head of its list */
		t->key = key_of(c->epoch, t->o1.prio, t->key >> SLOT_BITS, slot);
	else if (now + tick_ns < c->turn_end_ns)	/* gave way itself [sys_sched_yield] */
		make_key(c, t, c->epoch + 1, slot);
	else					/* a part of its slice is over */
		make_key(c, t, c->epoch, slot);
	t->o1.phase = DECIDED;
}

/* Where a task that became runnable belongs. */
static __always_inline void arrive(s32 cpu, struct cas_cpu *c, struct cas_task *t, struct task_struct *p,
				   u32 slot, u64 now)
{
	u64 slept = t->stamp_ns && now > t->stamp_ns ? now - t->stamp_ns : 0;

	if (knob_slack) {
		t->key = vtime_key(vtime_arrives(t->key, clock_of(t), c->vtime), slot);
		t->o1.cpu = cpu;
		return;
	}
	o1_wakes(&t->o1, slept, p->mm, knob_slice_ns);
	if (t->o1.slice_ns <= 0)
		o1_refill(&t->o1, knob_slice_ns);
	t->stamp_ns = now;
	make_key(c, t, c->epoch, slot);
}

/* A task that waits is queued anew: its nice value changed, or where it may run. */
static __always_inline void queue_again(s32 cpu, struct cas_cpu *c, struct cas_task *t, u32 slot)
{
	u32 epoch = c->epoch;

	if (knob_slack) {
		t->key = vtime_key(vtime_moves(t->key, clock_of(t), c->vtime), slot);
		t->o1.cpu = cpu;
		return;
	}
	if (key_epoch(t->key) == ((c->epoch + 1) & EPOCH_MASK) && t->o1.phase == EXPIRED)
		epoch++;
	t->o1.prio = o1_prio(t->o1.nice, t->o1.sleep_avg_ns, knob_slice_ns);
	make_key(c, t, epoch, slot);
}

static __always_inline void queue(struct task_struct *p, s32 cpu, struct cas_cpu *c,
				  struct cas_task *t, u64 enq_flags)
{
	u32 slot = key_slot(t->key);
	u64 hint = c->hint[slot];

	if (!hint || key_rank(t->key, c->epoch) < key_rank(hint, c->epoch))
		set_hint(c, slot, t->key);
	t->o1.phase = is_later(c, t->key) ? EXPIRED : QUEUED;
	dsq_insert_vtime(p, dsq_of(cpu, slot), slice_of(t), t->key, enq_flags);
}

/* Whether all of a CPU's core is idle. */
static __always_inline bool core_idle(s32 cpu)
{
	s32 sibling = cpu;
	u32 i;

	for (i = 0; i < SIBLINGS_MAX; i++) {
		const struct cas_cpu *c = cpus_of(sibling);

		if (!c || c->running)
			return false;
		sibling = cpu_next_sibling(sibling);
		if (sibling == cpu)
			break;
	}
	return true;
}

/*
 * Claims an idle CPU that ran p's context last, if one is near; with the core to itself, for a warm TLB
 * does not make up for half of a core.
 */
static __always_inline s32 claim_in_context(struct task_struct *p, s32 prev_cpu, u32 slot)
{
	u32 i;

	for (i = 0; i < nr_cpus && i < NEAR; i++) {
		s32 cpu = cpu_neighbour(prev_cpu, i);
		struct cas_cpu *c = cpus_of(cpu);

		if (c && !c->running && (c->here | c->tagged) >> slot & 1 && core_idle(cpu) &&
		    cpu_allowed(p, cpu) && scx_bpf_test_and_clear_cpu_idle(cpu))
			return cpu;
	}
	return -1;
}

/* How many of a context are on a CPU: those that wait, and it that runs or ran last. */
static __always_inline u32 of_context(s32 cpu, const struct cas_cpu *c, u32 slot)
{
	u32 waiting = c->hint[slot & (SLOTS_MAX - 1)] ? scx_bpf_dsq_nr_queued(dsq_of(cpu, slot)) : 0;

	return waiting + (c->here >> slot & 1);
}

/*
 * Where the fewest wait, for a child where no CPU is idle [sched_balance_self]; of those, where siblings of a
 * core are to come together, the core with most of its context; of those, near first.
 */
static __always_inline s32 place_child(struct task_struct *p, s32 prev_cpu, u32 slot)
{
	u32 least = ~0U, most = 0, i;
	s32 best = prev_cpu;

	for (i = 0; i < nr_cpus && i < MAX_CPUS; i++) {
		s32 cpu = cpu_neighbour(prev_cpu, i), beside;
		struct cas_cpu *c = cpus_of(cpu), *sibling;
		u32 count, same;

		if (!c || !cpu_allowed(p, cpu))
			continue;
		count = c->running + waiting(cpu, c);
		if (count > least)
			continue;
		beside = cpu_next_sibling(cpu);
		sibling = knob_smt ? cpus_of(beside) : NULL;
		same = sibling ? of_context(cpu, c, slot) + of_context(beside, sibling, slot) : 0;
		if (count < least || same > most) {
			least = count;
			most = same;
			best = cpu;
		}
	}
	return best;
}

/* The first CPU of a home where p should not wait for long, or a negative number. */
static __always_inline s32 place_at_home(struct task_struct *p, u32 home)
{
	u32 i;

	for (i = 0; i < HOME_CPUS_MAX && i < knob_aggregate; i++) {
		s32 cpu = home_cpu(home, i);
		struct cas_cpu *c = cpus_of(cpu);

		if (!c || !cpu_allowed(p, cpu))
			continue;
		if ((core_idle(cpu) && scx_bpf_test_and_clear_cpu_idle(cpu)) ||
		    home_wait(slots_waiting(c) + 1, c->turn_ns) < HOME_WAIT_NS)
			return cpu;
	}
	return -1;
}

/* Whether a task that became runnable takes the CPU from who runs. */
static __always_inline bool preempts(const struct cas_cpu *c, const struct cas_task *t, u32 slot,
				     u64 now)
{
	bool here = (c->here | c->tagged) >> slot & 1;
	u64 running;

	if (!c->running)
		return false;
	if (!knob_slack)
		return context_preempts(t->o1.prio, c->prio, here, knob_threshold);
	running = vtime_ran(c->running_key, now - c->since_ns, c->weight);
	return vtime_preempts(t->key, running, here, knob_slack, knob_slice_ns);
}

s32 OP(cas_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct cas_cpu *c = cpus_of(this_cpu()), *prev = cpus_of(prev_cpu);
	u32 home = 0, slot = SLOT_KERNEL;
	s32 cpu = -1;

	if (c && nr_cpus > 1 && knob_threshold != THRESHOLD_OFF) {
		c->woken_mm = (u64)p->mm;
		if (knob_aggregate) {
			home = home_of(c->woken_mm);
			cpu = place_at_home(p, home);
			if (cpu >= 0)
				return cpu;
		}
		slot = slot_at(c->woken_mm, now_ns());
		cpu = claim_in_context(p, prev_cpu, slot);
	}
	if (cpu < 0)
		cpu = place_idle_near(p, prev_cpu, wake_flags);
	if (cpu >= 0) {
		if (knob_aggregate)
			home_moves(home, cpu);
		return cpu;
	}
	if (wake_flags & SCX_WAKE_FORK)
		return place_child(p, prev_cpu, slot);
	/* All are busy: with a waker of its context, where else it would have to wait for another one. */
	if (slot != SLOT_KERNEL && c && c->here >> slot & 1 && prev && !(prev->here >> slot & 1) &&
	    cpu_allowed(p, this_cpu()))
		return this_cpu();
	return prev_cpu;
}

void OP(cas_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cas_cpu *c = cpus_of(cpu);
	struct cas_task *t = task_of(p);
	u64 now = now_ns();
	bool arrives;
	u32 slot;

	if (!c || !t)
		return dsq_insert(p, SCX_DSQ_LOCAL, knob_slice_ns, enq_flags);
	slot = slot_of(c, p, now);
	arrives = t->o1.phase == OUT;
	t->o1.nice = nice_of(p);
	if (t->o1.phase != DECIDED)
		join(t, slot);
	if (arrives)
		arrive(cpu, c, t, p, slot, now);
	else if (t->o1.phase == STOPPED)
		decide(cpu, c, t, slot, now);
	else if (t->o1.phase != DECIDED)
		queue_again(cpu, c, t, slot);

	if (arrives && preempts(c, t, slot, now)) {
		/* Chosen here and now: it would be first in dispatch as well. */
		c->prio = t->o1.prio;
		c->running_key = t->key;
		c->since_ns = now;
		c->preempting = true;
		t->o1.phase = QUEUED;
		return dsq_insert(p, SCX_DSQ_LOCAL, slice_of(t), enq_flags | SCX_ENQ_PREEMPT);
	}
	queue(p, cpu, c, t, enq_flags);
	if (!arrives)
		place_kick_idle(p);
}

/* Who ran goes on, because nobody who waits goes before it. */
static __always_inline void go_on(struct task_struct *prev, struct cas_cpu *c, struct cas_task *t,
				  u64 now)
{
	u64 slice = slice_of(t);

	t->o1.phase = RUNNING;
	c->prio = t->o1.prio;
	c->preempting = false;
	c->running_key = t->key;
	c->since_ns = now;
	c->turn_end_ns = now + slice;
	task_set_slice(prev, slice);
}

void OP(cas_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cas_task *t = prev ? task_of(prev) : NULL;
	struct cas_cpu *c = cpus_of(cpu);
	u64 now, key, going_on = 0;
	u32 class, slot, i;

	if (!c)
		return;
	now = now_ns();
	if (t && t->o1.phase == RUNNING) {
		charge(c, t, prev, now);
		t->o1.nice = nice_of(prev);
		slot = slot_of(c, prev, now);
		join(t, slot);
		decide(cpu, c, t, slot, now);
		going_on = t->key;
	}
	if (c->looked) {
		i = (c->looked - 1) & (SLOTS_MAX - 1);
		c->looked = 0;
		set_hint(c, i, head_of(cpu, i));
	}
	/* Each time it finds a queue empty there is one less to look at. */
	for (i = 0; i <= SLOTS_MAX && i <= knob_slots; i++) {
		if (c->stale)
			refresh(cpu);
		key = choose(cpu, going_on);
		if (!key)
			break;
		if (is_later(c, key))
			begin_epoch(c, key_epoch(key));
		if (key == going_on)
			return go_on(prev, c, t, now);
		if (dsq_move_to_local(dsq_of(cpu, key_slot(key)))) {
			c->looked = key_slot(key) + 1;
			return;
		}
		set_hint(c, key_slot(key), 0);
	}
	for (class = SHARE_OWN; class < SHARE_CLASSES; class++)
		for (i = 1; i < nr_cpus && i < MAX_CPUS; i++)
			if (take(cpu, cpu_neighbour(cpu, i), class))
				return;
}

void OP(cas_tick, struct task_struct *p)
{
	struct cas_cpu *c = cpus_of(this_cpu());

	/* A CPU that went idle between an insertion and the search for idle CPUs was not kicked. */
	if (c && nr_cpus > 1 && slots_waiting(c))
		place_kick_idle(p);
}

/* The slots of the context that runs from here on: a task without one runs in the last one's. */
static __always_inline void enter_context(struct cas_cpu *c, u64 mm, u32 slot)
{
	u32 here = 1u << SLOT_KERNEL | 1u << slot;

	c->entered_mm = mm;
	c->slot = slot;
	if (knob_tags)
		c->tagged = context_tag(&c->tags, c->tagged, slot, knob_tags);
	if (here != c->here) {
		c->here = here;
		c->elsewhere_known = false;
	}
}

/* By virtual time: it may come from another CPU's queue, with a key by that one's clock. */
static __always_inline void start_vtime(struct cas_cpu *c, struct cas_task *t, struct task_struct *p,
					u32 cpu, u64 now)
{
	if (t->o1.cpu != cpu) {
		t->key = vtime_key(vtime_moves(t->key, clock_of(t), c->vtime), key_slot(t->key));
		t->o1.cpu = cpu;
	}
	c->running_key = t->key;
	c->since_ns = now;
	c->weight = p->scx.weight;
}

void OP(cas_running, struct task_struct *p)
{
	s32 cpu = this_cpu();
	struct cas_cpu *c = cpus_of(cpu);
	struct cas_task *t = task_of(p);
	u64 now = now_ns();

	if (!c || !t)
		return;
	if (knob_slack)
		start_vtime(c, t, p, cpu, now);
	else
		o1_starts(&t->o1, now > t->stamp_ns ? now - t->stamp_ns : 0, p->mm, knob_slice_ns);
	t->stamp_ns = now;
	t->o1.phase = RUNNING;
	c->mm = (u64)p->mm;
	if (c->mm)
		enter_context(c, c->mm, knob_slots == 1 ? SLOT_KERNEL : key_slot(t->key));
	if (c->takes_home) {
		c->takes_home = false;
		home_moves(home_of(c->mm), cpu);
	}
	c->running = true;
	c->preempting = false;
	c->prio = t->o1.prio;
	c->turn_end_ns = now + p->scx.slice;
}

void OP(cas_stopping, struct task_struct *p, bool runnable)
{
	struct cas_cpu *c = cpus_of(this_cpu());
	struct cas_task *t = task_of(p);

	if (!c || !t)
		return;
	c->running = false;
	c->mm = (u64)p->mm;
	if (knob_slots > 1 && c->mm && c->mm != c->entered_mm)	/* exec gave it another */
		enter_context(c, c->mm, slot_at(c->mm, now_ns()));
	if (t->o1.phase == RUNNING)
		charge(c, t, p, now_ns());
	if (!runnable)
		t->o1.phase = OUT;
	else if (t->o1.phase != DECIDED)
		t->o1.phase = STOPPED;
}

/* A task is taken out of its queue to be changed, and queued again. */
static __always_inline void leaves_queue(struct task_struct *p)
{
	struct cas_cpu *c = cpus_of(scx_bpf_task_cpu(p));
	struct cas_task *t = task_of(p);

	if (c && t && (t->o1.phase == QUEUED || t->o1.phase == EXPIRED))
		__sync_fetch_and_or(&c->stale, 1u << key_slot(t->key));
}

void OP(cas_set_weight, struct task_struct *p, u32 weight)
{
	leaves_queue(p);
}

void OP(cas_set_cpumask, struct task_struct *p, const struct cpumask *cpumask)
{
	leaves_queue(p);
}

/* A child begins with half of what is left of its parent's slice [sched_fork]. */
s32 OP_SLEEPABLE(cas_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct cas_task *t = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct task_struct *parent = args->fork ? forking_task() : NULL;
	struct cas_task *of = parent ? task_of(parent) : NULL;

	if (!t)
		return -12;	/* ENOMEM */
	t->o1.nice = nice_of(p);
	t->o1.slice_ns = o1_slice(t->o1.nice, knob_slice_ns);
	if (of) {
		t->o1.sleep_avg_ns = o1_child_sleep_avg(of->o1.sleep_avg_ns, knob_slice_ns);
		if (of->o1.slice_ns > 1 && of->o1.slice_ns / 2 < t->o1.slice_ns)
			t->o1.slice_ns = of->o1.slice_ns / 2;
	}
	return 0;
}

#ifndef O1
void OP(cas_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct cas_task *t = task_of(p);

	if (t)
		join(t, SLOT_KERNEL);
}
#endif

static __always_inline void begin(s32 cpu)
{
	struct cas_cpu *c = cpus_of(cpu);

	if (!c)
		return;
	c->vtime = VTIME_BEGINS;
	c->turn_ns = HOME_WAIT_NS;	/* nobody is kept at home before it is known */
}

s32 OP_SLEEPABLE(cas_init)
{
	u32 slots = knob_slots, i;
	s32 error;

	for (i = 0; i < nr_cpus && i < MAX_CPUS; i++)
		begin(i);
	for (i = 0; i < nr_cpus * slots && i < MAX_CPUS * SLOTS_MAX; i++) {
		error = scx_bpf_create_dsq(dsq_of(i / slots, i % slots), cpu_node[i / slots]);
		if (error)
			return error;
	}
	return 0;
}

#ifdef O1
OPS(o1) = {
	.name		= "o1",
#else
OPS(cas) = {
	.name		= "cas",
	.exit_task	= (void *)cas_exit_task,
#endif
	.select_cpu	= (void *)cas_select_cpu,
	.enqueue	= (void *)cas_enqueue,
	.dispatch	= (void *)cas_dispatch,
	.tick		= (void *)cas_tick,
	.running	= (void *)cas_running,
	.stopping	= (void *)cas_stopping,
	.set_weight	= (void *)cas_set_weight,
	.set_cpumask	= (void *)cas_set_cpumask,
	.init_task	= (void *)cas_init_task,
	.init		= (void *)cas_init,
	.flags		= SCX_OPS_ALLOW_QUEUED_WAKEUP,
};
