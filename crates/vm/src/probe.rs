// SPDX-License-Identifier: GPL-2.0-only
//! Whether a kernel can run sched_ext policies, from its files before it is booted.
//!
//! Kernels from 7.1 on give some kfuncs a hidden last argument, `aux`, that the verifier fills in. The build removes it
//! from the kernel's type information; a pahole older than 1.31 does not. Then libbpf refuses every policy that calls
//! such a kfunc ("func_proto incompatible").

use std::fs;
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, bail};
use libbpf_rs::btf::types::{Func, FuncProto, Ptr, Struct};
use libbpf_rs::btf::{Btf, ReferencesType};
use object::{Object, ObjectSection};

/// Fails with one line if the kernel with this `config` cannot run policies.
pub fn check_config(config: &str) -> anyhow::Result<()> {
    let needed = ["SCHED_CLASS_EXT", "DEBUG_INFO_BTF", "BPF_JIT", "VIRTIO_CONSOLE"];
    for option in needed {
        if !config.lines().any(|line| line == format!("CONFIG_{option}=y")) {
            bail!("CONFIG_{option} is not set");
        }
    }
    Ok(())
}

/// Fails with one line if the type information in `file` (in the format of `/sys/kernel/btf/vmlinux`) is unsound.
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

/// Public kfuncs of sched_ext with a last argument that is the verifier's own. They are known by name: a pahole that
/// leaves the argument omits the tag of kfuncs too.
fn malformed_kfuncs(btf: &Btf<'_>) -> Vec<String> {
    let functions = btf.type_by_kind::<Func<'_>>().filter_map(|function| {
        let name = function.name()?.to_string_lossy().into_owned();
        let public = name.trim_start_matches('_').starts_with("scx_bpf_");
        (public && !name.ends_with("_impl") && takes_aux(btf, &function)).then_some(name)
    });
    let mut malformed: Vec<String> = functions.collect();
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

/// Unpacks the type information of a kernel image to `to`. Ok(false): the image is packed in an unknown way, and only
/// the running guest can be asked.
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
    let (there, wanted) = (file.metadata()?.len(), bytes_of(head));
    anyhow::ensure!(there >= wanted, "it is cut short, {there} bytes of {wanted}; get it anew");
    let at = usize::from(u16::from_le_bytes([head[0x20e], head[0x20f]])) + 0x200;
    let text = head.get(at..).with_context(not_a_kernel)?;
    let end =
        text.iter().position(|byte| *byte == b' ' || *byte == 0).with_context(not_a_kernel)?;
    Ok(String::from_utf8_lossy(&text[..end]).into_owned())
}

/// Length of a bzImage by its header: the loader in sectors (0 means 4), and the kernel in units of 16 bytes.
fn bytes_of(head: &[u8]) -> u64 {
    let sectors = u64::from(if head[0x1f1] == 0 { 4 } else { head[0x1f1] });
    let pieces = u32::from_le_bytes([head[0x1f4], head[0x1f5], head[0x1f6], head[0x1f7]]);
    (sectors + 1) * 512 + u64::from(pieces) * 16
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

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::io::Write;

    use super::*;

    #[test]
    fn an_image_that_is_cut_short_is_none() {
        let mut image = vec![0; 0x8000];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x20e..0x210].copy_from_slice(&0x100_u16.to_le_bytes());
        image[0x300..0x306].copy_from_slice(b"7.2.1 ");
        // The loader is 5 sectors of 512 bytes; this is the kernel.
        image[0x1f4..0x1f8].copy_from_slice(&((0x8000 - 5 * 512) / 16_u32).to_le_bytes());
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, &image).unwrap();
        assert_eq!(release(file.path()).unwrap(), "7.2.1");
        fs::write(&file, &image[..0x7fff]).unwrap();
        let said = release(file.path()).unwrap_err().to_string();
        assert_eq!(said, "it is cut short, 32767 bytes of 32768; get it anew");
    }

    /// A kernel's type information with one kfunc, `name(u64 id)`, and with `aux` as its last argument if `aux`.
    fn kernel(name: &str, aux: bool) -> tempfile::NamedTempFile {
        use libbpf_sys::*;
        let text = |text: &str| CString::new(text).unwrap();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        // SAFETY: the calls copy the names they get; the data is copied before btf is freed
        let bytes = unsafe {
            let btf = btf__new_empty();
            let add = |id: i32| (id > 0).then_some(id).expect("libbpf adds a type");
            let number = add(btf__add_int(btf, text("u64").as_ptr(), 8, 0));
            add(btf__add_struct(btf, text("sched_ext_ops").as_ptr(), 0));
            let verifiers = add(btf__add_struct(btf, text("bpf_prog_aux").as_ptr(), 0));
            let pointer = add(btf__add_ptr(btf, add(btf__add_const(btf, verifiers))));
            let prototype = add(btf__add_func_proto(btf, 0));
            assert_eq!(btf__add_func_param(btf, text("id").as_ptr(), number), 0);
            if aux {
                assert_eq!(btf__add_func_param(btf, text("aux").as_ptr(), pointer), 0);
            }
            add(btf__add_func(btf, text(name).as_ptr(), BTF_FUNC_GLOBAL, prototype));
            let mut length = 0;
            let data = btf__raw_data(btf, &mut length).cast::<u8>();
            let bytes = std::slice::from_raw_parts(data, length as usize).to_vec();
            btf__free(btf);
            bytes
        };
        file.write_all(&bytes).unwrap();
        file
    }

    #[test]
    fn a_kfunc_with_the_verifiers_argument_makes_a_kernel_unsound() {
        let error = check_btf(kernel("scx_bpf_kick_cpu", true).path()).unwrap_err().to_string();
        assert!(error.starts_with("1 kfuncs still carry"), "{error}");
        assert!(error.contains("scx_bpf_kick_cpu") && error.contains("pahole"), "{error}");
    }

    #[test]
    fn a_sound_kernel_hides_it_in_functions_of_its_own() {
        check_btf(kernel("scx_bpf_kick_cpu", false).path()).unwrap();
        check_btf(kernel("scx_bpf_kick_cpu_impl", true).path()).unwrap();
        check_btf(kernel("bpf_of_another_part", true).path()).unwrap();
    }

    #[test]
    fn a_config_without_sched_ext_is_named() {
        let rest = "CONFIG_DEBUG_INFO_BTF=y\nCONFIG_BPF_JIT=y\nCONFIG_VIRTIO_CONSOLE=y\n";
        check_config(&format!("CONFIG_SCHED_CLASS_EXT=y\n{rest}")).unwrap();
        let error = check_config(rest).unwrap_err().to_string();
        assert_eq!(error, "CONFIG_SCHED_CLASS_EXT is not set");
    }
}
