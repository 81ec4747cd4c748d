// SPDX-License-Identifier: GPL-2.0-only
//! The service and its clients: `serve`, `status`, `switch`, `set` and `reload`.

use std::path::Path;
use std::time::Duration;

use report::text::{Align, table, visible};
use serde::Serialize;
use service::request::{Answer, RUNTIME, Request, ask};
use service::status::{CLASS, Status as State, Switched};
use service::{Config, ladder::Fault};
use terminal::{Failure, output};

use crate::cli::{Reload, Serve, Set, Status, Switch};

/// The service itself, or a look at its config file.
pub fn serve(args: &Serve) -> Result<(), Failure> {
    match args.check {
        true => {
            let rungs = Config::read(&args.config)?.rungs().join(", then ");
            output::print(&format!(
                "{}: {rungs}, then {CLASS}\n",
                visible(&args.config.display().to_string())
            ))
        }
        false => service::serve(&args.config),
    }
}

/// What is in charge.
pub fn status(args: &Status) -> Result<(), Failure> {
    let Answer::Status(state) = asked(&Request::Status)? else { return Err(foreign()) };
    match args.json {
        true => output::print(&json(&state)),
        false => output::print(&told(&state)),
    }
}

/// Another policy.
pub fn switch(args: &Switch) -> Result<(), Failure> {
    let request = Request::Switch(args.policy.clone());
    let Answer::Switched(switched) = asked(&request)? else { return Err(foreign()) };
    match args.json {
        true => output::print(&json(&switched)),
        false => output::print(&(changed(&switched) + "\n")),
    }
}

/// Another value of a knob.
pub fn set(args: &Set) -> Result<(), Failure> {
    let (knob, value) = args.knob.split_once('=').ok_or_else(|| {
        Failure::input(format!("{} has no value; write {}=VALUE", args.knob, args.knob))
    })?;
    let answer = asked(&Request::Set { knob: knob.into(), value: value.into() })?;
    let Answer::Set { policy, old, new } = &answer else { return Err(foreign()) };
    match args.json {
        true => output::print(&json(&answer)),
        false => output::print(&format!("{policy}: {knob} is {new}, and was {old}\n")),
    }
}

/// The config file anew.
pub fn reload(args: &Reload) -> Result<(), Failure> {
    let Answer::Reloaded(switched) = asked(&Request::Reload)? else { return Err(foreign()) };
    match (args.json, switched) {
        (true, switched) => output::print(&json(&switched)),
        (false, Some(switched)) => output::print(&(changed(&switched) + "\n")),
        (false, None) => output::print("read again; what is in charge stays\n"),
    }
}

/// The service's answer; what it refuses is a failure.
fn asked(request: &Request) -> Result<Answer, Failure> {
    // Under a policy that starves all others an administrator is still heard.
    let _ = live::outrank_policies();
    match ask(Path::new(RUNTIME), request)? {
        Answer::Refused(why) => Err(Failure::input(why)),
        answer => Ok(answer),
    }
}

fn foreign() -> Failure {
    Failure::run("the service is of another version; start it again: systemctl restart paceline")
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("it is plain data") + "\n"
}

fn changed(switched: &Switched) -> String {
    let Switched { from, to, window_s, .. } = switched;
    if from == to && window_s.is_none() {
        return format!("{to} is in charge already");
    }
    let window = window_s.map_or(String::new(), |window_s| {
        format!("; {CLASS} was in charge in between, for at most {:.0} ms", window_s * 1e3)
    });
    format!("{to} is in charge, after {from}{window}")
}

fn time(seconds: u64) -> String {
    humantime::format_duration(Duration::from_secs(seconds)).to_string()
}

fn told(state: &State) -> String {
    let mut text = format!("{} is in charge for {}", state.in_charge, time(state.for_s));
    if state.on_trial {
        text += ", within its grace time";
    }
    if state.partial {
        text += ", of tasks that ask for SCHED_EXT";
    }
    text += "\n";
    if let Some(other) = &state.stands_aside_for {
        text += &format!("stands aside: {other}\n");
    }
    if let Some(profile) = &state.power_profile {
        text += &format!("power profile: {profile}\n");
    }
    if let Some(chosen) = &state.chosen {
        text += &format!(
            "chosen by an administrator: {chosen}; the config file has {}\n",
            state.policies.join(", ")
        );
    }
    for line in state.sources.iter().chain(&state.says) {
        text += &format!("{line}\n");
    }
    text += &format!("loads: {}; ejected by the kernel: {}\n", state.loads, state.ejections);
    if let Some(last) = &state.last_switch {
        text += &format!("last change: {}\n", changed(last));
    }
    if !state.faults.is_empty() {
        let row = |(name, fault): (&String, &Fault)| {
            let left = time(fault.not_before_s.saturating_sub(state.now_s));
            vec![name.clone(), fault.count.to_string(), left, fault.why.clone()]
        };
        let rows: Vec<Vec<String>> = state.faults.iter().map(row).collect();
        let head = ["policy", "failures", "left alone for", "why"];
        text += &(table(&head, &rows, Align::Left, output::style()) + "\n");
    }
    text.lines().map(|line| visible(line) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_told_in_a_few_lines() {
        let fault = Fault {
            count: 2,
            not_before_s: 1_800_000_000,
            why: "runnable task stall (a\u{1b}[1])".into(),
        };
        let state = State {
            in_charge: "cas".into(),
            for_s: 61,
            now_s: 1_800_000_000 - 540,
            policies: vec!["paceline".into(), "cas".into()],
            loads: 2,
            ejections: 1,
            faults: [("paceline".to_string(), fault)].into(),
            last_switch: Some(Switched {
                from: "paceline".into(),
                to: "cas".into(),
                window_s: Some(0.0124),
                prepared_s: 0.3,
            }),
            ..State::default()
        };
        let text = told(&state);
        assert!(
            text.starts_with("cas is in charge for 1m 1s\nloads: 2; ejected by the kernel: 1\n"),
            "{text}"
        );
        assert!(text.contains("cas is in charge, after paceline; default was in charge in between, for at most 12 ms"), "{text}");
        assert!(text.contains("9m") && !text.contains('\u{1b}'), "{text}");
    }
}
