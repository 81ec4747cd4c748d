// SPDX-License-Identifier: GPL-2.0-only
//! Variables of BPF programs: written before they are loaded, and read while they run.

use std::collections::BTreeMap;

use anyhow::Context;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{DataSec, Var};
use libbpf_rs::{MapCore, MapFlags, Object, OpenObject};

/// Writes each named `const volatile`. Returns the names that the object lacks, which are skipped.
pub(crate) fn set_rodata<'n>(
    object: &mut OpenObject,
    bytes: &[u8],
    config: &[(&'n str, Vec<u8>)],
) -> anyhow::Result<Vec<&'n str>> {
    let places = variables(bytes, ".rodata")?;
    let Some(mut rodata) =
        object.maps_mut().find(|map| map.name().to_string_lossy().ends_with(".rodata"))
    else {
        return Ok(config.iter().map(|(name, _)| *name).collect());
    };
    let mut absent = Vec::new();
    let data = rodata.initial_value_mut().context("the object's .rodata has no value")?;
    for (name, value) in config {
        let Some(&(offset, size)) = places.get(*name) else {
            absent.push(*name);
            continue;
        };
        anyhow::ensure!(
            value.len() <= size && offset + size <= data.len(),
            "{name} is {size} bytes in C, not {}",
            value.len()
        );
        data[offset..offset + value.len()].copy_from_slice(value);
    }
    Ok(absent)
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
