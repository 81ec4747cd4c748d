// SPDX-License-Identifier: GPL-2.0-only
//! Whether a kernel can run sched_ext policies, told from its files before it is booted.
//!
//! Kernels from 7.1 on give some kfuncs a hidden last argument, `aux`, that the verifier fills in.
//! The build removes it from the kernel's type information; a pahole older than 1.31 does not, and
//! then libbpf refuses every policy that calls such a kfunc ("func_proto incompatible").

use std::fs;
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, bail};
use libbpf_rs::btf::types::{DeclTag, Func, FuncProto, Ptr, Struct};
use libbpf_rs::btf::{Btf, ReferencesType};
use object::{Object, ObjectSection};

/// Fails with one line where the kernel whose `config` this is cannot run policies.
pub fn check_config(config: &str) -> anyhow::Result<()> {
    let needed = ["SCHED_CLASS_EXT", "DEBUG_INFO_BTF", "BPF_JIT", "VIRTIO_CONSOLE"];
    for option in needed {
        if !config.lines().any(|line| line == format!("CONFIG_{option}=y")) {
            bail!("CONFIG_{option} is not set");
        }
    }
    Ok(())
}

/// Fails with one line where the type information in `file` (as `/sys/kernel/btf/vmlinux` has it)
/// is unsound.
pub fn check_btf(file: &Path) -> anyhow::Result<()> {
    let btf = Btf::from_path(file)
        .with_context(|| format!("{} holds no readable type information", file.display()))?;
    if btf.type_by_name::<Struct<'_>>("sched_ext_ops").is_none() {
        bail!("it has no sched_ext (no struct sched_ext_ops)");
    }
    let malformed = malformed_kfuncs(&btf);
    if let Some(first) = malformed.first() {
        bail!(
            "{} kfuncs still carry the hidden argument aux, {first} among them: it was built with \
             a pahole older than 1.31",
            malformed.len()
        );
    }
    Ok(())
}

/// Public kfuncs whose last argument is the verifier's own.
fn malformed_kfuncs(btf: &Btf<'_>) -> Vec<String> {
    let tags = btf.type_by_kind::<DeclTag<'_>>();
    let kfuncs = tags.filter(|tag| tag.name().is_some_and(|name| name == "bpf_kfunc"));
    let functions = kfuncs.filter_map(|tag| Func::try_from(tag.referenced_type()).ok());
    let mut malformed: Vec<String> = functions
        .filter(|function| takes_aux(btf, function))
        .filter_map(|function| Some(function.name()?.to_string_lossy().into_owned()))
        .filter(|name| !name.ends_with("_impl"))
        .collect();
    malformed.sort();
    malformed.dedup();
    malformed
}

/// Whether its last parameter is `struct bpf_prog_aux *aux`.
fn takes_aux(btf: &Btf<'_>, function: &Func<'_>) -> bool {
    let Ok(prototype) = FuncProto::try_from(function.referenced_type()) else { return false };
    let Some(last) = prototype.len().checked_sub(1).and_then(|last| prototype.get(last)) else {
        return false;
    };
    let Some(pointer) = btf.type_by_id::<Ptr<'_>>(last.ty) else { return false };
    let target = pointer.referenced_type().skip_mods_and_typedefs();
    last.name.is_some_and(|name| name == "aux")
        && target.name().is_some_and(|name| name == "bpf_prog_aux")
}

/// Unpacks the type information of a kernel image to `to`. Ok(false) where the image is packed in a
/// way we do not know: then only the running guest can be asked.
pub fn extract_btf(image: &Path, to: &Path) -> anyhow::Result<bool> {
    let bytes = fs::read(image).with_context(|| format!("{}", image.display()))?;
    let Some(kernel) = unpack(&bytes) else { return Ok(false) };
    let elf = object::File::parse(&*kernel).context("the unpacked kernel is no ELF file")?;
    let section = elf.section_by_name(".BTF").context("it has no type information (.BTF)")?;
    fs::File::create(to)
        .and_then(|mut file| file.write_all(section.data().unwrap_or_default()))
        .with_context(|| format!("writing {}", to.display()))?;
    Ok(true)
}

/// The release of a bzImage, `7.2.12+deb14-cloud-amd64`, from its boot header (offset 0x20e, see
/// Documentation/arch/x86/boot.rst).
pub fn release(image: &Path) -> anyhow::Result<String> {
    let mut head = vec![0; 0x8000];
    let mut file =
        fs::File::open(image).with_context(|| format!("{} cannot be read", image.display()))?;
    let length = file.read(&mut head)?;
    let head = &head[..length];
    let not_a_kernel = || format!("{} is no x86 kernel image (bzImage)", image.display());
    anyhow::ensure!(head.get(0x202..0x206) == Some(b"HdrS"), "{}", not_a_kernel());
    let at = usize::from(u16::from_le_bytes([head[0x20e], head[0x20f]])) + 0x200;
    let text = head.get(at..).with_context(not_a_kernel)?;
    let end =
        text.iter().position(|byte| *byte == b' ' || *byte == 0).with_context(not_a_kernel)?;
    Ok(String::from_utf8_lossy(&text[..end]).into_owned())
}

/// The ELF kernel inside a zstd-packed bzImage.
fn unpack(image: &[u8]) -> Option<Vec<u8>> {
    const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
    let starts = image.windows(4).enumerate().filter(|(_, window)| **window == ZSTD);
    for (start, _) in starts {
        let Ok(mut decoder) = ruzstd::decoding::StreamingDecoder::new(&image[start..]) else {
            continue;
        };
        let mut kernel = Vec::new();
        if decoder.read_to_end(&mut kernel).is_ok() && kernel.starts_with(b"\x7fELF") {
            return Some(kernel);
        }
    }
    None
}
