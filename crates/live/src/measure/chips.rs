// SPDX-License-Identifier: GPL-2.0-only
//! Sizes of caches and TLBs, as the processor and the kernel state them; they are never measured.

use std::fs;
use std::path::Path;

use super::place::on;
use crate::topology::tlb_tags;

/// One cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cache {
    /// Its size.
    pub bytes: usize,
    /// Its ways.
    pub ways: usize,
}

/// Caches of data, from near to far; None: there is no such level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caches {
    /// First level.
    pub l1d: Option<Cache>,
    /// Second level.
    pub l2: Option<Cache>,
    /// Third level.
    pub l3: Option<Cache>,
    /// Bytes of a line.
    pub line: Option<usize>,
}

/// One TLB, for small pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlb {
    /// Its entries.
    pub entries: u32,
    /// Its ways.
    pub ways: u32,
}

/// Bytes of the smallest page.
pub fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// Caches of this CPU, from /sys.
pub fn caches(cpu: usize) -> Caches {
    below(Path::new("/"), cpu)
}

fn below(root: &Path, cpu: usize) -> Caches {
    let folder = root.join(format!("sys/devices/system/cpu/cpu{cpu}/cache"));
    let mut caches = Caches::default();
    for index in 0..16 {
        let text = |file: &str| {
            let file = folder.join(format!("index{index}/{file}"));
            fs::read_to_string(file).ok().map(|text| text.trim().to_string())
        };
        let number = |file: &str| text(file).and_then(|text| text.parse::<usize>().ok());
        if text("type").is_none_or(|kind| kind == "Instruction") {
            continue;
        }
        let Some(bytes) = text("size").and_then(|text| size(&text)) else { continue };
        // Fully associative caches are reported with 0 ways.
        let lines = bytes / number("coherency_line_size").unwrap_or(64).max(1);
        let ways = number("ways_of_associativity").filter(|ways| *ways > 0).unwrap_or(lines);
        let slot = match number("level") {
            Some(1) => &mut caches.l1d,
            Some(2) => &mut caches.l2,
            Some(3) => &mut caches.l3,
            _ => continue,
        };
        *slot = Some(Cache { bytes, ways });
        caches.line = caches.line.or(number("coherency_line_size"));
    }
    caches
}

/// `1024K`.
fn size(text: &str) -> Option<usize> {
    let digits = text.trim_end_matches(['K', 'M', 'G']);
    let unit = match text.as_bytes().last()? {
        b'K' => 1 << 10,
        b'M' => 1 << 20,
        b'G' => 1 << 30,
        _ => 1,
    };
    digits.parse::<usize>().ok().map(|number| number * unit).filter(|bytes| *bytes > 0)
}

/// Number of address spaces with entries that the kernel keeps at the same time; None: not known for this architecture.
pub fn tags() -> Option<u32> {
    const TLB_NR_DYN_ASIDS: u32 = 6; // arch/x86/include/asm/tlbflush.h
    let has_tags = tlb_tags(&fs::read_to_string("/proc/cpuinfo").ok()?)?;
    Some(if has_tags { TLB_NR_DYN_ASIDS } else { 0 })
}

/// The data and the instruction TLB that this CPU reports: a miss of these walks the page table. CPUs of another kind
/// may report others.
pub fn tlbs(cpu: usize) -> (Option<Tlb>, Option<Tlb>) {
    on(cpu, reported).unwrap_or_default()
}

/// TLBs of the CPU that the calling thread is on.
#[cfg(target_arch = "x86_64")]
fn reported() -> (Option<Tlb>, Option<Tlb>) {
    use std::arch::x86_64::__cpuid_count;
    let leaf = |leaf: u32, sub: u32| {
        let it = __cpuid_count(leaf, sub);
        [it.eax, it.ebx, it.ecx, it.edx]
    };
    let [last, b, c, d] = leaf(0, 0);
    match (b, d, c) {
        (AUTH, ENTI, CAMD) if leaf(0x8000_0000, 0)[0] >= 0x8000_0006 => {
            let more = leaf(0x8000_0000, 0)[0] >= 0x8000_0021;
            let times = if more && leaf(0x8000_0021, 0)[0] >> 14 & 1 == 1 { 32 } else { 1 };
            amd(leaf(0x8000_0006, 0)[1], times)
        }
        _ if last >= 0x18 => {
            let most = leaf(0x18, 0)[0].min(32);
            let all: Vec<[u32; 4]> = (0..=most).map(|sub| leaf(0x18, sub)).collect();
            intel(&all)
        }
        _ => (None, None),
    }
}

/// Other architectures do not report them.
#[cfg(not(target_arch = "x86_64"))]
fn reported() -> (Option<Tlb>, Option<Tlb>) {
    (None, None)
}

const AUTH: u32 = u32::from_le_bytes(*b"Auth");
const ENTI: u32 = u32::from_le_bytes(*b"enti");
const CAMD: u32 = u32::from_le_bytes(*b"cAMD");

/// EBX of leaf 8000_0006H: second-level TLBs for pages of 4 KB (AMD64 Architecture Programmer's Manual 3, appendix
/// E.4.5); if L2TlbSizeX32 is set, sizes count by 32.
fn amd(ebx: u32, times: u32) -> (Option<Tlb>, Option<Tlb>) {
    let tlb = |half: u32| {
        let entries = (half & 0xfff) * times;
        let ways = match half >> 12 & 0xf {
            code @ 1..=4 => code,
            5 => 6,
            6 => 8,
            8 => 16,
            0xa => 32,
            0xb => 48,
            0xc => 64,
            0xd => 96,
            0xe => 128,
            0xf => entries,
            _ => 0,
        };
        (entries > 0 && ways > 0).then_some(Tlb { entries, ways })
    };
    (tlb(ebx >> 16), tlb(ebx & 0xffff))
}

/// Subleaves of leaf 18H (Intel 64 and IA-32 Architectures Software Developer's Manual 2A, CPUID): the
/// largest TLB for pages of 4 KB that takes data, and that takes code.
fn intel(leaves: &[[u32; 4]]) -> (Option<Tlb>, Option<Tlb>) {
    let found = |kinds: &[u32]| {
        let fits = |leaf: &&[u32; 4]| kinds.contains(&(leaf[3] & 0x1f)) && leaf[1] & 1 == 1;
        let tlb = |leaf: &[u32; 4]| Tlb { entries: (leaf[1] >> 16) * leaf[2], ways: leaf[1] >> 16 };
        let all = leaves.iter().filter(fits).map(tlb);
        all.filter(|tlb| tlb.entries > 0).max_by_key(|tlb| tlb.entries)
    };
    const DATA: u32 = 1;
    const CODE: u32 = 2;
    const BOTH: u32 = 3;
    (found(&[DATA, BOTH]), found(&[CODE]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_read_as_the_kernel_writes_them() {
        let root = tempfile::tempdir().unwrap();
        let all = [
            ("1", "Data", "48K", "12"),
            ("1", "Instruction", "32K", "8"),
            ("2", "Unified", "1M", "0"),
        ];
        for (index, (level, kind, size, ways)) in all.into_iter().enumerate() {
            let folder =
                root.path().join(format!("sys/devices/system/cpu/cpu3/cache/index{index}"));
            fs::create_dir_all(&folder).unwrap();
            let files = [("level", level), ("type", kind), ("size", size)];
            let more = [("ways_of_associativity", ways), ("coherency_line_size", "64")];
            for (file, text) in files.into_iter().chain(more) {
                fs::write(folder.join(file), format!("{text}\n")).unwrap();
            }
        }
        let found = below(root.path(), 3);
        assert_eq!(found.l1d, Some(Cache { bytes: 49152, ways: 12 }));
        assert_eq!(found.l2, Some(Cache { bytes: 1 << 20, ways: 16384 }), "fully associative");
        assert_eq!((found.l3, found.line), (None, Some(64)));
        assert_eq!(below(root.path(), 0), Caches::default());
    }

    #[test]
    fn tlbs_are_what_processors_report() {
        let (data, code) = amd(0x6080_4040, 32);
        assert_eq!(data, Some(Tlb { entries: 4096, ways: 8 }));
        assert_eq!(code, Some(Tlb { entries: 2048, ways: 4 }));
        assert_eq!(amd(0, 1), (None, None));
        let first = [0, 4 << 16 | 1, 16, 1 << 5 | 1];
        let second = [0, 8 << 16 | 3, 128, 2 << 5 | 3];
        let code = [0, 8 << 16 | 1, 16, 1 << 5 | 2];
        let found = intel(&[[2, 0, 0, 0], first, second, code]);
        assert_eq!(found.0, Some(Tlb { entries: 1024, ways: 8 }));
        assert_eq!(found.1, Some(Tlb { entries: 128, ways: 8 }));
    }
}
