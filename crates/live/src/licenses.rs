// SPDX-License-Identifier: GPL-2.0-only
//! Events of frequency licenses: a core's cycles at each of three levels, which some of Intel's processors count.
//!
//! CORE_POWER.LVL0_TURBO_LICENSE and its two neighbours, codes as in tools/perf/pmu-events/arch/x86 of the kernel's
//! source. Haswell and Broadwell have the levels but no events. Sapphire Rapids and later, and AMD's, have neither.

use std::fs;
use std::path::Path;

/// include/uapi/linux/perf_event.h
const RAW: u32 = 4;
const CORE_POWER: u64 = 0x28;
/// By license level.
const MASKS: [u64; 3] = [0x07, 0x18, 0x20];
/// Models of Intel's family 6, arch/x86/include/asm/intel-family.h: Skylake, Cascade Lake and Cooper Lake servers; Ice
/// Lake servers; Ice Lake, Tiger Lake and Rocket Lake.
const MODELS: [u32; 8] = [0x55, 0x6A, 0x6C, 0x7D, 0x7E, 0x8C, 0x8D, 0xA7];

/// Type and config of the event of each level. None: this kind of processor has no such events.
pub(crate) fn events(root: &Path) -> Option<Vec<(u32, u64)>> {
    let info = fs::read_to_string(root.join("proc/cpuinfo")).ok()?;
    let lines = || info.lines().filter_map(|line| line.split_once(':'));
    let value = |key: &str| lines().find(|(name, _)| name.trim() == key).map(|(_, own)| own.trim());
    let number = |key: &str| value(key)?.parse::<u32>().ok();
    let counts = value("vendor_id")? == "GenuineIntel"
        && number("cpu family")? == 6
        && MODELS.contains(&number("model")?);
    counts.then(|| MASKS.iter().map(|mask| (RAW, mask << 8 | CORE_POWER)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(vendor: &str, family: u32, model: u32) -> Option<Vec<(u32, u64)>> {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("proc")).unwrap();
        let info = format!(
            "processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n\
             model name\t: Xeon 85\nstepping\t: 4\n\nprocessor\t: 1\n"
        );
        fs::write(root.path().join("proc/cpuinfo"), info).unwrap();
        events(root.path())
    }

    #[test]
    fn processors_with_licenses_have_an_event_for_each_level() {
        let skylake = of("GenuineIntel", 6, 85).unwrap();
        assert_eq!(skylake, [(RAW, 0x0728), (RAW, 0x1828), (RAW, 0x2028)]);
        assert_eq!(of("GenuineIntel", 6, 106), Some(skylake), "Ice Lake");
        assert_eq!(of("GenuineIntel", 6, 143), None, "Sapphire Rapids");
        assert_eq!(of("GenuineIntel", 6, 63), None, "Haswell");
        assert_eq!(of("AuthenticAMD", 6, 85), None);
        assert_eq!(events(Path::new("/nowhere")), None);
    }
}
