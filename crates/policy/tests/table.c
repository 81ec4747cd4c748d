/* SPDX-License-Identifier: GPL-2.0 */
/* The task table's layout as C sees it, and its functions for table.rs to call. */
#include "task_table.h"

struct field {
	const char *name;
	u64 offset;
	u64 size;
	const char *owner;
};

EXPORT const struct field fields[] = {
#define FIELD(type, name, owner) \
	{ #name, __builtin_offsetof(struct task_slot, name), sizeof(type), #owner },
	TASK_SLOT(FIELD)
#undef FIELD
		{ NULL, 0, 0, NULL },
};

EXPORT const struct field limit_fields[] = {
#define FIELD(type, name, owner) \
	{ #name, __builtin_offsetof(struct limit, name), sizeof(type), #owner },
	LIMIT(FIELD)
#undef FIELD
		{ NULL, 0, 0, NULL },
};

EXPORT const u64 table_layout[] = {
	__builtin_offsetof(struct task_table, epoch),
	__builtin_offsetof(struct task_table, cpus),
	__builtin_offsetof(struct task_table, next_free),
	__builtin_offsetof(struct task_table, slots),
	__builtin_offsetof(struct task_table, limits),
	sizeof(struct task_table),
};

EXPORT void enter(struct task_struct *p)
{
	struct scx_init_task_args args = {};

	task_table_enter(p, &args);
}

EXPORT void leave(struct task_struct *p)
{
	task_table_leave(p);
}

EXPORT u64 share(struct task_struct *p)
{
	struct task_slot *slot = task_slot(p);

	return slot ? task_share(slot) : ~0ULL;
}

EXPORT u32 slot_of(struct task_struct *p)
{
	struct task_slot *slot = task_slot(p);

	return slot ? slot - task_table.slots : NO_SLOT;
}

/* A small version of the simulator's storage: a slot a pid. */
static struct task_slot_of storage[MAX_TASKS * 2];

static void *storage_get(struct kernel *k, void *map, u32 size, struct task_struct *p, u64 flags)
{
	return &storage[p->pid];
}

static struct kernel test_kernel = { .task_storage_get = storage_get };

EXPORT void start(void)
{
	kernel = &test_kernel;
	__builtin_memset(&task_table, 0, sizeof(task_table));
	__builtin_memset(storage, 0, sizeof(storage));
}
