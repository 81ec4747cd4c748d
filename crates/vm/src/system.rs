// SPDX-License-Identifier: GPL-2.0-only
//! A whole system in a guest, with its own process 1: for tests of packages and services. [`run()`](crate::run()) has
//! none of that, so that nothing disturbs what it measures.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use indicatif::MultiProgress;
use live::die_with_parent;
use rustix::process::Signal;

use crate::image::Image;
use crate::{Clock, emulator, kernel};

/// A system, and what it does once it is up.
pub struct System<'a> {
    /// Its root file system: a cpio archive of a Debian with systemd, as `script/system` makes it.
    pub root: &'a Path,
    /// CPUs, side by side.
    pub cpus: usize,
    /// Memory, MiB.
    pub memory_mib: usize,
    /// Files of this machine, by their paths in the guest.
    pub files: &'a [(&'a str, &'a Path)],
    /// A script for bash, run as root. Its output is the result.
    pub script: &'a str,
    /// Longest time of it all.
    pub limit: Duration,
}

/// The unit that runs the script, and ends the guest.
const UNIT: &str = "[Unit]
After=basic.target dbus.service
[Service]
Type=exec
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS1
ExecStart=/bin/bash /srv/script
ExecStopPost=/bin/sh -c 'echo \"$$SERVICE_RESULT $$EXIT_STATUS\" >/dev/ttyS1; systemctl poweroff --force --force'
";

/// What no kernel and no policy does: one CPU ran code that another one was writing.
const EMULATOR_FAULT: &str = "Oops: int3";

/// What the script's end looks like.
const WELL: &str = "\nsuccess 0\n";

impl System<'_> {
    /// Boots it, and returns what the script wrote. A script that fails is an error with that. If the emulator breaks the
    /// guest, as it does with CPUs side by side, it is booted again with CPUs that take turns.
    pub fn run(&self) -> anyhow::Result<String> {
        match self.boot("multi") {
            Err(error) if error.to_string().contains(EMULATOR_FAULT) => self.boot("single"),
            ended => ended,
        }
    }

    fn boot(&self, threads: &str) -> anyhow::Result<String> {
        let hidden = MultiProgress::with_draw_target(indicatif::ProgressDrawTarget::hidden());
        let kernel = kernel::find(None, None, &hidden)?;
        let emulator = emulator(None, Clock::Threads)?;
        let scratch = tempfile::tempdir().context("no room for the guest's files")?;
        let [image, console, said] =
            ["image", "console", "said"].map(|name| scratch.path().join(name));
        self.pack(&image)?;
        let mut command = Command::new(emulator);
        command
            .args(["-no-user-config", "-nodefaults", "-display", "none", "-no-reboot"])
            .args(["-machine", "q35", "-cpu", "max", "-accel"])
            .arg(format!("tcg,thread={threads}"))
            .args(["-smp", &self.cpus.to_string(), "-m", &format!("{}M", self.memory_mib)])
            .arg("-kernel")
            .arg(&kernel.image)
            .arg("-initrd")
            .arg(&image)
            .args([
                "-append",
                "console=ttyS0 rdinit=/sbin/init panic=-1 random.trust_cpu=on loglevel=4",
            ]);
        for file in [&console, &said] {
            command.arg("-serial").arg(format!("file:{}", file.display()));
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        die_with_parent(&mut command, Signal::KILL);
        let mut child = command.spawn().context("cannot start QEMU")?;
        let began = Instant::now();
        while child.try_wait()?.is_none() {
            if began.elapsed() > self.limit {
                let _ = child.kill();
                let _ = child.wait();
                bail!("the guest does not end: {}\n{}", read(&said), last_of(&read(&console)));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let text = read(&said).replace('\r', "");
        // The system has its own last word.
        match text.split_once(WELL) {
            Some((own, _)) => Ok(own.to_string()),
            None if read(&console).contains(EMULATOR_FAULT) => bail!(EMULATOR_FAULT),
            None if text.is_empty() => {
                bail!("the script says nothing:\n{}", last_of(&read(&console)))
            }
            None => bail!("the script failed: {text}"),
        }
    }

    /// The system, and behind it an archive with what is added: the kernel unpacks one after the other.
    fn pack(&self, to: &Path) -> anyhow::Result<()> {
        let mut own = Image::default();
        for (path, from) in self.files {
            own.place(path, from);
        }
        own.write("/srv/script", self.script);
        own.write("/etc/systemd/system/script.service", UNIT);
        let wants = PathBuf::from("/etc/systemd/system/multi-user.target.wants/script.service");
        own.link(&wants, Path::new("../script.service"));
        fs::copy(self.root, to).with_context(|| self.root.display().to_string())?;
        let mut file = File::options().append(true).open(to)?;
        // An archive begins at a multiple of four bytes.
        let length = file.metadata()?.len();
        file.write_all(&vec![0; (length.next_multiple_of(4) - length) as usize])?;
        own.archive(std::io::BufWriter::new(file))
    }
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// The last lines of a console.
fn last_of(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
