// SPDX-License-Identifier: GPL-2.0-only
//! Machines and workloads by their names, read once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use comparison::{Job, WORKLOADS};
use machine::Machine;
use measuring::find_machine;
use serde::{Deserialize, Serialize};
use terminal::Failure;

use crate::digest::Digest;

/// A machine or a workload. Those that come along are parts of the program, and others have a digest of their contents.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Input {
    /// The user's name for it, or its file.
    pub name: String,
    /// Of what is in it; None: it comes along.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
}

impl Input {
    /// The same without the name of its file, which says nothing of what is in it.
    pub fn unnamed(&self) -> Input {
        let name = if self.digest.is_some() { String::new() } else { self.name.clone() };
        Input { name, digest: self.digest }
    }
}

/// All machines and workloads of a sweep.
#[derive(Debug, Default)]
pub struct Inputs {
    /// Names of files are from here on.
    folder: PathBuf,
    files: Vec<PathBuf>,
    machines: BTreeMap<Input, Machine>,
    workloads: BTreeMap<Input, Job>,
}

impl Inputs {
    /// None yet; files are named from this folder on.
    pub fn new(folder: &Path) -> Self {
        Inputs { folder: folder.to_path_buf(), ..Inputs::default() }
    }

    /// Files that were read.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The file of this name, if there is one.
    fn file(&mut self, name: &str) -> Option<PathBuf> {
        let path = self.folder.join(name);
        let there = path.exists().then_some(path);
        self.files.extend(there.clone());
        there
    }

    /// Finds a machine by its name or file. One that is measured is measured once.
    ///
    /// # Errors
    /// There is none, or its file is bad.
    pub fn add_machine(&mut self, name: &str) -> Result<Input, Failure> {
        let comes_along = machine::find(name).is_ok();
        let file = if comes_along { None } else { self.file(name) };
        let known = |input: &&Input| input.name == name && file.is_none();
        if let Some(known) = self.machines.keys().find(known) {
            return Ok(known.clone());
        }
        let path = file.as_ref().map(|path| path.display().to_string());
        let machine = find_machine(path.as_deref().unwrap_or(name))?;
        let digest = match file {
            Some(path) => Some(Digest::of_file(&path).map_err(|error| unreadable(name, &error))?),
            None if comes_along => None,
            // This one, measured.
            None => Some(Digest::of(format!("{machine:?}").as_bytes())),
        };
        let input = Input { name: name.to_string(), digest };
        self.machines.insert(input.clone(), machine);
        Ok(input)
    }

    /// Finds a workload by its name, its file, or the command line of a program that is modelled.
    ///
    /// # Errors
    /// There is none, or its file is bad.
    pub fn add_workload(&mut self, name: &str) -> Result<Input, Failure> {
        let comes_along = WORKLOADS.iter().any(|(known, _)| *known == name);
        let file = if comes_along { None } else { self.file(name) };
        let (job, digest) = match file {
            Some(path) => {
                // First, as it refuses what is no file.
                let job = Job::named(&path)?;
                let digest = Digest::of_file(&path).map_err(|error| unreadable(name, &error))?;
                (job, Some(digest))
            }
            None => (job_of(name)?, None),
        };
        let input = Input { name: name.to_string(), digest };
        self.workloads.insert(input.clone(), job);
        Ok(input)
    }

    /// A machine or a workload as another process has it: from a file of these contents, if it has a digest.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn add(
        &mut self,
        input: &Input,
        is_machine: bool,
        file: Option<&Path>,
    ) -> Result<(), Failure> {
        let name = file.map_or(input.name.clone(), |path| path.display().to_string());
        match is_machine {
            true if !self.machines.contains_key(input) => {
                self.machines.insert(input.clone(), find_machine(&name)?);
            }
            false if !self.workloads.contains_key(input) => {
                // Never a file of this name that happens to be here.
                let built_in = || Job::built_in(&name).map_or_else(|| job_of(&name), Ok);
                let job = file.map_or_else(built_in, Job::named)?;
                self.workloads.insert(input.clone(), job);
            }
            _ => {}
        }
        Ok(())
    }

    /// The contents of each file, by its digest: what another process needs.
    ///
    /// # Errors
    /// A file cannot be read, has changed, or a machine is not from a file.
    pub fn contents(&self) -> Result<BTreeMap<Digest, Vec<u8>>, Failure> {
        let mut all = BTreeMap::new();
        for path in &self.files {
            let name = path.display().to_string();
            let bytes = std::fs::read(path).map_err(|error| unreadable(&name, &error))?;
            all.insert(Digest::of(&bytes), bytes);
        }
        for input in self.machines.keys().chain(self.workloads.keys()) {
            if input.digest.is_some_and(|digest| !all.contains_key(&digest)) {
                return Err(Failure::input(format!(
                    "{} is in no file that could be sent, or has changed; write it to a file (`paceline measure -o \
                     mine.toml`) and name that",
                    input.name
                )));
            }
        }
        Ok(all)
    }

    /// A machine that was added.
    pub fn machine(&self, input: &Input) -> &Machine {
        &self.machines[input]
    }

    /// A workload that was added, fitted to this machine. A recording is read for each machine.
    ///
    /// # Errors
    /// It does not fit, or the recording is another one by now.
    pub fn job(&self, input: &Input, machine: &Machine) -> Result<Job, Failure> {
        let job = self.workloads[input].clone();
        let recording = match &job {
            Job::Recording(path) => Some(path.clone()),
            _ => None,
        };
        let fitted = job.fit(machine)?;
        if let Some(path) = recording
            && Digest::of_file(&path).ok() != input.digest
        {
            let name = path.display();
            return Err(Failure::input(format!("{name} has changed meanwhile; start again")));
        }
        Ok(fitted)
    }
}

/// A workload that comes along, or a program's model.
fn job_of(name: &str) -> Result<Job, Failure> {
    let words = shlex::split(name).unwrap_or_default();
    match words.len() > 1 || name == "hackbench" {
        true => Ok(Job::Command { argv: words, with: Vec::new() }),
        false => Job::named(name.as_ref()),
    }
}

fn unreadable(name: &str, error: &std::io::Error) -> Failure {
    Failure::input(format!("cannot read {name}: {error}"))
}

#[cfg(test)]
mod tests {
    use record::import::{import, survey};

    use super::*;

    /// A task that works on the first of two CPUs.
    fn recording(name: &str) -> Vec<u8> {
        let text = format!(
            "<idle>-0 [000] 1.000100: sched_waking: comm={name} pid=7 prio=120 target_cpu=000\n\
             <idle>-0 [000] 1.000200: sched_switch: swapper/0:0 [120] R ==> {name}:7 [120]\n\
             {name}-7 [000] 1.100200: sched_switch: {name}:7 [120] S ==> swapper/0:0 [120]\n"
        );
        let found = survey(text.as_bytes()).unwrap();
        import(text.as_bytes(), &found, name, Vec::new()).unwrap().0
    }

    #[test]
    fn a_recording_that_is_another_one_by_now_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own.trace");
        std::fs::write(&path, recording("one")).unwrap();
        let mut inputs = Inputs::default();
        let input = inputs.add_workload(path.to_str().unwrap()).unwrap();
        let machine = machine::find("plain-2").unwrap();
        assert_eq!(inputs.job(&input, &machine).unwrap().model().unwrap().tasks[0].name, "one");
        std::fs::write(&path, recording("two")).unwrap();
        let refused = inputs.job(&input, &machine).unwrap_err().to_string();
        assert!(refused.ends_with("own.trace has changed meanwhile; start again"), "{refused}");
    }

    #[test]
    fn a_file_counts_by_its_contents_and_what_comes_along_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own.json");
        let digest = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Inputs::default().add_workload(path.to_str().unwrap()).unwrap().digest
        };
        let one = digest(r#"{"tasks": {"a": {"run": 10, "loop": 1}}}"#);
        assert_ne!(one, digest(r#"{"tasks": {"a": {"run": 11, "loop": 1}}}"#));
        assert_eq!(one, digest(r#"{"tasks": {"a": {"run": 10, "loop": 1}}}"#));
        let mut inputs = Inputs::default();
        assert_eq!(inputs.add_workload("requests-4").unwrap().digest, None);
        assert_eq!(inputs.add_machine("numa-2x4").unwrap().digest, None);
        let hackbench = inputs.add_workload("hackbench -g 1 -l 2").unwrap();
        let machine = machine::find("plain-2").unwrap();
        assert_eq!(inputs.job(&hackbench, &machine).unwrap().model().unwrap().tasks.len(), 41);
    }
}
