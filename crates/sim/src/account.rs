// SPDX-License-Identifier: GPL-2.0-only
//! Accounting of kernel time: calls and time of each function, and time at locks.

use std::collections::BTreeMap;

use machine::{Machine, PathId, Paths};
use trace::FunctionCost;

/// Time of a call with 1, 2, 3, 4 busy threads on the core.
fn call_ns(instructions: f64, fixed_ns: f64, machine: &Machine) -> [u64; 4] {
    std::array::from_fn(|busy| {
        let ns = instructions * machine.costs.instruction_ns() / machine.costs.smt_rate(busy + 1);
        (ns + fixed_ns).round() as u64
    })
}

/// A kernel function that is accounted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Func(pub(crate) u16);

impl Func {
    /// Runs while no other function does.
    const NOBODY: Func = Func(0);

    #[inline]
    fn place(self) -> usize {
        usize::from(self.0) % FUNCTIONS
    }
}

impl From<PathId> for Func {
    fn from(path: PathId) -> Self {
        Func(path.0 + 1)
    }
}

/// The caller of a function: on an idle CPU or not, and with how many busy threads on its core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Caller(u8);

impl Caller {
    const ALL: usize = 8;

    /// On a core with `busy` busy threads, from 1 to 4, on a CPU that runs the idle task or not.
    pub fn new(busy: usize, idle: bool) -> Self {
        Caller((busy - 1) as u8 + if idle { 4 } else { 0 })
    }
}

struct Function {
    name: String,
    scheduler: bool,
}

/// Functions that may run within each other.
const DEPTH: usize = 64;
/// Limit on functions: a power of two, so that no place needs a bounds check.
const FUNCTIONS: usize = 256;

/// Calls of a function by some caller.
#[derive(Clone, Copy, Default)]
struct Calls {
    /// Time of each call.
    own_ns: u64,
    /// Calls that entered it, and calls of it as a leaf.
    entered: u64,
    called: u64,
}

/// Calls and time by function: time counts for the innermost function that is running.
pub(crate) struct Account {
    functions: Vec<Function>,
    calls: Box<[[Calls; Caller::ALL]; FUNCTIONS]>,
    /// Time in each function, without its calls as a leaf.
    spent_ns: Box<[u64; FUNCTIONS]>,
    /// The function that is running, and those that it was called from.
    running: Func,
    stack: [Func; DEPTH],
    depth: usize,
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
            calls: Box::new([[Calls::default(); Caller::ALL]; FUNCTIONS]),
            spent_ns: Box::new([0; FUNCTIONS]),
            running: Func::NOBODY,
            stack: [Func::NOBODY; DEPTH],
            depth: 0,
            mark_ns: 0,
            places: Vec::new(),
        };
        account.add("nobody", false, 0.0, 0.0, machine);
        for path in paths.iter() {
            let scale = if path.old { machine.costs.paths_2_6_38 } else { 1.0 };
            let given = machine.paths.get(&path.name).unwrap_or(&path.instructions);
            let id = account.add(&path.name, path.scheduler, scale * given, 0.0, machine);
            if let Some(instructions) = machine.from_idle.get(&path.name) {
                let idle_ns = call_ns(*instructions, 0.0, machine);
                let idle = &mut account.calls[id.place()][4..];
                idle.iter_mut().zip(idle_ns).for_each(|(calls, ns)| calls.own_ns = ns);
            }
        }
        account
    }

    /// A function that `paths.toml` does not know by this name: `instructions`, and `fixed_ns`.
    pub fn add(
        &mut self,
        name: &str,
        scheduler: bool,
        instructions: f64,
        fixed_ns: f64,
        machine: &Machine,
    ) -> Func {
        assert!(self.functions.len() < FUNCTIONS, "{name} is a function too many");
        let func = Func(self.functions.len() as u16);
        self.functions.push(Function { name: name.to_string(), scheduler });
        let call_ns = call_ns(instructions, fixed_ns, machine);
        let calls = |caller| Calls { own_ns: call_ns[caller % 4], ..Calls::default() };
        self.calls[func.place()] = std::array::from_fn(calls);
        func
    }

    /// A stretch of kernel code begins.
    pub fn begin(&mut self, now_ns: u64) {
        // Not empty only if the run has failed within a function.
        self.depth = 0;
        self.running = Func::NOBODY;
        self.mark_ns = now_ns;
    }

    /// Forgets all calls and times up to now. Counts of locks go on: counts of a guest's kernel begin at the launch,
    /// too.
    pub fn restart(&mut self, now_ns: u64) {
        self.mark_ns = now_ns;
        self.spent_ns.fill(0);
        for calls in self.calls.as_flattened_mut() {
            (calls.entered, calls.called) = (0, 0);
        }
        for place in &mut self.places {
            (place.waited_ns, place.spent_ns) = (0, 0);
        }
    }

    /// Enters a function; returns the time at which its own instructions are done.
    #[inline]
    pub fn enter(&mut self, func: Func, now_ns: u64, caller: Caller) -> u64 {
        self.flush(now_ns);
        self.stack[self.depth % DEPTH] = std::mem::replace(&mut self.running, func);
        self.depth += 1;
        let calls = self.calls_of(func, caller);
        calls.entered += 1;
        now_ns + calls.own_ns
    }

    #[inline]
    fn calls_of(&mut self, func: Func, caller: Caller) -> &mut Calls {
        &mut self.calls[func.place()][caller.0 as usize % Caller::ALL]
    }

    #[inline]
    pub fn leave(&mut self, now_ns: u64) {
        self.flush(now_ns);
        debug_assert!(
            (1..=DEPTH).contains(&self.depth),
            "{} functions within each other",
            self.depth
        );
        self.depth = self.depth.wrapping_sub(1);
        self.running = self.stack[self.depth % DEPTH];
    }

    /// Calls a leaf function; returns the time at which it is done.
    #[inline]
    pub fn call(&mut self, func: Func, now_ns: u64, caller: Caller) -> u64 {
        let calls = self.calls_of(func, caller);
        calls.called += 1;
        let ns = calls.own_ns;
        // None of it counts for the running function.
        self.mark_ns += ns;
        now_ns + ns
    }

    #[inline]
    fn flush(&mut self, now_ns: u64) {
        let spent_ns = &mut self.spent_ns[self.running.place()];
        // Time of [`Func::NOBODY`] is never reported, and may go back to 0 during setup.
        *spent_ns = spent_ns.wrapping_add(now_ns.wrapping_sub(self.mark_ns));
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

    #[inline]
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
        let seen = |place: usize| {
            let calls = &self.calls[place];
            FunctionCost {
                count: calls.iter().map(|calls| calls.entered + calls.called).sum(),
                ns: self.spent_ns[place]
                    + calls.iter().map(|calls| calls.called * calls.own_ns).sum::<u64>(),
            }
        };
        let all =
            self.functions.iter().enumerate().map(|(place, function)| (function, seen(place)));
        let ran = all.filter(|(function, seen)| function.scheduler && seen.count > 0);
        ran.map(|(function, seen)| (function.name.clone(), seen)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_before_a_restart_is_forgotten_but_locks_that_were_taken() {
        let machine = machine::find("numa-2x4").unwrap();
        let mut account = Account::new(&machine, &Paths::embedded());
        let function = account.add("function", true, 0.0, 10.0, &machine);
        let place = account.place("place");
        let caller = Caller::new(1, false);
        account.begin(100);
        for at_ns in [100, 200] {
            account.lock_taken(place, 3, 5);
            account.enter(function, at_ns, caller);
            account.restart(at_ns + 50);
            account.leave(at_ns + 60);
        }
        account.enter(function, 300, caller);
        account.leave(307);
        assert_eq!(account.functions()["function"], FunctionCost { count: 1, ns: 10 + 7 });
        assert_eq!(account.spinning(), (0, 0));
        assert_eq!(account.locks(&[])["place"], 2);
    }

    #[test]
    fn time_counts_for_the_innermost_function() {
        let machine = machine::find("numa-2x4").unwrap();
        let mut account = Account::new(&machine, &Paths::embedded());
        let outer = account.add("outer", true, 0.0, 10.0, &machine);
        let inner = account.add("inner", true, 0.0, 5.0, &machine);
        let caller = Caller::new(1, false);
        account.begin(100);
        let now = account.enter(outer, 100, caller);
        let now = account.enter(inner, now, caller) + 20;
        account.leave(now);
        let now = account.call(inner, now, caller) + 7;
        account.leave(now);
        let seen = account.functions();
        assert_eq!(seen["inner"], FunctionCost { count: 2, ns: 30 });
        assert_eq!(seen["outer"], FunctionCost { count: 1, ns: 17 });
        assert_eq!(now, 100 + 30 + 17);
    }
}
