// SPDX-License-Identifier: GPL-2.0-only
//! Whether an answer of `try` is consistent with its own warnings. Loads are recorded on this machine by this very
//! program, as a user does it, half of them beside another load. An answer is judged from its JSON alone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use report::text::percent;
use serde::Deserialize;
use serde_json::Value;
use terminal::{Failure, Progress, scratch};

use crate::kind::{Kind, Sample, Setting};
use crate::measure::Laboratory;

/// Part of the time for which each CPU's other load runs, one recording after the other.
const DUTIES: [f64; 3] = [1.0, 0.15, 0.35];
/// The other load works for that part of each of these periods.
const PERIOD: Duration = Duration::from_millis(20);

/// Answers of `try` for loads that are recorded on this machine.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answers {
    /// The recordings.
    of: Recordings,
    /// The quantity that is taken from the answers.
    what: Asked,
}

impl Kind for Answers {
    fn take(&self, lab: &mut Laboratory) -> Result<Sample, Failure> {
        let (quick, progress) = (lab.effort.quick, lab.progress);
        Ok(lab.kept::<Tries>().measure(&self.of, self.what, quick, progress)?.into())
    }

    fn setting(&self, _: &Laboratory) -> Result<Setting, Failure> {
        Ok(Setting::without_clock("here"))
    }
}

/// The recordings.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(deny_unknown_fields)]
struct Recordings {
    /// Loads, as shell commands.
    loads: Vec<String>,
    /// Recordings of each load; every other one beside another load.
    each: usize,
    /// Recordings of each load with `--quick`.
    quick_each: usize,
}

/// The quantity that is taken from the answers.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum Asked {
    /// How often each contradicts its own warnings.
    Contradictions,
    /// The part of recordings alone that have an answer.
    AnsweredAlone,
    /// The part of recordings beside another load that have an answer.
    AnsweredBeside,
}

/// One answer.
#[derive(Clone, Debug)]
struct Judged {
    is_beside: bool,
    is_answered: bool,
    contradictions: usize,
}

/// The recordings that were judged.
#[derive(Debug, Default)]
struct Tries(BTreeMap<Recordings, Vec<Judged>>);

impl Tries {
    /// A value for each recording, or one for all.
    fn measure(
        &mut self,
        of: &Recordings,
        asked: Asked,
        quick: bool,
        progress: &Progress,
    ) -> Result<Vec<f64>, Failure> {
        if !self.0.contains_key(of) {
            let judged = judged(of, if quick { of.quick_each } else { of.each }, progress)?;
            self.0.insert(of.clone(), judged);
        }
        let all = &self.0[of];
        let part = |is_beside: bool| {
            let own: Vec<&Judged> = all.iter().filter(|one| one.is_beside == is_beside).collect();
            let answered = own.iter().filter(|one| one.is_answered).count();
            (!own.is_empty()).then(|| answered as f64 / own.len() as f64)
        };
        Ok(match asked {
            Asked::Contradictions => all.iter().map(|one| one.contradictions as f64).collect(),
            Asked::AnsweredAlone => part(false).into_iter().collect(),
            Asked::AnsweredBeside => part(true).into_iter().collect(),
        })
    }
}

fn failed(why: impl std::fmt::Display) -> Failure {
    Failure::run(format!("answers of try: {why}"))
}

fn judged(of: &Recordings, each: usize, progress: &Progress) -> Result<Vec<Judged>, Failure> {
    let scratch = scratch::folder()?;
    let machine = scratch.path().join("mine.toml");
    progress.phase("this machine, measured before anything disturbs it");
    ran(Command::new(own()?).args(["measure", "-o"]).arg(&machine))?;
    let mut all = Vec::new();
    for load in &of.loads {
        for number in 0..each {
            let duty = (number % 2 == 1).then(|| DUTIES[number / 2 % DUTIES.len()]);
            let beside = duty.map_or("alone".into(), |duty| format!("beside {}", percent(duty)));
            progress.phase(&format!("try {} of {each}, {beside}: {load}", number + 1));
            let burners = duty.map(Burners::start);
            let said = tried(load, &machine, scratch.path());
            drop(burners);
            let result: Value = serde_json::from_slice(&said?).map_err(failed)?;
            let contradictions = contradictions(&result);
            for contradiction in &contradictions {
                progress.known(&format!("  {beside}: CONTRADICTION: {contradiction}"));
            }
            let verdict = result["answer"]["verdict"].as_str().unwrap_or_default();
            let part = |key: &str| result["recording"][key].as_f64().map_or("?".into(), percent);
            progress.known(&format!(
                "  {beside}: {verdict}; {} off its recording, others had {}",
                part("distance"),
                part("others")
            ));
            all.push(Judged {
                is_beside: duty.is_some(),
                is_answered: verdict != "none",
                contradictions: contradictions.len(),
            });
        }
    }
    Ok(all)
}

fn own() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(failed)
}

fn tried(load: &str, machine: &Path, folder: &Path) -> Result<Vec<u8>, Failure> {
    let mut command = Command::new(own()?);
    command.args(["try", "--json", "--machine"]).arg(machine);
    command.arg("--report").arg(folder.join("report.html")).args(["--", "sh", "-c", load]);
    ran(&mut command)
}

/// A command's output; the error is its last line.
fn ran(command: &mut Command) -> Result<Vec<u8>, Failure> {
    let output = command.stdin(Stdio::null()).output().map_err(failed)?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(failed(said.lines().last().unwrap_or("a command failed and did not say why")))
        }
    }
}

/// Another load: a thread for each CPU that works for a part of the time, until this is dropped.
struct Burners {
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Burners {
    fn start(duty: f64) -> Self {
        let end: Arc<AtomicBool> = Arc::default();
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let one = |_| {
            let end = end.clone();
            thread::spawn(move || burn(&end, duty))
        };
        let threads = (0..cpus).map(one).collect();
        Burners { end, threads }
    }
}

fn burn(end: &AtomicBool, duty: f64) {
    while !end.load(Ordering::Relaxed) {
        let began = Instant::now();
        while began.elapsed() < PERIOD.mul_f64(duty) {
            std::hint::spin_loop();
        }
        thread::sleep(PERIOD.saturating_sub(began.elapsed()));
    }
}

impl Drop for Burners {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Contradictions between an answer and a warning, or a figure of its own result. They are judged from the JSON's
/// figures, with bounds of their own.
pub fn contradictions(result: &Value) -> Vec<String> {
    let (answer, recording) = (&result["answer"], &result["recording"]);
    let verdict = answer["verdict"].as_str().unwrap_or("missing");
    let why = answer["why"].as_str().unwrap_or_default();
    let mut found = Vec::new();
    let mut find = |is_so: bool, what: &str| {
        if is_so {
            found.push(format!("{what}: {verdict}: {why}"));
        }
    };
    find(!["try", "stay", "tie", "none"].contains(&verdict), "no verdict");
    let warns = |text: &str| {
        let mut notes = result["notes"].as_array().into_iter().flatten().filter_map(Value::as_str);
        notes.any(|note| note.contains(text))
    };
    let is_none = verdict == "none";
    let off = recording["distance"].as_f64().map(f64::abs);
    let others = recording["others"].as_f64().unwrap_or(1.0);
    let is_other = recording["cpus"] != result["cpus"];
    let says_little = off.is_none_or(|off| off > 0.10) || others > 0.20 || is_other;
    find(says_little && !is_none, "an answer from a replay that says little");
    find(warns("says little") && !is_none, "an answer beside the warning that there is none");
    let summary: Vec<&Value> = result["summary"].as_array().into_iter().flatten().collect();
    let is_once = summary.iter().any(|one| one["runs"].as_u64().is_none_or(|runs| runs < 2));
    let is_coarse = warns("the recording is coarse");
    find(is_none && !says_little && !is_once && !is_coarse, "no answer, and no reason for that");
    find(is_none && answer["next"].is_null(), "no answer, and nothing to do about it");
    let is_weak = others > 0.05 || is_coarse || warns("believe directions only");
    let says_weak = why.contains("as a direction and not as a figure");
    find(is_weak && !is_none && !says_weak, "a weak answer that does not say so");
    find(says_weak && is_none, "no answer, and a direction");

    let first = summary.first().copied().unwrap_or(&Value::Null);
    let gains = |one: &&&Value| {
        let ratio = |key: &str| one["vs_first_range"][key].as_f64().unwrap_or(f64::NAN);
        let gain = 1.0 - ratio("median");
        let is_model = ["cfs", "koka", "parekh"].iter().any(|model| one["policy"] == *model);
        let beyond = ratio("max") < 1.0 && off.is_some_and(|off| gain > off);
        !is_model && beyond && gain >= 0.03 && ratio("min") > 0.0
    };
    let gaining: Vec<&Value> = summary.iter().skip(1).filter(gains).copied().collect();
    find(verdict == "stay" && !gaining.is_empty(), "nothing to try where something gains");
    let other = verdict == "stay" && answer["policy"] != first["policy"];
    find(other, "it stays with another policy");
    if ["try", "tie"].contains(&verdict) {
        let chosen = answer["policy"].as_str().unwrap_or_default();
        let alike: Vec<&str> =
            answer["alike"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let named = if verdict == "tie" { alike.clone() } else { vec![chosen] };
        find((verdict == "tie") != (alike.len() > 1), "a tie of one, or several that are none");
        find(!named.contains(&chosen), "a policy that is none of those that gain alike");
        let next = answer["next"].as_str().unwrap_or_default();
        for name in &named {
            let own = gaining.iter().find(|one| one["policy"] == *name);
            find(own.is_none(), "a gain that chance, or the replay's own error, explains");
            find(!why.contains(name) || !next.contains(name), "a policy that is not named");
            let grows = |of: fn(&Value) -> Option<f64>| {
                own.and_then(|own| of(own)).zip(of(first)).is_some_and(|(own, of)| own > 2.0 * of)
            };
            let is_costly = grows(|one| one["wait_p99_s"]["median"].as_f64())
                || grows(|one| one["worst_wait_s"].as_f64());
            let is_first = why.to_lowercase().starts_with("waits grow");
            find(is_costly && !is_first, "waits that grow are not told first");
        }
        let shown = gaining.iter().find(|one| one["policy"] == chosen);
        let ratio = shown.and_then(|one| one["vs_first"].as_f64()).unwrap_or(f64::NAN);
        let is_same = answer["gain"].as_f64().is_some_and(|gain| (gain * ratio - 1.0).abs() < 1e-9);
        find(!is_same, "a gain that is not the table's");
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sound() -> Value {
        let spread =
            |median: f64| json!({"median": median, "min": 0.95 * median, "max": 1.05 * median});
        json!({
            "cpus": 2,
            "notes": [],
            "recording": {"cpus": 2, "distance": -0.02, "others": 0.01},
            "summary": [
                {"policy": "default", "runs": 5, "vs_first": 1.0, "wait_p99_s": spread(0.003), "worst_wait_s": 0.02},
                {"policy": "cas", "runs": 5, "vs_first": 0.8, "vs_first_range": spread(0.8),
                 "wait_p99_s": spread(0.002), "worst_wait_s": 0.03},
                {"policy": "o1", "runs": 5, "vs_first": 0.99, "vs_first_range": spread(0.99),
                 "wait_p99_s": spread(0.002), "worst_wait_s": 0.02},
            ],
            "answer": {"verdict": "try", "policy": "cas", "alike": [], "gain": 1.25, "why": "try cas first",
                       "next": "paceline run cas"},
        })
    }

    /// The contradictions after a change of the result.
    fn found(change: impl Fn(&mut Value)) -> String {
        let mut result = sound();
        change(&mut result);
        contradictions(&result).join("\n")
    }

    #[test]
    fn a_sound_answer_contradicts_nothing() {
        assert_eq!(found(|_| ()), "");
        assert_eq!(found(|it| it["recording"]["distance"] = json!(0.099)), "");
        assert_eq!(found(|it| it["recording"]["others"] = json!(0.05)), "");
    }

    #[test]
    fn an_answer_beside_a_warning_is_found() {
        let recording = |key: &str, value: f64| found(|it| it["recording"][key] = json!(value));
        let little = "a replay that says little";
        assert!(recording("distance", 0.11).contains(little));
        assert!(recording("distance", -0.11).contains(little));
        assert!(recording("others", 0.21).contains(little));
        assert!(found(|it| it["recording"]["distance"] = json!(null)).contains(little));
        assert!(found(|it| it["cpus"] = json!(8)).contains(little));
        let noted = |note: &str| found(|it| it["notes"] = json!([note]));
        assert!(noted("a replay says little of other policies").contains("beside the warning"));
        let weak = "does not say so";
        assert!(recording("others", 0.06).contains(weak));
        assert!(noted("the recording is coarse: sampled").contains(weak));
        assert!(noted("the recording: believe directions only").contains(weak));
    }

    #[test]
    fn an_answer_that_its_own_figures_do_not_bear_is_found() {
        let answer = |key: &str, value: Value| found(|it| it["answer"][key] = value.clone());
        let cas = |key: &str, value: f64| {
            found(|it| it["summary"][1]["vs_first_range"][key] = json!(value))
        };
        let explained = "a gain that chance";
        assert!(cas("max", 1.0).contains(explained) && cas("median", 0.98).contains(explained));
        assert!(answer("policy", json!("o1")).contains(explained));
        assert!(answer("gain", json!(1.3)).contains("not the table's"));
        assert!(answer("next", json!("paceline list")).contains("is not named"));
        assert!(answer("verdict", json!("stay")).contains("where something gains"));
        assert!(answer("verdict", json!("none")).contains("no reason"));
        assert!(answer("verdict", json!("tie")).contains("a tie of one"));
        assert!(found(|it| it["answer"] = json!(null)).contains("no verdict"));
        let first = "not told first";
        let p99 = found(|it| it["summary"][1]["wait_p99_s"]["median"] = json!(0.0061));
        assert!(p99.contains(first));
        assert!(found(|it| it["summary"][1]["worst_wait_s"] = json!(0.041)).contains(first));
        let nothing = found(|it| {
            it["recording"]["others"] = json!(0.5);
            it["answer"] = json!({"verdict": "none", "why": "", "next": null});
        });
        assert!(nothing.contains("nothing to do about it"), "{nothing}");
    }
}
