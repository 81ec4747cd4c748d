// SPDX-License-Identifier: GPL-2.0-only
//! The command: reads the command line and calls one of its verbs.
//!
//! This is the front page of all crates. `ARCHITECTURE.md` has the same map with more words, and the rules that hold
//! everywhere.
//!
//! | to change | begin with |
//! |---|---|
//! | a scheduler | [`policies`], the list of all; [`flsched`] is the smallest, [`dino`] and [`uneven`] plan in Rust |
//! | what a policy is to all else | [`policy`]: [`policy::Policy`], [`policy::Instance`], [`policy::Control`] |
//! | the model of the kernel | [`sim`](../sim/index.html); [`comparison::Simulated`] runs it |
//! | hardware: caches, TLBs, memory, clocks | [`machine`] |
//! | what tasks do | [`workload`]; [`worker`](../worker/index.html) does it for real |
//! | what the kernel under test runs in | [`vm`], and [`live`], which loads policies and observes |
//! | recordings | [`record`] |
//! | which policies run which job, and where | [`comparison`]: [`comparison::Ground`] is what a ground has to do |
//! | figures of papers | [`laboratory`] |
//! | a policy as a service | [`service`]: `Ladder`, `Config`, `Request` |
//! | many simulations from one file | [`sweep`](../sweep/index.html): `Design`, `Run`, `Store` |
//! | what is measured, and how it is shown | [`trace`], [`report`] |
//! | this machine, described by measuring it | [`measuring`] |
//! | errors, progress, signals | [`terminal`] |

mod affinity;
mod again;
mod attempt;
mod cli;
mod compare;
mod complete;
mod completions;
mod config;
mod contest;
mod doctor;
mod doubt;
mod ending;
mod export;
mod import;
mod list;
mod measure;
mod nearness;
mod perfetto;
mod placed;
mod present;
mod record;
#[cfg(test)]
mod reference;
mod repro;
mod request;
mod run;
mod serving;
mod shares;
mod sweeps;
mod telling;
mod tried;
mod tune;
mod verdict;

use std::path::Path;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};
use comparison::POLICIES;
use terminal::{Failure, interrupt, meant, output, say_as_much_as};

use cli::{Cli, Verb};

fn main() -> ExitCode {
    completions::answer();
    interrupt::outlive_file_limits();
    interrupt::register_cleanup(vm::kernel::forget_fetch);
    match parse().and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::wait_again();
            if !matches!(failure, Failure::Closed | Failure::Status(_)) {
                output::say(&format!("paceline: {failure}"));
            }
            failure.code()
        }
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    say_as_much_as(cli.quiet, cli.verbose);
    match cli.verb {
        Verb::List(list) => list::run(&list),
        Verb::Compare(mut compare) => {
            config::fill_compare(&mut compare)?;
            compare::run(&compare)
        }
        Verb::Repro(repro) => repro::run(&repro),
        Verb::Sweep(sweep) => sweeps::run(&sweep),
        Verb::Tune(tune) => tune::run(&tune),
        Verb::Run(run) => run::run(&run),
        Verb::Serve(serve) => serving::serve(&serve),
        Verb::Top(args) => {
            let form = match (args.json, args.once) {
                (true, _) => top::Form::Json,
                (false, true) => top::Form::Text,
                (false, false) => top::Form::Screen,
            };
            top::run(*args.every, form, args.once)
        }
        Verb::Status(status) => serving::status(&status),
        Verb::Switch(switch) => serving::switch(&switch),
        Verb::Set(set) => serving::set(&set),
        Verb::Reload(reload) => serving::reload(&reload),
        Verb::Doctor(doctor) => doctor::run(&doctor),
        Verb::Measure(measure) => measure::run(&measure),
        Verb::Try(mut attempt) => {
            config::fill_try(&mut attempt)?;
            attempt::run(&attempt)
        }
        Verb::Record(record) => record::run(&record),
        Verb::Import(import) => import::run(&import),
        Verb::Shares(shares) => shares::run(&shares),
        Verb::Report(report) => again::run(&report),
        Verb::Config(config) => config::run(&config),
        Verb::Completions { shell } => completions::run(shell),
        Verb::Man { all: Some(folder), .. } => manuals(&folder),
        Verb::Man { verb, .. } => manual(verb.as_deref()),
        Verb::Guest { .. } => vm::guest::main(&POLICIES),
    }
}

/// Usage errors are one line like all others; help and version go to standard output.
fn parse() -> Result<Cli, Failure> {
    let error = match Cli::try_parse() {
        Ok(cli) => return Ok(cli),
        Err(error) => error,
    };
    let text = error.render().to_string();
    if !error.use_stderr() {
        output::print(&text)?;
        return Err(Failure::Closed);
    }
    if !text.starts_with("error: ") || error.kind() == ErrorKind::MissingSubcommand {
        let verbs = verbs();
        let (last, others) = verbs.split_last().expect("there are some");
        return Err(Failure::input(format!(
            "say what to do: {} or {last}; see paceline --help",
            others.join(", ")
        )));
    }
    Err(Failure::Input(one_line(&error, &text)))
}

/// clap's message about a wrong command line, without its usage, and how to fix it.
fn one_line(error: &clap::Error, text: &str) -> String {
    let end =
        ["\nUsage:", "\nFor more information"].iter().filter_map(|mark| text.find(mark)).min();
    let said = text[..end.unwrap_or(text.len())].trim_start_matches("error: ").trim();
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let said = lines.join(" ");
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let unknown = context(error, ContextKind::InvalidSubcommand);
            let proposal = meant::proposal(&unknown, verbs().iter().map(String::as_str));
            format!("there is no verb `{unknown}`; {proposal}there are: {}", verbs().join(", "))
        }
        ErrorKind::ValueValidation => {
            let why = std::error::Error::source(error).map_or(said, ToString::to_string);
            format!("{}: {why}", given(error))
        }
        ErrorKind::InvalidValue => {
            let values = match error.get(ContextKind::ValidValue) {
                Some(ContextValue::Strings(values)) if !values.is_empty() => values.join(", "),
                _ => return said,
            };
            format!("{}: expected one of {values}", given(error))
        }
        ErrorKind::UnknownArgument => {
            let unknown = context(error, ContextKind::InvalidArg);
            let meant = match &*context(error, ContextKind::SuggestedArg) {
                "" => String::new(),
                meant => format!("did you mean {meant}? "),
            };
            match unknown.starts_with('-') {
                true => format!("there is no option {unknown} here; {meant}see --help"),
                false => format!(
                    "unexpected argument {unknown}; see --help, or put `--` before a command that is to be run"
                ),
            }
        }
        ErrorKind::MissingRequiredArgument => said + "; see --help",
        ErrorKind::InvalidUtf8 => foreign_argument(),
        _ => said,
    }
}

/// An option with its given value: `--runs 0`.
fn given(error: &clap::Error) -> String {
    let option = context(error, ContextKind::InvalidArg);
    let option = option.split(" <").next().unwrap_or_default();
    format!("{option} {}", context(error, ContextKind::InvalidValue)).trim().to_string()
}

fn context(error: &clap::Error, kind: ContextKind) -> String {
    error.get(kind).map(ToString::to_string).unwrap_or_default()
}

/// The verbs that the help names.
fn verbs() -> Vec<String> {
    let command = Cli::command();
    let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    shown.map(|verb| verb.get_name().to_string()).collect()
}

/// The error for an argument that is not text: recordings contain the command as text.
fn foreign_argument() -> String {
    let foreign = std::env::args_os().find(|argument| argument.to_str().is_none());
    format!(
        "the argument {:?} is not UTF-8; give it another name, or put the command into a script",
        foreign.unwrap_or_default()
    )
}

fn manual(verb: Option<&str>) -> Result<(), Failure> {
    let mut command = Cli::command();
    command.build();
    let page = match verb {
        None => command,
        Some(name) => command.find_subcommand(name).cloned().ok_or_else(|| {
            Failure::input(format!("no verb is called `{name}`; see paceline --help"))
        })?,
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page)
        .render(&mut text)
        .map_err(|error| Failure::run(format!("cannot write the manual: {error}")))?;
    output::print(&String::from_utf8_lossy(&text))
}

/// Writes the manual of the command, and of each verb that its help names.
fn manuals(folder: &Path) -> Result<(), Failure> {
    let cannot = |error: std::io::Error| Failure::input(format!("{}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(cannot)?;
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    clap_mangen::generate_to(command, folder).map_err(cannot)
}
