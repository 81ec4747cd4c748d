// SPDX-License-Identifier: GPL-2.0-only
//! Variables of BPF programs: written before they are loaded, and read while they run.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{DataSec, Var};
use libbpf_rs::{MapCore, MapFlags, Object, OpenObject};

/// The section of variables that may change while a policy is in charge: `TUNABLE` in C.
pub(crate) const TUNABLE: &str = ".data.tunable";

/// Writes each named `CONFIG` or `TUNABLE` before loading. Returns the names that the object lacks, which are skipped.
pub(crate) fn set_config<'n>(
    object: &mut OpenObject,
    bytes: &[u8],
    config: &[(&'n str, Vec<u8>)],
) -> anyhow::Result<Vec<&'n str>> {
    let mut absent: BTreeSet<&str> = config.iter().map(|(name, _)| *name).collect();
    for section in [".rodata", TUNABLE] {
        set_section(object, bytes, section, config, &mut absent)?;
    }
    Ok(absent.into_iter().collect())
}

/// Writes those that are in one section, and removes them from the absent ones.
fn set_section<'n>(
    object: &mut OpenObject,
    bytes: &[u8],
    section: &str,
    config: &[(&'n str, Vec<u8>)],
    absent: &mut BTreeSet<&'n str>,
) -> anyhow::Result<()> {
    let places = variables(bytes, section)?;
    let Some(mut map) =
        object.maps_mut().find(|map| map.name().to_string_lossy().ends_with(section))
    else {
        return Ok(());
    };
    let data = map.initial_value_mut().context("the object's variables have no value")?;
    for (name, value) in config {
        let Some(&(offset, size)) = places.get(*name) else { continue };
        absent.remove(name);
        anyhow::ensure!(
            value.len() <= size && offset + size <= data.len(),
            "{name} is {size} bytes in C, not {}",
            value.len()
        );
        data[offset..offset + value.len()].copy_from_slice(value);
    }
    Ok(())
}

/// A program's variables as they are now.
pub(crate) fn bss(object: &Object) -> anyhow::Result<Vec<u8>> {
    let mut maps = object.maps();
    let bss = maps.find(|map| map.name().to_string_lossy().ends_with(".bss"));
    bss.context("the program has no variables")?
        .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)?
        .context("the program has no variables")
}

/// Offset and size of each variable in a section such as `.rodata`.
pub(crate) fn variables(
    bytes: &[u8],
    section: &str,
) -> anyhow::Result<BTreeMap<String, (usize, usize)>> {
    let btf = Btf::from_raw("policy", bytes)?.context("the BPF object has no BTF")?;
    let Some(section) = btf.type_by_name::<DataSec<'_>>(section) else {
        return Ok(BTreeMap::new());
    };
    let variables = section.iter().filter_map(|place| {
        let name = btf.type_by_id::<Var<'_>>(place.ty)?.name()?.to_string_lossy().into_owned();
        Some((name, (place.offset as usize, place.size)))
    });
    Ok(variables.collect())
}
