// SPDX-License-Identifier: GPL-2.0-only
//! `paceline repro`: figures of papers, measured again.

use laboratory::Request;
use terminal::Failure;

use crate::cli::Repro;

/// Measures, shows, and fails unless every gate holds and no run failed.
pub fn run(args: &Repro) -> Result<(), Failure> {
    laboratory::run(Request {
        name: args.name.clone(),
        only: args.only.clone(),
        cells: args.cells.clone(),
        list: args.list,
        quick: args.quick,
        since: args.since.clone(),
        json: args.json,
        report: args.report.clone(),
        kernel: args.kernel.clone(),
        keep: args.keep.clone(),
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use crate::cli::Cli;

    #[test]
    fn the_help_names_every_paper() {
        let command = Cli::command();
        let repro = command.find_subcommand("repro").unwrap();
        let name = repro.get_arguments().find(|it| it.get_id() == "name").unwrap();
        let help = name.get_help().unwrap().to_string();
        let words: Vec<&str> =
            help.split(|letter: char| !"-".contains(letter) && !letter.is_alphanumeric()).collect();
        for name in laboratory::papers() {
            assert!(words.contains(&name), "{name}: {help}");
        }
    }
}
