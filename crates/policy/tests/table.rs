// SPDX-License-Identifier: GPL-2.0-only
//! The task table: C and Rust agree on it, a slot belongs to one task at a time, and updates are atomic.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::LazyLock;

use libloading::Library;
use policy::native::{SchedExtEntity, TaskStruct};
use policy::table::{FIELDS, LIMIT_FIELDS, MAX_TASKS, Owner, RawTable, TABLE_LAYOUT, TaskTable};
use proptest::prelude::*;

#[repr(C)]
struct Field {
    name: *const c_char,
    offset: u64,
    size: u64,
    owner: *const c_char,
}

/// A copy of table.c with a table of its own.
struct C(Library);

impl C {
    /// The linker hands out one copy a path, so each test gets a path of its own.
    fn new(test: &str) -> Self {
        static BUILT: LazyLock<PathBuf> = LazyLock::new(|| {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/table.c");
            policy_build::test_library(&source, Path::new(env!("CARGO_TARGET_TMPDIR")))
        });
        let copy = BUILT.with_file_name(format!("table-{test}.so"));
        std::fs::copy(&*BUILT, &copy).unwrap();
        // SAFETY: built from table.c, which has no constructors.
        let c = C(unsafe { Library::new(copy) }.unwrap());
        // SAFETY: it is declared there with these types, as are the functions below.
        unsafe { c.0.get::<extern "C" fn()>(b"start").unwrap()() };
        c
    }

    fn task(pid: i32) -> TaskStruct {
        TaskStruct {
            pid,
            tgid: pid / 10,
            flags: 0,
            nr_cpus_allowed: 1,
            static_prio: 120,
            policy: 0,
            cpus_ptr: std::ptr::null(),
            mm: std::ptr::null_mut(),
            scx: SchedExtEntity { weight: 100, ..SchedExtEntity::default() },
        }
    }

    fn call<R>(&self, name: &str, pid: i32) -> R {
        // SAFETY: table.c exports functions of this type.
        let function =
            unsafe { self.0.get::<extern "C" fn(*mut TaskStruct) -> R>(name.as_bytes()) };
        function.unwrap()(&mut C::task(pid))
    }

    fn table(&self) -> TaskTable {
        // SAFETY: the library exports the table, and lives as long as the test.
        unsafe {
            let raw = *self.0.get::<*mut RawTable>(b"task_table").unwrap();
            TaskTable::new(NonNull::new(raw).unwrap())
        }
    }
}

#[test]
fn c_and_rust_agree_on_layout_and_owners() {
    let c = C::new("layout");
    // SAFETY: the library's names are C strings.
    let text = |pointer| unsafe { CStr::from_ptr(pointer) }.to_str().unwrap().to_string();
    // SAFETY: the library exports as many fields as the list has.
    unsafe {
        let lists = [(&b"fields"[..], &FIELDS[..]), (b"limit_fields", &LIMIT_FIELDS)];
        for (symbol, list) in lists {
            let fields = *c.0.get::<*const Field>(symbol).unwrap();
            for (i, (name, offset, size, owner)) in list.iter().enumerate() {
                let field = &*fields.add(i);
                assert!(!field.name.is_null(), "C has no field {name}");
                let owner = match owner {
                    Owner::Data => "DATA",
                    Owner::Control => "CONTROL",
                };
                let seen = (text(field.name), field.offset, field.size, text(field.owner));
                let wanted = (name.to_string(), *offset as u64, *size as u64, owner.into());
                assert_eq!(seen, wanted);
            }
            assert!((*fields.add(list.len())).name.is_null(), "C has more fields than Rust");
        }
        let layout = *c.0.get::<*const u64>(b"table_layout").unwrap();
        let layout = std::slice::from_raw_parts(layout, TABLE_LAYOUT.len());
        assert_eq!(layout, TABLE_LAYOUT.map(|n| n as u64));
    }
}

#[test]
fn shares_come_into_force_together_and_stay_until_changed() {
    let c = C::new("shares");
    let table = c.table();
    (1..=3).for_each(|pid| c.call("enter", pid));
    let tasks = table.tasks();
    table.publish(0, &[(tasks[0], 10), (tasks[1], 20)]);
    let shares = || [1, 2, 3].map(|pid| c.call::<u64>("share", pid));
    assert_eq!(shares(), [10, 20, 0]);
    table.publish(0, &[(tasks[1], 25)]);
    assert_eq!(shares(), [10, 25, 0], "a task that is not named keeps what it has");
    assert_eq!(table.tasks().iter().map(|task| task.share).collect::<Vec<_>>(), [10, 25, 0]);
}

#[test]
fn a_share_meant_for_a_task_that_ended_does_not_reach_the_next_one_in_its_slot() {
    let c = C::new("stale");
    let table = c.table();
    c.call::<()>("enter", 1);
    let gone = table.tasks()[0];
    c.call::<()>("leave", 1);
    c.call::<()>("enter", 2);
    assert_eq!(table.tasks()[0].slot, gone.slot, "the slot is used again");
    table.publish(0, &[(gone, 99)]);
    assert_eq!(c.call::<u64>("share", 2), 0);
}

#[test]
fn a_full_table_turns_tasks_away_and_takes_them_again_when_there_is_room() {
    let c = C::new("full");
    let room = MAX_TASKS as i32 - 1; // slot 0 is no task's
    (1..=room).for_each(|pid| c.call("enter", pid));
    assert_eq!(c.table().refused(), 0);
    (room + 1..=room + 5).for_each(|pid| c.call("enter", pid));
    assert_eq!((c.table().tasks().len(), c.table().refused()), (MAX_TASKS - 1, 5));
    assert_eq!(c.call::<u32>("slot_of", room + 5), 0);
    c.call::<()>("leave", room + 5);
    c.call::<()>("leave", 77);
    c.call::<()>("enter", room + 6);
    assert_ne!(c.call::<u32>("slot_of", room + 6), 0);
    assert_eq!(c.table().refused(), 5, "there was room for this one");
}

proptest! {
    /// Whichever tasks come and go, the table lists exactly the present ones, each in its own slot.
    #[test]
    fn a_slot_is_one_tasks_at_a_time(steps in prop::collection::vec((1i32..40, any::<bool>()), 1..300)) {
        let c = C::new("swarm");
        let mut here = BTreeMap::new();
        for (pid, come) in steps {
            if come && !here.contains_key(&pid) {
                c.call::<()>("enter", pid);
                here.insert(pid, c.call::<u32>("slot_of", pid));
            } else if !come && here.remove(&pid).is_some() {
                c.call::<()>("leave", pid);
            }
            let listed: BTreeMap<i32, u32> =
                c.table().tasks().iter().map(|task| (task.pid as i32, task.slot)).collect();
            prop_assert_eq!(&listed, &here);
            let mut slots: Vec<_> = here.values().collect();
            slots.sort_unstable();
            slots.dedup();
            prop_assert_eq!(slots.len(), here.len());
        }
    }
}
