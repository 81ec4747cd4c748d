// SPDX-License-Identifier: GPL-2.0-only
//! The kernel tree's simplest scheduler, from Debian's package of the kernel's source: for tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const NAME: &str = "scx_simple.bpf.c";

/// Fetches the newest kernel source of this Debian release and unpacks one file of it into `$1`.
const FETCH: &str = r#"
    set -e
    cd "$1"
    package=$(apt-cache pkgnames linux-source- | grep -x 'linux-source-[0-9.]*' | sort -V | tail -n 1)
    [ -n "$package" ]
    apt-get download -q "$package" >/dev/null 2>&1
    dpkg-deb --fsys-tarfile "$package"_*.deb | tar -xO "./usr/src/$package.tar.xz" |
        tar -xJ --occurrence=1 --strip-components=3 "$package/tools/sched_ext/$2"
"#;

/// The path of `scx_simple.bpf.c` in `folder`, fetched once. The error says why there is none.
pub fn scx_simple(folder: &Path) -> Result<PathBuf, String> {
    let file = folder.join(NAME);
    if file.exists() {
        return Ok(file);
    }
    // Two tests may fetch it at once: each into a folder of its own.
    let own = folder.join(format!("fetch-{}", std::process::id()));
    fs::create_dir_all(&own).map_err(|error| format!("{}: {error}", own.display()))?;
    let fetched = Command::new("sh").args(["-c", FETCH, "sh"]).arg(&own).arg(NAME).output();
    // The second tar has all that it wants before the first has written all of it.
    let moved = fs::rename(own.join(NAME), &file);
    let _ = fs::remove_dir_all(&own);
    moved.map(|()| file).map_err(|_| {
        let said = fetched.map_or_else(
            |error| error.to_string(),
            |output| String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or("").into(),
        );
        format!("no kernel source from Debian's package: {said}")
    })
}
