// SPDX-License-Identifier: GPL-2.0-only
//! Where kernel time goes: calls and time of each function, and time at locks.

use std::collections::BTreeMap;

use machine::{Machine, PathId, Paths};
use trace::FunctionCost;

/// What a call takes with 1, 2, 3, 4 busy threads on the core.
fn call_ns(instructions: f64, fixed_ns: f64, machine: &Machine) -> [u64; 4] {
    std::array::from_fn(|busy| {
        let ns = instructions * machine.costs.instruction_ns() / machine.costs.smt_rate(busy + 1);
        (ns + fixed_ns).round() as u64
    })
}

/// A kernel function that is accounted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Func(pub(crate) u16);

impl From<PathId> for Func {
    fn from(path: PathId) -> Self {
        Func(path.0)
    }
}

struct Function {
    name: String,
    scheduler: bool,
    /// Cost of a call with 1, 2, 3, 4 busy threads on the core.
    call_ns: [u64; 4],
    /// The same on a CPU that runs the idle task.
    idle_ns: [u64; 4],
    seen: FunctionCost,
}

impl Function {
    #[inline]
    fn ns(&self, busy: usize, idle: bool) -> u64 {
        if idle { self.idle_ns[busy - 1] } else { self.call_ns[busy - 1] }
    }
}

/// Calls and time by function: time counts for the innermost function that is running.
pub(crate) struct Account {
    functions: Vec<Function>,
    stack: Vec<Func>,
    mark_ns: u64,
    places: Vec<Place>,
}

/// Locks of one place.
struct Place {
    name: &'static str,
    taken: u64,
    waited_ns: u64,
    spent_ns: u64,
}

impl Account {
    pub fn new(machine: &Machine, paths: &Paths) -> Self {
        let mut account = Account {
            functions: Vec::new(),
            stack: Vec::with_capacity(16),
            mark_ns: 0,
            places: Vec::new(),
        };
        for path in paths.iter() {
            let scale = if path.old { machine.costs.paths_2_6_38 } else { 1.0 };
            let given = machine.paths.get(&path.name).unwrap_or(&path.instructions);
            let id = account.add(&path.name, path.scheduler, scale * given, 0.0, machine);
            if let Some(instructions) = machine.from_idle.get(&path.name) {
                account.functions[id.0 as usize].idle_ns = call_ns(*instructions, 0.0, machine);
            }
        }
        account
    }

    /// A function that `paths.toml` does not know by this name: so many instructions, and `fixed_ns`.
    pub fn add(
        &mut self,
        name: &str,
        scheduler: bool,
        instructions: f64,
        fixed_ns: f64,
        machine: &Machine,
    ) -> Func {
        let call_ns = call_ns(instructions, fixed_ns, machine);
        let (name, seen) = (name.to_string(), FunctionCost::default());
        self.functions.push(Function { name, scheduler, call_ns, idle_ns: call_ns, seen });
        Func(self.functions.len() as u16 - 1)
    }

    /// A stretch of kernel code begins.
    pub fn begin(&mut self, now_ns: u64) {
        // Not empty only where the run has failed within a function.
        self.stack.clear();
        self.mark_ns = now_ns;
    }

    /// Enters a function; returns when its own instructions are done.
    #[inline]
    pub fn enter(&mut self, func: Func, now_ns: u64, busy: usize, idle: bool) -> u64 {
        self.flush(now_ns);
        self.stack.push(func);
        let function = &mut self.functions[func.0 as usize];
        function.seen.count += 1;
        now_ns + function.ns(busy, idle)
    }

    #[inline]
    pub fn leave(&mut self, now_ns: u64) {
        self.flush(now_ns);
        self.stack.pop();
    }

    /// A function that calls nothing; returns when it is done.
    #[inline]
    pub fn call(&mut self, func: Func, now_ns: u64, busy: usize, idle: bool) -> u64 {
        let function = &mut self.functions[func.0 as usize];
        let ns = function.ns(busy, idle);
        function.seen.count += 1;
        function.seen.ns += ns;
        self.flush(now_ns);
        self.mark_ns = now_ns + ns;
        now_ns + ns
    }

    #[inline]
    fn flush(&mut self, now_ns: u64) {
        if let Some(func) = self.stack.last() {
            self.functions[func.0 as usize].seen.ns += now_ns - self.mark_ns;
        }
        self.mark_ns = now_ns;
    }

    /// The place of this name, for locks to be counted under.
    pub fn place(&mut self, name: &'static str) -> usize {
        let known = self.places.iter().position(|place| place.name == name);
        known.unwrap_or_else(|| {
            self.places.push(Place { name, taken: 0, waited_ns: 0, spent_ns: 0 });
            self.places.len() - 1
        })
    }

    pub fn lock_taken(&mut self, place: usize, waited_ns: u64, spent_ns: u64) {
        let place = &mut self.places[place];
        place.taken += 1;
        place.waited_ns += waited_ns;
        place.spent_ns += spent_ns;
    }

    /// Acquisitions by place, those of `but` left out.
    pub fn locks(&self, but: &[&str]) -> BTreeMap<String, u64> {
        let others =
            self.places.iter().filter(|place| place.taken > 0 && !but.contains(&place.name));
        others.map(|place| (place.name.to_string(), place.taken)).collect()
    }

    /// Time spent taking locks, and the part of it spent waiting for a holder, ns.
    pub fn spinning(&self) -> (u64, u64) {
        let sum = |of: fn(&Place) -> u64| self.places.iter().map(of).sum();
        (sum(|place| place.spent_ns), sum(|place| place.waited_ns))
    }

    /// Waiting time by place, ns.
    pub fn waits(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.places.iter().map(|place| (place.name, place.waited_ns))
    }

    /// The scheduler's functions that ran.
    pub fn functions(&self) -> BTreeMap<String, FunctionCost> {
        let ran = self.functions.iter().filter(|f| f.scheduler && f.seen.count > 0);
        ran.map(|f| (f.name.clone(), f.seen)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_for_the_innermost_function() {
        let machine = machine::find("numa-2x4").unwrap();
        let mut account = Account::new(&machine, &Paths::embedded());
        let outer = account.add("outer", true, 0.0, 10.0, &machine);
        let inner = account.add("inner", true, 0.0, 5.0, &machine);
        account.begin(100);
        let now = account.enter(outer, 100, 1, false);
        let now = account.enter(inner, now, 1, false) + 20;
        account.leave(now);
        let now = account.call(inner, now, 1, false) + 7;
        account.leave(now);
        let seen = account.functions();
        assert_eq!(seen["inner"], FunctionCost { count: 2, ns: 30 });
        assert_eq!(seen["outer"], FunctionCost { count: 1, ns: 17 });
        assert_eq!(now, 100 + 30 + 17);
    }
}
