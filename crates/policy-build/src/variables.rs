// SPDX-License-Identifier: GPL-2.0-only
//! The knobs of a compiled policy, read from its objects: the C is where a knob's default stands.

use std::fmt::Write;

use object::{File, Object, ObjectSection, ObjectSymbol};

/// The end of the name of a deflated object.
pub const PACKED: &str = ".deflated";

/// How the C names a knob.
const PREFIX: &str = "knob_";

/// The section of knobs that may change while a policy is in charge: `TUNABLE` in C.
const TUNABLE: &str = ".data.tunable";

/// Each knob's symbol and value in an object, by symbol, with its section. Panics if one is no `u64`.
fn knobs(bytes: &[u8], what: &str) -> Vec<(String, u64, String)> {
    let file = File::parse(bytes).unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut knobs = Vec::new();
    for symbol in file.symbols().filter(|symbol| symbol.is_definition() && symbol.is_global()) {
        let Some(name) = symbol.name().ok().filter(|name| name.starts_with(PREFIX)) else {
            continue;
        };
        assert!(symbol.size() == 8, "{what}: {name} has {} bytes: declare a u64", symbol.size());
        let section = symbol.section_index().and_then(|at| file.section_by_index(at).ok());
        let section = section.unwrap_or_else(|| panic!("{what}: {name} is in no section"));
        let data = section.data_range(symbol.address(), 8).ok().flatten();
        // A variable without a value has no bytes in the file.
        let value = data.and_then(|data| data.first_chunk::<8>().copied()).unwrap_or_default();
        let value = if file.is_little_endian() {
            u64::from_le_bytes(value)
        } else {
            u64::from_be_bytes(value)
        };
        let section = section.name().unwrap_or_default().to_string();
        knobs.push((name.to_string(), value, section));
    }
    knobs.sort();
    knobs
}

/// The Rust that `policy::built!` includes. Panics if the two builds differ in their knobs.
pub fn declared(name: &str, source: &str, bpf: &[u8], native: &[u8]) -> String {
    let knobs_of_bpf = knobs(bpf, &format!("{name}.bpf.o"));
    let knobs_of_native = knobs(native, &format!("{name}.so"));
    // Only BPF has sections of its own for them.
    let same = |(bpf, native): (&(String, u64, String), &(String, u64, String))| {
        (&bpf.0, bpf.1) == (&native.0, native.1)
    };
    assert!(
        knobs_of_bpf.len() == knobs_of_native.len()
            && knobs_of_bpf.iter().zip(&knobs_of_native).all(same),
        "{source}: the knobs of both builds differ: {knobs_of_bpf:?} for BPF, {knobs_of_native:?} natively"
    );
    let mut text = format!(
        "pub const BUILD: ::policy::Build = ::policy::Build {{\n\
         \x20   ops: {name:?},\n\
         \x20   source: {source:?},\n\
         \x20   bpf: ::policy::Object::Packed(|| &BPF),\n\
         \x20   native: ::policy::Object::Packed(|| &NATIVE),\n\
         }};\n"
    );
    for (object, file) in [("BPF", format!("{name}.bpf.o")), ("NATIVE", format!("{name}.so"))] {
        writeln!(
            text,
            "static {object}: ::std::sync::LazyLock<Vec<u8>> = ::std::sync::LazyLock::new(|| {{\n    \
             ::policy::unpacked(include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{file}{PACKED}\")))\n}});"
        )
        .expect("memory takes it");
    }
    for (symbol, default, section) in knobs_of_bpf {
        let tunable = section == TUNABLE;
        let constant = symbol[PREFIX.len()..].to_uppercase();
        writeln!(
            text,
            "pub const {constant}: ::policy::Variable =\n    \
             ::policy::Variable {{ symbol: Some({symbol:?}), default: {default}, tunable: {tunable} }};"
        )
        .expect("memory takes it");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The Rust of this C, compiled for both targets.
    fn of(c: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("mine.bpf.c");
        fs::write(&source, format!("#include \"kernel.h\"\nLICENSE;\n{c}")).unwrap();
        let bpf = fs::read(crate::test_object(&source, folder.path())).unwrap();
        let native = fs::read(crate::test_library(&source, folder.path())).unwrap();
        declared("mine", "mine.bpf.c", &bpf, &native)
    }

    #[test]
    fn a_knob_has_the_default_of_its_c() {
        let text =
            of("TUNABLE u64 knob_slice_ns = 5000000;\nCONFIG u64 knob_pull;\nCONFIG u32 nr;\n");
        for wanted in [
            "pub const SLICE_NS: ::policy::Variable =\n    ::policy::Variable { symbol: Some(\"knob_slice_ns\"), default: 5000000, tunable: true };",
            "pub const PULL: ::policy::Variable =\n    ::policy::Variable { symbol: Some(\"knob_pull\"), default: 0, tunable: false };",
            "source: \"mine.bpf.c\"",
        ] {
            assert!(text.contains(wanted), "{text}");
        }
        assert!(!text.contains("NR"), "{text}");
    }

    #[test]
    #[should_panic(expected = "knob_pull has 4 bytes: declare a u64")]
    fn a_knob_of_another_size_ends_the_build() {
        of("CONFIG u32 knob_pull;\n");
    }

    #[test]
    #[should_panic(expected = "the knobs of both builds differ")]
    fn builds_that_differ_in_a_default_end_the_build() {
        of("#ifdef __bpf__\nCONFIG u64 knob_pull = 1;\n#else\nCONFIG u64 knob_pull;\n#endif\n");
    }
}
