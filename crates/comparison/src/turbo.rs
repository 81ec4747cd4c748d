// SPDX-License-Identifier: GPL-2.0-only
//! `run --clocks MACHINE`, and `compare --on here`: this machine's turbo table, which no kernel reports. Also the
//! source of cores' clocks for a policy of licenses, best first: the processor's events, a model, none.

use live::Counters;
use measuring::find_machine;
use policy::{Clocks, Instance};
use terminal::Failure;

/// The clocks of a machine like this one.
pub fn of(machine: &str) -> Result<Clocks, Failure> {
    let machine = find_machine(machine)?;
    match machine.frequency {
        Some(_) => Ok(sim::clocks(&machine)),
        None => Err(Failure::input(format!(
            "--clocks: {} says nothing of clocks; xeon-gold-6130 and xeon-w-2104 do, and a TOML file may",
            machine.name
        ))),
    }
}

/// The clocks in use, in a line.
pub fn described(instance: &Instance, clocks: &Clocks, counters: &Counters) -> String {
    let modelled = instance.choice("source") == Some("model");
    let counted = counters.describe();
    let way = match (clocks.turbo_khz.is_empty(), modelled, counters.any()) {
        (true, _, _) => {
            "the turbo table is not known: nothing is refunded; name a machine that has it with --clocks".into()
        }
        _ if clocks.license_levels == 1 => {
            "no licenses, and no kernel tells what a limit on power took: nothing is refunded".into()
        }
        (false, true, true) => {
            format!("a model, by what programs are told to need, held to cycles: {counted}")
        }
        (false, true, false) => "a model, by what programs are told to need".into(),
        (false, false, true) => counted,
        (false, false, false) if counted.is_empty() => "off: nothing is refunded".into(),
        (false, false, false) => format!(
            "license events: {counted}: nothing is refunded; source=model goes by what programs are told to need"
        ),
    };
    format!("clocks: {way}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_use_is_said() {
        let gold = of("xeon-gold-6130").unwrap();
        assert_eq!((gold.license_levels, gold.turbo_khz.len()), (3, 16));
        assert!(of("phenom-2f4s").unwrap_err().to_string().contains("says nothing of clocks"));
        let said = |knobs: &str, clocks: &Clocks| {
            let instance = Instance::parse(knobs, &[&avx::AVX_FAIR]).unwrap();
            described(&instance, clocks, &Counters::default())
        };
        assert!(said("avx-fair", &Clocks::default()).contains("--clocks"));
        assert!(said("avx-fair", &gold).contains("nothing is refunded"));
        assert!(said("avx-fair:source=model", &gold).contains("a model"));
        let power = of("power-8").unwrap();
        for knobs in ["avx-fair", "avx-fair:source=model", "avx-fair:charge=both"] {
            assert!(said(knobs, &power).contains("nothing is refunded"), "{knobs}");
        }
    }
}
