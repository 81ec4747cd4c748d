// SPDX-License-Identifier: GPL-2.0-only
//! Compiles a policy's C twice: for BPF, and natively for the simulator.
//!
//! A policy crate's `build.rs` calls it. It needs clang 18 or later; `BPF_CLANG` names it if it is not `clang-19`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use flate2::Compression;
use flate2::write::DeflateEncoder;
use libbpf_rs::Linker;
use libbpf_sys as _;

mod upstream;
mod variables;

pub use upstream::scx_simple;

/// Compiles `source` to `OUT_DIR/NAME.bpf.o` and `OUT_DIR/NAME.so`, and names them and their knobs in `OUT_DIR/NAME.rs`,
/// for `policy::built!`. Panics with the compiler's own words if it fails, as a build script should.
pub fn policy(name: &str, source: &str) {
    program(name, source);
    let (out, path) = (out_dir(), from_root(source));
    let native = out.join(format!("{name}.so"));
    let object = shared(Path::new(source), &out, NO_UNDEFINED);
    fs::rename(object, &native).expect("OUT_DIR is writable");
    let read = |file: &Path| fs::read(file).expect("it was just written");
    let object = out.join(format!("{name}.bpf.o"));
    let (bpf, shared) = (read(&object), read(&native));
    pack(&object, &bpf);
    pack(&native, &shared);
    let text = variables::declared(name, &path, &bpf, &shared);
    fs::write(out.join(format!("{name}.rs")), text).expect("OUT_DIR is writable");
}

/// Writes an object deflated, beside it.
fn pack(object: &Path, bytes: &[u8]) {
    let mut place = object.as_os_str().to_owned();
    place.push(variables::PACKED);
    let file = fs::File::create(place).expect("OUT_DIR is writable");
    let mut to = DeflateEncoder::new(file, Compression::best());
    to.write_all(bytes).and_then(|()| to.finish()).expect("OUT_DIR has room");
}

/// Compiles a BPF program that is not a policy.
pub fn program(name: &str, source: &str) {
    println!("cargo:rerun-if-env-changed=BPF_CLANG");
    rerun(Path::new(source).parent().expect("a source is in a folder"));
    rerun(&common());
    bpf(Path::new(source), &out_dir().join(format!("{name}.bpf.o")));
}

/// Compiles C that wraps a policy's decisions for a test, and returns the shared object: everything marked `EXPORT` can
/// be called. `out` is chosen by the test.
pub fn test_library(source: &Path, out: &Path) -> PathBuf {
    shared(source, out, NO_UNDEFINED)
}

/// Compiles a policy for BPF, and returns the object. For tests.
pub fn test_object(source: &Path, out: &Path) -> PathBuf {
    let object = out.join(source.with_extension("o").file_name().expect("a source has a name"));
    bpf(source, &object);
    object
}

/// Compiles a policy natively so that AddressSanitizer and UndefinedBehaviorSanitizer check it. Their runtimes are not
/// linked: the program that loads the object has to run under `LD_PRELOAD` of both. For tests.
pub fn sanitized(source: &Path, out: &Path) -> PathBuf {
    shared(source, out, SANITIZERS)
}

/// A kernel function that the native build lacks is an error at link time, not when it is called.
const NO_UNDEFINED: &[&str] = &["-Wl,-z,defs"];

/// The check of indirect calls is off: it wants types that only C++ records.
const SANITIZERS: &[&str] = &[
    "-fsanitize=address,undefined",
    "-fno-sanitize=function",
    "-fno-sanitize-recover=all",
    "-fno-sanitize-link-runtime",
    "-fno-omit-frame-pointer",
];

/// A shared object that exports everything marked `EXPORT`, and nothing else.
fn shared(source: &Path, out: &Path, flags: &[&str]) -> PathBuf {
    let object = out.join(source.with_extension("so").file_name().expect("a source has a name"));
    let mut clang = clang();
    clang.args(["-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-Bsymbolic"]).args(flags);
    // As the rest of the program: a package has no debug information.
    if env::var("DEBUG").is_ok_and(|debug| debug == "false") {
        clang.arg("-Wl,--strip-debug");
    }
    if let Some(folder) = source.parent() {
        clang.arg("-I").arg(folder.join("../src/bpf"));
    }
    clang.arg(source).arg("-o").arg(&object);
    run(clang);
    object
}

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("policy-build is in the workspace")
}

fn common() -> PathBuf {
    root().join("policies/common")
}

/// A file of the crate that is built, as a path from the root of the workspace: objects have no other machine's paths.
fn from_root(file: &str) -> String {
    let own = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let full = own.join(file).canonicalize().unwrap_or_else(|error| panic!("{file}: {error}"));
    let root = root();
    let path = full.strip_prefix(&root);
    let path =
        path.unwrap_or_else(|_| panic!("{} is not below {}", full.display(), root.display()));
    path.to_str().expect("the workspace's own paths are text").to_string()
}

fn clang() -> Command {
    let mut clang = Command::new(env::var("BPF_CLANG").unwrap_or_else(|_| "clang-19".into()));
    clang.args(["-std=gnu11", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-g", "-O2"]);
    // No object names a folder of the machine that built it.
    clang.arg(format!("-ffile-prefix-map={}=.", root().display()));
    clang.arg("-I").arg(common());
    clang
}

fn out_dir() -> PathBuf {
    PathBuf::from(env::var("OUT_DIR").expect("cargo sets OUT_DIR"))
}

fn bpf(source: &Path, object: &Path) {
    // A test has no such variable; it runs where it was built.
    let arch = match env::var("CARGO_CFG_TARGET_ARCH").as_deref().unwrap_or(env::consts::ARCH) {
        "aarch64" => "arm64",
        _ => "x86",
    };
    let mut clang = clang();
    clang.args(["-target", "bpf", "-mcpu=v3", "-c"]);
    clang.arg(format!("-D__TARGET_ARCH_{arch}"));
    let compiled = object.with_extension("dwarf.o");
    clang.arg("-isystem").arg(env!("LIBBPF_INCLUDE")).arg(source).arg("-o").arg(&compiled);
    run(clang);
    // clang describes types to a kernel only together with DWARF, which is most of the object. libbpf's linker drops it.
    let linked = Linker::new(object).and_then(|mut linker| {
        linker.add_file(&compiled)?;
        linker.link()
    });
    linked.unwrap_or_else(|error| panic!("{}: {error}", object.display()));
    fs::remove_file(&compiled).expect("it was just written");
}

fn run(mut command: Command) {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().unwrap_or_else(|error| {
        panic!("cannot run {program}: {error}; install clang-19 (script/setup) or set BPF_CLANG")
    });
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{words}");
}

fn rerun(folder: &Path) {
    println!("cargo:rerun-if-changed={}", folder.display());
}
