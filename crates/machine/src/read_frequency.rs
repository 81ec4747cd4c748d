// SPDX-License-Identifier: GPL-2.0-only
//! Reads the clocks of a machine: `[frequency]`. Each cell of its turbo table has its own source.

use serde::Deserialize;
use toml::Spanned;

use crate::frequency::{Frequency, Power, Turbo};
use crate::license::{LEVELS, LicenseLaw};
use crate::machine::MachineError;
use crate::quantity::{Quantity, Tag};
use crate::source::Source;

/// The section as the file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Clocks {
    turbo: Spanned<Vec<Spanned<Cell>>>,
    #[serde(default)]
    license: Option<License>,
    #[serde(default)]
    power: Option<Drawn>,
}

/// The clock of one level with up to `cores` active cores.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cell {
    level: usize,
    cores: usize,
    value: f64,
    unit: String,
    #[allow(dead_code, reason = "a cell without either is refused")]
    source: String,
    #[allow(dead_code, reason = "as above")]
    tag: Tag,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct License {
    release_ns: Spanned<Quantity>,
    throttle_ns: Spanned<Quantity>,
    halt_ns: Spanned<Quantity>,
    throttle_rate: Spanned<Quantity>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Drawn {
    limit_w: Spanned<Quantity>,
    base_w: Spanned<Quantity>,
    core_w: Spanned<Quantity<[f64; LEVELS]>>,
}

pub(crate) fn frequency(
    source: &Source,
    given: &Clocks,
    cores: usize,
) -> Result<Frequency, MachineError> {
    let levels = if given.license.is_some() { LEVELS } else { 1 };
    Ok(Frequency {
        turbo: turbo(source, &given.turbo, levels, cores)?,
        license: given.license.as_ref().map(|given| license(source, given)).transpose()?,
        power: given.power.as_ref().map(|given| power(source, given)).transpose()?,
    })
}

fn turbo(
    source: &Source,
    given: &Spanned<Vec<Spanned<Cell>>>,
    levels: usize,
    cores: usize,
) -> Result<Turbo, MachineError> {
    let mut rows: Vec<(usize, [f64; LEVELS])> = Vec::new();
    let mut bins: Vec<usize> = Vec::new();
    let mut cells: Vec<&Spanned<Cell>> = given.get_ref().iter().collect();
    cells.sort_by_key(|cell| (cell.get_ref().cores, cell.get_ref().level));
    for cell in &cells {
        let Cell { level, cores, value, unit, .. } = cell.get_ref();
        let what = match () {
            () if unit != "GHz" => format!("unit \"{unit}\": expected \"GHz\""),
            () if !(0.1..=20.0).contains(value) => "expected a clock from 0.1 to 20".into(),
            () if *level >= levels => format!("level {level}: expected one below {levels}"),
            () if *cores == 0 => "0 active cores: expected at least 1".into(),
            () => continue,
        };
        return Err(source.error(cell.span(), format!("turbo: {what}")));
    }
    cells.iter().for_each(|cell| bins.push(cell.get_ref().cores));
    bins.dedup();
    for bin in &bins {
        let mut row = [0.0; LEVELS];
        for level in 0..levels {
            let of = |cell: &&&Spanned<Cell>| {
                (cell.get_ref().cores, cell.get_ref().level) == (*bin, level)
            };
            let mut found = cells.iter().filter(of);
            let Some(cell) = found.next() else {
                let what = format!("turbo: no clock of level {level} with {bin} active cores");
                return Err(source.error(given.span(), what));
            };
            if let Some(twice) = found.next() {
                let what = format!("turbo: level {level} with {bin} active cores stands twice");
                return Err(source.error(twice.span(), what));
            }
            row[level] = cell.get_ref().value;
            let slower = |before: f64, than: String| {
                let value = cell.get_ref().value;
                let what = format!("turbo: {value} GHz is above the {before} of {than}");
                source.error(cell.span(), what)
            };
            if level > 0 && row[level] > row[level - 1] {
                return Err(slower(row[level - 1], format!("level {}", level - 1)));
            }
            if let Some((fewer, before)) = rows.last()
                && row[level] > before[level]
            {
                return Err(slower(before[level], format!("{fewer} active cores")));
            }
        }
        // A part without licenses runs all its code at the one clock.
        let last = row[levels - 1];
        row[levels..].fill(last);
        rows.push((*bin, row));
    }
    let most = bins.last().copied().unwrap_or(0);
    match Turbo::new(&rows) {
        Some(turbo) if most >= cores => Ok(turbo),
        _ => {
            let what = format!("turbo: clocks of up to {most} active cores: there are {cores}");
            Err(source.error(given.span(), what))
        }
    }
}

fn license(source: &Source, given: &License) -> Result<LicenseLaw, MachineError> {
    let ns = |name: &str, quantity: &Spanned<Quantity>| {
        number(source, name, quantity, "ns", (1.0, 1e9)).map(|ns| ns as u64)
    };
    Ok(LicenseLaw {
        release_ns: ns("release_ns", &given.release_ns)?,
        throttle_ns: ns("throttle_ns", &given.throttle_ns)?,
        halt_ns: ns("halt_ns", &given.halt_ns)?,
        throttle_rate: number(source, "throttle_rate", &given.throttle_rate, "1", (0.01, 1.0))?,
    })
}

fn power(source: &Source, given: &Drawn) -> Result<Power, MachineError> {
    let limit_w = number(source, "limit_w", &given.limit_w, "W", (1.0, 1e5))?;
    let base_w = number(source, "base_w", &given.base_w, "W", (0.0, 1e5))?;
    let core_w = given.core_w.get_ref();
    let rises = core_w.value.windows(2).all(|pair| pair[0] <= pair[1]);
    let what = match () {
        () if base_w >= limit_w => format!("base_w: {base_w} W leave nothing of {limit_w}"),
        () if core_w.unit != "W" => format!("core_w: unit \"{}\": expected \"W\"", core_w.unit),
        () if !rises || !core_w.value.iter().all(|w| (1e-3..=1e4).contains(w)) => {
            "core_w: expected numbers from 0.001 to 10000 that do not fall".to_string()
        }
        () => return Ok(Power { limit_w, base_w, core_w: core_w.value }),
    };
    Err(source.error(given.core_w.span(), what))
}

fn number(
    source: &Source,
    name: &str,
    quantity: &Spanned<Quantity>,
    unit: &str,
    (least, most): (f64, f64),
) -> Result<f64, MachineError> {
    let given = quantity.get_ref();
    if given.unit != unit || !(least..=most).contains(&given.value) {
        let what = format!("{name}: expected a number from {least} to {most}, unit \"{unit}\"");
        return Err(source.error(quantity.span(), what));
    }
    Ok(given.value)
}
