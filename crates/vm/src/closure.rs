// SPDX-License-Identifier: GPL-2.0-only
//! Files that a program needs to run elsewhere: its libraries, its interpreter, its tools.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::BadInput;
use crate::folders::{PATH, PROGRAMS};
use crate::image::Image;

/// Small files that libc and shells look for.
const COMMON: &[&str] = &[
    "/etc/group",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/protocols",
    "/etc/services",
    "/usr/lib/locale/C.utf8",
];

/// Programs that start others, found by trial: the starting program, and the programs it starts.
const STARTS: &[(&str, &[&str])] = &[
    ("cargo", &["rustc"]),
    ("rustc", &["cc"]),
    ("make", &["gcc", "cc", "ar", "ranlib", "sh", "rm", "mkdir", "cp", "mv", "touch", "install"]),
    ("gcc", &["as", "ld"]),
    ("g++", &["as", "ld"]),
    ("perf", &["sh"]),
];

/// Finds `program` as a shell would, or says in one line that there is none.
pub fn which(program: &OsStr) -> Result<PathBuf, BadInput> {
    if program.is_empty() {
        return Err(BadInput("the command is empty; name a program".into()));
    }
    let named = Path::new(program);
    let found = if named.components().count() > 1 {
        std::path::absolute(named).ok().filter(|path| executable(path))
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).map(|folder| folder.join(named)).find(|path| executable(path))
    };
    found.ok_or_else(|| {
        let name = named.display();
        BadInput(format!("{name} is not a program on this machine; install it or give its path"))
    })
}

/// The program behind a version manager's shim of the same name. The shim would look for the manager in the guest.
pub(crate) fn behind_shim(program: PathBuf) -> PathBuf {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let named = match &*name {
        "cargo" | "rustc" => sysroot().map(|folder| folder.join("bin").join(&*name)),
        _ if is_python(&program) && !is_elf(&program) => {
            let named = lines(&program, &["-c", "import sys; print(sys.executable)"]);
            named.unwrap_or_default().first().map(PathBuf::from)
        }
        _ => None,
    };
    named.filter(|path| is_elf(path)).unwrap_or(program)
}

/// Python itself, which is asked for the folders of its modules: an interpreter of that name, or its alias on this
/// machine. Nothing else that is meant for the guest runs here, above all no script of a user's, whatever its name.
fn is_python(program: &Path) -> bool {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let version = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    name.strip_prefix("python").is_some_and(version) && (is_elf(program) || is_installed(program))
}

/// Whether it is this machine's program of that name.
fn is_installed(program: &Path) -> bool {
    let installed = program.file_name().and_then(|name| which(name).ok());
    let real = |path: &Path| path.canonicalize().ok();
    installed.is_some_and(|installed| real(&installed) == real(program))
}

/// Where Rust's compiler and libraries lie.
fn sysroot() -> Option<PathBuf> {
    let compiler = which("rustc".as_ref()).ok()?;
    lines(&compiler, &["--print", "sysroot"]).ok()?.first().map(PathBuf::from)
}

/// Adds a program and all it needs that can be found out.
pub(crate) fn add_program(image: &mut Image, program: &Path) -> anyhow::Result<()> {
    for path in COMMON.iter().map(Path::new).filter(|path| path.exists()) {
        image.add_tree(path, &|_| false)?;
    }
    let mut todo = vec![program.to_path_buf()];
    let mut seen = BTreeSet::new();
    while let Some(program) = todo.pop() {
        let real = image.add(&program)?;
        if !seen.insert(real.clone()) {
            continue;
        }
        if !PATH.split(':').any(|folder| program.parent() == Some(folder.as_ref()))
            && let Some(name) = program.file_name()
        {
            image.link(&Path::new(PROGRAMS).join(name), &program);
        }
        if let Some((interpreter, argument)) = shebang(&real)? {
            // `#!/usr/bin/env python3` needs both
            todo.extend(argument.and_then(|name| which(&name).ok()).map(behind_shim));
            todo.push(interpreter);
            continue;
        }
        add_libraries(image, std::slice::from_ref(&real))?;
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let base = real.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if is_python(&real) {
            add_python(image, &real)?;
        }
        if is_compiler(&base) && is_installed(&real) {
            add_compiler(image, &real)?;
        }
        if base == "rustc" {
            add_rust(image)?;
        }
        let starts = STARTS.iter().filter(|(who, _)| {
            *who == name || base == *who || is_compiler(&base) && is_compiler(who)
        });
        let started = starts.flat_map(|(_, started)| started.iter());
        todo.extend(started.filter_map(|name| which(OsStr::new(name)).ok()).map(behind_shim));
    }
    Ok(())
}

/// Adds a file or folder that the user named, and the libraries of the executables in it. Adds a program with all that
/// it needs.
pub(crate) fn add_with(image: &mut Image, path: &Path) -> anyhow::Result<()> {
    if !path.exists() {
        let path = path.display();
        return Err(BadInput(format!("--with {path}: it is not there")).into());
    }
    if executable(path) {
        add_program(image, &behind_shim(std::path::absolute(path)?))?;
    }
    let files = image.add_tree(path, &|_| false)?;
    let programs: Vec<PathBuf> = files.into_iter().filter(|file| is_elf(file)).collect();
    add_libraries(image, &programs)
}

/// Adds the shared libraries and the loader of these programs and libraries, as `ldd` names them.
pub(crate) fn add_libraries(image: &mut Image, programs: &[PathBuf]) -> anyhow::Result<()> {
    let programs: Vec<&PathBuf> = programs.iter().filter(|file| is_elf(file)).collect();
    for some in programs.chunks(200) {
        let output = Command::new("ldd")
            .args(some)
            .output()
            .context("cannot run ldd, which finds a program's libraries; install libc-bin")?;
        let text = String::from_utf8_lossy(&output.stdout);
        if let Some(missing) = text.lines().find(|line| line.contains("=> not found")) {
            let name = missing.trim().split(' ').next().unwrap_or_default();
            return Err(BadInput(format!("library {name} is missing on this machine")).into());
        }
        for library in libraries(&text) {
            image.add(&library)?;
        }
    }
    Ok(())
}

/// Paths in what `ldd` prints: `name => /path (0x…)` or, for the loader, `/path (0x…)`.
fn libraries(text: &str) -> BTreeSet<PathBuf> {
    let path = |line: &str| {
        let line = line.trim();
        let path = line.split_once("=> ").map_or(line, |(_, path)| path);
        let (path, _) = path.split_once(" (0x")?;
        path.starts_with('/').then(|| PathBuf::from(path))
    };
    text.lines().filter_map(path).collect()
}

fn add_python(image: &mut Image, python: &Path) -> anyhow::Result<()> {
    let ask = "import sysconfig as s; print(s.get_path('stdlib')); print(s.get_path('platstdlib'))";
    let folders = lines(python, &["-c", ask])?;
    let heavy = |path: &Path| {
        let name = path.file_name().unwrap_or_default();
        ["test", "tests", "idlelib", "tkinter", "ensurepip", "dist-packages", "site-packages"]
            .iter()
            .any(|heavy| name == *heavy)
    };
    for folder in folders.iter().map(Path::new).filter(|path| path.exists()) {
        let files = image.add_tree(folder, &heavy)?;
        let modules: Vec<_> =
            files.into_iter().filter(|file| file.extension() == Some(OsStr::new("so"))).collect();
        add_libraries(image, &modules)?;
    }
    Ok(())
}

/// `gcc`, `x86_64-linux-gnu-gcc-12`, and g++ by the same pattern.
fn is_compiler(name: &str) -> bool {
    name.split('-').any(|part| part == "gcc" || part == "g++")
}

/// The programs, start files, archives and headers a C compiler opens.
fn add_compiler(image: &mut Image, compiler: &Path) -> anyhow::Result<()> {
    let folder = lines(compiler, &["-print-libgcc-file-name"])?;
    let folder = folder.first().and_then(|path| Path::new(path).parent());
    let folder = folder.context("the compiler does not name its own folder")?;
    let plus_plus = compiler.to_string_lossy().contains("g++");
    let heavy = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let other = ["lto1", "plugin", "g++-mapper-server", "libgcov.a"].contains(&name.as_str());
        let sanitizer = name.contains("san") && name.ends_with(".a");
        other || sanitizer || !plus_plus && (name == "cc1plus" || name.starts_with("libstdc++"))
    };
    let mut files = image.add_tree(folder, &heavy)?;
    for tool in ["cc1", "cc1plus", "as", "ld", "collect2"] {
        let named = lines(compiler, &[&format!("-print-prog-name={tool}")])?;
        let mut paths = named.iter().map(Path::new);
        if let Some(path) = paths.find(|path| path.is_absolute() && path.exists() && !heavy(path)) {
            files.push(image.add(path)?);
        }
    }
    let link =
        ["crt1.o", "Scrt1.o", "crti.o", "crtn.o", "libc.so", "libc.so.6", "libc_nonshared.a"];
    let math = ["libm.so", "libm.so.6", "libmvec.so.1", "libpthread.a", "libgcc_s.so.1"];
    // These are parts of libc by now, but Rust's compiler still asks for them.
    let empty = ["libdl.a", "librt.a", "libutil.a"];
    for file in link.iter().chain(&math).chain(&empty) {
        let named = lines(compiler, &[&format!("-print-file-name={file}")])?;
        if let Some(path) = named.iter().map(Path::new).find(|path| path.is_absolute()) {
            image.add_tree(path, &|_| false)?;
        }
    }
    let multiarch = lines(compiler, &["-print-multiarch"]).unwrap_or_default();
    let headers = multiarch.iter().map(|triple| format!("/usr/include/{triple}"));
    let kernel = ["linux", "asm-generic"].map(|name| format!("/usr/include/{name}"));
    for folder in headers.chain(kernel).filter(|path| Path::new(path).exists()) {
        image.add_tree(Path::new(&folder), &|_| false)?;
    }
    for entry in fs::read_dir("/usr/include").into_iter().flatten().flatten() {
        if entry.path().extension() == Some(OsStr::new("h")) {
            image.add(&entry.path())?;
        }
    }
    add_libraries(image, &files)
}

/// Files that Rust's compiler opens beside its own libraries: the libraries it links programs with, and a linker.
fn add_rust(image: &mut Image) -> anyhow::Result<()> {
    let folder = sysroot().context("rustc does not name its own folder")?.join("lib/rustlib");
    let other = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let sanitizer = name.contains("san") && name.ends_with(".a");
        sanitizer || ["rust-objcopy", "wasm-component-ld"].contains(&&*name)
    };
    for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(std::env::consts::ARCH) {
            let files = image.add_tree(&entry.path(), &other)?;
            add_libraries(image, &files)?;
        }
    }
    Ok(())
}

fn lines(program: &Path, arguments: &[&str]) -> anyhow::Result<Vec<String>> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().map(str::to_string).filter(|line| !line.is_empty()).collect())
}

fn shebang(file: &Path) -> anyhow::Result<Option<(PathBuf, Option<OsString>)>> {
    let mut line = Vec::new();
    let opened = File::open(file).with_context(|| format!("{}", file.display()))?;
    BufReader::new(opened).take(256).read_until(b'\n', &mut line)?;
    let line = String::from_utf8_lossy(&line);
    let Some(line) = line.strip_prefix("#!") else { return Ok(None) };
    let mut words = line.split_whitespace();
    let interpreter = words.next().context("a script without an interpreter")?;
    Ok(Some((PathBuf::from(interpreter), words.next().map(OsString::from))))
}

fn executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

fn is_elf(path: &Path) -> bool {
    let mut magic = [0; 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok()
        && &magic == b"\x7fELF"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ldd_is_read_line_by_line() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\
                    \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n\
                    /usr/bin/static:\n\tstatically linked\n";
        let found: Vec<_> = libraries(text).into_iter().collect();
        let expected = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(found, expected.map(PathBuf::from));
    }

    #[test]
    fn a_shell_comes_with_its_loader_and_libc() {
        let mut image = Image::default();
        add_program(&mut image, Path::new("/bin/sh")).unwrap();
        let mut archive = Vec::new();
        image.archive(&mut archive).unwrap();
        let names = names(&archive);
        assert!(names.iter().any(|name| name.ends_with("/libc.so.6")), "{names:?}");
        assert!(names.iter().any(|name| name.contains("/ld-linux")), "{names:?}");
        assert!(names.contains(&"bin/sh".into()) || names.contains(&"usr/bin/sh".into()));
    }

    /// Whatever its name is: the command is meant for the guest.
    #[test]
    fn nothing_of_a_command_runs_here() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["python-cleanup", "python3", "python3.11", "x-gcc"] {
            let (program, ran) = (folder.path().join(name), folder.path().join("ran"));
            fs::write(&program, format!("#!/bin/sh\ntouch {}\n", ran.display())).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
            add_program(&mut Image::default(), &behind_shim(program)).unwrap();
            assert!(!ran.exists(), "{name}");
        }
    }

    #[test]
    fn a_missing_program_is_named() {
        let words = which(OsStr::new("no-such-program")).unwrap_err().to_string();
        assert!(words.starts_with("no-such-program is not a program"), "{words}");
    }

    fn names(archive: &[u8]) -> Vec<String> {
        let mut names = Vec::new();
        let mut rest = archive;
        loop {
            let reader = cpio::NewcReader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                return names;
            }
            names.push(reader.entry().name().to_string());
            rest = reader.finish().unwrap();
        }
    }
}
