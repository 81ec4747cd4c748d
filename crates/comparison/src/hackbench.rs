// SPDX-License-Identifier: GPL-2.0-only
//! hackbench's own command line, for the grounds that model it instead of running it.

use clap::error::ErrorKind;
use clap::{ArgAction, Parser};
use workload::hackbench::{Channel, Hackbench, Worker};

/// Limit of memory: tasks, and steps in all, as every sender has one for each receiver.
const TASKS_MAX: u64 = 1_000_000;
const STEPS_MAX: u64 = 50_000_000;

/// The options of rt-tests' hackbench that the model knows. Defaults are hackbench's own.
#[derive(Parser, Debug)]
#[command(name = "hackbench", disable_version_flag = true)]
struct Options {
    #[arg(short, long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    groups: u64,
    #[arg(short, long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    loops: u64,
    #[arg(short = 's', long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    datasize: u32,
    #[arg(short, long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    fds: u64,
    #[arg(short, long)]
    pipe: bool,
    #[arg(short = 'T', long, overrides_with = "process", action = ArgAction::SetTrue)]
    threads: bool,
    #[arg(short = 'P', long, overrides_with = "threads", action = ArgAction::SetTrue)]
    process: bool,
}

/// The model of this command line. None: it is another program. An error names the option that the
/// model does not know.
pub fn model(command: &[String]) -> Option<Result<Hackbench, String>> {
    let program = command.first()?;
    if program.rsplit('/').next() != Some("hackbench") {
        return None;
    }
    Some(Options::try_parse_from(command).map_err(first_line).and_then(of))
}

fn of(options: Options) -> Result<Hackbench, String> {
    let Options { groups, fds, .. } = options;
    let tasks = groups.saturating_mul(fds).saturating_mul(2);
    if tasks > TASKS_MAX || tasks.saturating_mul(fds) > STEPS_MAX {
        return Err(format!(
            "the model of hackbench: {groups} groups of {fds} senders and receivers are too many; \
             have fewer"
        ));
    }
    Ok(Hackbench {
        groups: groups as usize,
        loops: options.loops,
        bytes: options.datasize,
        fds: fds as usize,
        channel: if options.pipe { Channel::Pipe } else { Channel::Socket },
        worker: if options.threads { Worker::Thread } else { Worker::Process },
    })
}

fn first_line(error: clap::Error) -> String {
    let text = error.render().to_string();
    let line = text.lines().next().unwrap_or_default();
    let mend = match error.kind() {
        ErrorKind::ValueValidation => "",
        _ => "; it knows -g -l -s -f -p -T -P; use --on vm for others",
    };
    format!("the model of hackbench: {}{mend}", line.trim_start_matches("error: "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Option<Result<Hackbench, String>> {
        model(&line.split(' ').map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn options_mean_what_hackbench_means() {
        let model = parse("hackbench -g 4 -l 60 -p").unwrap().unwrap();
        assert_eq!((model.groups, model.loops, model.bytes, model.fds), (4, 60, 100, 20));
        assert_eq!((model.channel, model.worker), (Channel::Pipe, Worker::Process));
        let model = parse("/usr/bin/hackbench -g4 --loops=7 -s 512 -f 2 -T").unwrap().unwrap();
        assert_eq!((model.groups, model.loops, model.bytes, model.fds), (4, 7, 512, 2));
        assert_eq!((model.channel, model.worker), (Channel::Socket, Worker::Thread));
    }

    #[test]
    fn other_programs_and_options_are_not_guessed_at() {
        assert!(parse("make -j8").is_none());
        let error = parse("hackbench --fifo").unwrap().unwrap_err();
        assert!(error.contains("'--fifo'") && error.ends_with("use --on vm for others"), "{error}");
        let error = parse("hackbench -g 0").unwrap().unwrap_err();
        assert!(error.contains("0 is not in 1..") && !error.contains("--on vm"), "{error}");
    }

    #[test]
    fn what_fits_into_no_memory_is_refused() {
        for line in ["-g 99999999", "-g 18446744073709551615", "-g 1 -f 100000"] {
            let error = parse(&format!("hackbench {line}")).unwrap().unwrap_err();
            assert!(error.ends_with("have fewer"), "{error}");
        }
        assert!(parse("hackbench -g 1000").unwrap().is_ok());
    }
}
