// SPDX-License-Identifier: GPL-2.0-only
//! The functions of a policy's `tests/decisions.c`, which calls its headers with plain values.

use std::path::Path;
use std::sync::LazyLock;

use libloading::{Library, Symbol};

static LIBRARY: LazyLock<Library> = LazyLock::new(|| {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/decisions.c");
    let object = policy_build::test_library(&source, Path::new(env!("CARGO_TARGET_TMPDIR")));
    // SAFETY: built from decisions.c, which has no constructors.
    unsafe { Library::new(object) }.unwrap()
});

pub fn function<T>(name: &str) -> Symbol<'static, T> {
    // SAFETY: each caller names the type that decisions.c declares.
    unsafe { LIBRARY.get(name.as_bytes()) }.unwrap()
}

macro_rules! call {
    ($name:ident($($arg:expr => $type:ty),*) -> $ret:ty) => {{
        let call = crate::decisions::function::<unsafe extern "C" fn($($type),*) -> $ret>(stringify!($name));
        // SAFETY: decisions.c declares it with these types.
        unsafe { call($($arg),*) }
    }};
}
