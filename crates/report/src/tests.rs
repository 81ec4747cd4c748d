// SPDX-License-Identifier: GPL-2.0-only
//! Output of a comparison: keys that other programs rely on, pairing, names, escaping.

use trace::{MemoryUse, Missed, Observed, Outcome, Program, TaskObserved};

use crate::text::{count, digits, time};
use crate::{About, Answer, Clock, Origin, Results, Setting, Style, Verdict, comparison, html};

fn outcome(policy: &str, boot: usize, elapsed_ns: u64) -> Outcome {
    let mut observed = Observed {
        elapsed_ns,
        context_switches: 20,
        involuntary_switches: 4,
        idle_while_runnable_ns: elapsed_ns / 4,
        idle_ns: 2 * elapsed_ns - 500_000_000,
        ..Observed::default()
    };
    observed.tasks.insert(7, TaskObserved { cpu_ns: 500_000_000, ..TaskObserved::default() });
    Outcome {
        policy: policy.into(),
        boot,
        elapsed_ns,
        observed,
        names: [(7, "<worker>".to_string())].into(),
        ..Outcome::default()
    }
}

fn results(clock: Clock) -> Results {
    let setting = Setting {
        ground: "vm".into(),
        machine: "2 CPUs".into(),
        cpus: 2,
        workload: "hackbench -g 4 \"<&>\"".into(),
        seed: None,
        clock,
        kernel: None,
    };
    let outcomes = [
        outcome("default", 0, 1_000_000_000),
        outcome("flsched", 0, 500_000_000),
        outcome("default", 1, 4_000_000_000),
        outcome("flsched", 1, 1_000_000_000),
        outcome("flsched", 2, 9_000_000_000),
    ];
    Results::new(setting, &outcomes, false)
}

/// Runs of two policies; every figure differs from run to run.
fn varied() -> Results {
    let run = |policy: &str, boot: usize, by: u64| {
        let mut run = outcome(policy, boot, by * 100_000_000);
        let seen = &mut run.observed;
        seen.context_switches = 10 * by;
        seen.involuntary_switches = 3 * by;
        seen.address_space_switches = 2 * by;
        seen.migrations = by;
        seen.wait.p99_ns = by * 1_000_000;
        seen.wait.max_ns = by * 9_000_000;
        run
    };
    let outcomes: Vec<Outcome> = [5, 11, 8, 70]
        .into_iter()
        .enumerate()
        .flat_map(|(boot, by)| [run("default", boot, by), run("cas", boot, 2 * by + 1)])
        .collect();
    Results::new(results(Clock::Simulated).setting, &outcomes, false)
}

/// Cells of the row that begins with a policy's name, in a text table and on the page.
fn cells(text: &str, page: &str, policy: &str) -> (Vec<String>, Vec<String>) {
    let own = |line: &&str| line.starts_with(&format!("| {policy} "));
    let of_line = |line: &str| {
        line.split('|').map(|cell| cell.trim().to_string()).collect::<Vec<_>>()[1..].to_vec()
    };
    let text = text.lines().filter(own).flat_map(of_line).collect();
    let row = page.split("<tr>").find(|row| row.contains(&format!(">{policy}</th>"))).unwrap();
    let of_cell = |cell: &str| cell.split("</td>").next().unwrap().replace('\u{a0}', " ");
    (text, row.split("<td>").skip(1).map(of_cell).collect())
}

/// As `--wide` shows it.
const WIDE: Style = Style { wide: true, ..Style::PLAIN };

#[test]
fn a_figure_is_the_same_in_terminal_page_and_json() {
    let results = varied();
    let json: serde_json::Value = serde_json::from_str(&results.json()).unwrap();
    let (text, page) = (comparison(&results, WIDE), html::comparison(&results, &Origin::default()));
    for (at, one) in results.summary.iter().enumerate() {
        let (line, row) = cells(&text, &page, &one.policy);
        let json = &json["summary"][at];
        let median = |key: &str| json[key]["median"].as_f64().unwrap();
        let ratio = format!("{}×", digits(json["vs_first"].as_f64().unwrap()));
        for (what, shown) in [
            ("elapsed", time(median("elapsed_s"))),
            ("ratio", ratio),
            ("idle while runnable", time(median("idle_while_runnable_s"))),
            ("switches", count(median("context_switches"))),
            ("involuntary", count(median("involuntary_switches"))),
            ("mm switches", count(median("address_space_switches"))),
            ("migrations", count(median("migrations"))),
            ("wait p99", time(median("wait_p99_s"))),
            ("worst wait", time(json["worst_wait_s"].as_f64().unwrap())),
        ] {
            let has = |cell: &String| *cell == shown || cell.starts_with(&format!("{shown} ("));
            assert!(line.iter().any(has), "{what} in the terminal: {shown} of {line:?}");
            assert!(row.iter().any(has), "{what} on the page: {shown} of {row:?}");
        }
    }
    assert_eq!(json["summary"][0]["worst_wait_s"], 0.63, "the longest of all runs");
}

#[test]
fn an_answer_stands_first_with_its_command_whole() {
    let mut results = varied();
    let next = format!("paceline run cas --for 60s -- sh -c 'echo {}  &&  true'", "x ".repeat(60));
    let said = Answer::new(Verdict::Try, "Try <cas> first".into(), vec!["It costs nothing".into()]);
    results.answer = Some(Answer { next: Some(next.clone()), ..said });
    let text = comparison(&results, Style::PLAIN);
    let wanted = format!("Try <cas> first.\nIt costs nothing.\nnext: {next}\n\n");
    assert!(text.starts_with(&wanted), "{text}");
    let colored = comparison(&results, Style { color: true, ..Style::PLAIN });
    assert!(colored.starts_with("\u{1b}[1m\u{1b}[32mTry <cas> first."), "{colored:?}");
    let page = html::comparison(&results, &Origin::default());
    let (answer, table) = (page.find("Try &lt;cas&gt; first."), page.find("<table>"));
    assert!(answer.is_some() && answer < table, "{answer:?} {table:?}");
    assert!(page.contains(&html::escape(&next)));
    let json: serde_json::Value = serde_json::from_str(&results.json()).unwrap();
    let answer = &json["answer"];
    assert_eq!((&answer["verdict"], &answer["next"]), (&"try".into(), &next.into()));
    assert_eq!(answer["why"], "Try <cas> first. It costs nothing.");
}

#[test]
fn a_narrow_terminal_has_fewer_columns_and_whole_words() {
    let lines = |width| {
        let text = comparison(&varied(), Style { width, ..Style::PLAIN });
        let table: Vec<String> =
            text.lines().filter(|line| line.starts_with('|')).map(String::from).collect();
        assert!(table.iter().all(|line| line.chars().count() <= width as usize), "{text}");
        assert!(text.contains("| policy") && text.contains("1.00×"), "{text}");
        table.join("\n")
    };
    assert!(lines(120).contains("migrations"));
    let phone = lines(60);
    assert!(phone.contains("idle") && !phone.contains("migrations"), "{phone}");
}

#[test]
fn a_program_has_the_medians_of_all_runs() {
    let run = |boot, elapsed_ns, ended: bool| {
        let mut run = outcome("default", boot, elapsed_ns);
        let one = |process_ns| Program {
            threads: 2,
            process_ns,
            elapsed_ns: ended.then_some(elapsed_ns),
            missed: Missed { dtlb_user: elapsed_ns / 1_000_000, ..Missed::default() },
        };
        let programs = [("chat", one(3 * elapsed_ns)), ("make", one(elapsed_ns))];
        let programs = programs.map(|(name, one)| (name.to_string(), one)).into();
        run.memory = Some(MemoryUse { programs, ..MemoryUse::default() });
        run
    };
    let shown = |runs: &[Outcome]| {
        comparison(&Results::new(results(Clock::Simulated).setting, runs, false), WIDE)
    };
    let second = 1_000_000_000;
    let text = shown(&[run(0, second, true), run(1, 5 * second, true), run(2, 3 * second, true)]);
    assert!(text.contains("| default |    chat |       2 |      3,000 |            0 |"), "{text}");
    assert!(text.contains("9.00 s |  3.00 s |"), "{text}");
    let text = shown(&[run(0, second, true), run(1, second, false)]);
    assert!(text.contains("3.00 s |       – |"), "it did not end in one of the runs: {text}");
}

/// Fields of each run, under the names in JSON and tables.
const MEASURES: &[&str] = &[
    "elapsed_s",
    "context_switches",
    "involuntary_switches",
    "address_space_switches",
    "migrations",
    "idle_while_runnable_s",
    "wait_p99_s",
    "wait_max_s",
];

#[test]
fn json_has_the_keys_that_others_rely_on() {
    let value: serde_json::Value = serde_json::from_str(&results(Clock::Dilated).json()).unwrap();
    for key in ["ground", "machine", "workload", "seed", "clock", "runs", "summary"] {
        assert!(value.get(key).is_some(), "{key}");
    }
    for key in MEASURES.iter().chain(&["policy", "run", "page_moves", "tasks", "fairness"]) {
        assert!(value["runs"][0].get(key).is_some(), "{key}");
    }
    assert_eq!(value["clock"], "dilated");
    for key in ["page_moves", "fairness"] {
        assert!(value["runs"][0][key].is_null(), "{key}: unknown is null and not zero");
    }
    assert_eq!(value["runs"][0]["tasks"][0]["cpu_s"], 0.5);
    assert_eq!(value["summary"][1]["elapsed_s"]["median"], 1.0);
}

#[test]
fn what_others_named_commands_no_terminal() {
    let mut results = results(Clock::Dilated);
    results.setting.workload = "load\u{1b}[2J".into();
    results.setting.machine = "mine\u{7}\nand another line".into();
    results.setting.kernel = Some("7.2\u{9b}".into());
    let text = comparison(&results, Style::PLAIN);
    assert!(text.starts_with(
        "load\u{fffd}[2J on vm (mine\u{fffd}\u{fffd}and another line), clock dilated\nkernel 7.2\u{fffd}\n"
    ));
}

#[test]
fn the_ratio_to_the_first_policy_pairs_runs_of_one_boot() {
    let summary = &results(Clock::Dilated).summary[1];
    // 0.5 in boot 0 and 0.25 in boot 1; boot 2 has no partner.
    assert_eq!(summary.vs_first, Some(0.375));
    assert_eq!(summary.vs_first_range.unwrap().max, 0.5);
    assert_eq!(summary.idle_while_runnable_share.unwrap().median, 0.125);
}

#[test]
fn what_was_not_observed_is_not_a_zero() {
    let mut blind = outcome("default", 0, 1_000_000_000);
    blind.observed = Observed::default();
    let results = Results::new(results(Clock::Threads).setting, &[blind], false);
    let value: serde_json::Value = serde_json::from_str(&results.json()).unwrap();
    assert!(value["runs"][0]["context_switches"].is_null());
    assert!(value["summary"][0]["wait_max_s"].is_null());
    assert!(!comparison(&results, Style::PLAIN).contains(" 0 |"));
}

#[test]
fn a_run_with_lost_events_keeps_its_time() {
    let mut lost = outcome("default", 0, 1_000_000_000);
    lost.observed = Observed::default();
    lost.extra.insert(trace::OBSERVER_LOST.into(), 7.0);
    let whole = outcome("cas", 0, 1_000_000_000);
    let results = Results::new(results(Clock::Threads).setting, &[lost, whole], false);
    assert_eq!(results.summary[0].elapsed_s.median, 1.0);
    let said = comparison(&results, Style::PLAIN);
    assert!(said.contains("more happened than can be noted in 1 run,"), "{said}");
}

#[test]
fn energy_is_shown_where_it_was_counted() {
    let wide = Style { wide: true, ..Style::PLAIN };
    let dull = comparison(&results(Clock::Real), wide);
    assert!(!dull.contains("energy"), "{dull}");
    let counted = |policy: &str, energy_j: f64| trace::Outcome {
        energy_j: Some(energy_j),
        ..outcome(policy, 0, 1_000_000_000)
    };
    let outcomes = [counted("default", 100.0), counted("cas", 62.5)];
    let results = Results::new(results(Clock::Real).setting, &outcomes, false);
    let said = comparison(&results, wide);
    assert!(said.contains(" 62.5 J |") && said.contains("energy: of the processors"), "{said}");
    let value: serde_json::Value = serde_json::from_str(&results.json()).unwrap();
    assert_eq!(value["runs"][1]["energy_j"], 62.5);
    assert_eq!(value["summary"][0]["energy_j"]["median"], 100.0);
    let page = html::comparison(&results, &Origin::default());
    assert!(page.contains(">energy<"), "{page}");
}

#[test]
fn seconds_under_icount_are_called_work() {
    let work = comparison(&results(Clock::Dilated), Style::PLAIN);
    assert!(work.contains(" work |") && !work.contains("elapsed"), "{work}");
    let time = comparison(&results(Clock::Threads), Style::PLAIN);
    assert!(time.contains(" elapsed |") && !time.contains("guest work"), "{time}");
    let wide = work.lines().find(|line| line.chars().count() > 100);
    assert_eq!(wide, None);
}

#[test]
fn a_page_stands_alone_and_escapes_what_it_shows() {
    let page = html::comparison(&results(Clock::Dilated), &Origin::default());
    assert!(!page.contains("<worker>") && page.contains("&lt;worker&gt;"));
    assert!(!page.contains("\"<&>\""));
    for external in ["src=", "@import", "url(", "<link", "<script"] {
        assert!(!page.contains(external), "{external}");
    }
    assert!(page.contains("prefers-color-scheme: dark") && page.contains("role=\"img\""));
    assert!(page.contains("download=\"paceline.json\""));
}

#[test]
fn the_table_of_a_page_is_the_one_for_other_programs() {
    let results = results(Clock::Dilated);
    let mut table = Vec::new();
    crate::csv::runs(&results, &mut table).unwrap();
    let table = String::from_utf8(table).unwrap();
    let page = html::comparison(&results, &Origin::default());
    assert!(page.contains(&html::download("paceline.csv", "text/csv", &table)));
    let columns: Vec<&str> = table.lines().next().unwrap().split(',').collect();
    for column in MEASURES.iter().chain(&["policy", "boot", "run"]) {
        assert!(columns.contains(column), "{column}: {columns:?}");
    }
    assert_eq!(table.lines().count(), 1 + results.runs.len());
}

#[test]
fn rows_of_a_plot_stand_in_the_order_of_the_table() {
    let rows = [("first".to_string(), 1.0), ("second".to_string(), 2.0)];
    let svg = crate::plot::bars("title", "s", &rows);
    let height = |name: &str| -> u32 {
        let text = svg.lines().collect::<Vec<_>>();
        let at = text.iter().position(|line| line.trim() == name).unwrap();
        let y = text[at - 1].split(" y=\"").nth(1).unwrap();
        y.split('"').next().unwrap().parse().unwrap()
    };
    assert!(height("first") < height("second"), "{svg}");
}

#[test]
fn a_lone_row_has_its_name_and_its_bar() {
    let svg = crate::plot::bars("title", "s", &[("only".into(), 1.0)]);
    assert!(svg.lines().any(|line| line.trim() == "only"), "{svg}");
    assert!(svg.contains("<rect"), "{svg}");
}

#[test]
fn names_in_a_plot_are_escaped() {
    let svg = crate::plot::bars("a<b", "s", &[("<i>&".into(), 1.0)]);
    assert!(!svg.contains("<i>") && !svg.contains("a<b"), "{svg}");
}

#[test]
fn progress_of_programs_is_shown_if_policies_differ() {
    let run = |policy: &str, work: [f64; 3]| {
        let mut run = outcome(policy, 0, 1_000_000_000);
        for (at, (name, work)) in ["nginx-0", "nginx-1", "x265"].into_iter().zip(work).enumerate() {
            let tid = 20 + at as u32;
            run.observed.tasks.insert(tid, TaskObserved::default());
            run.names.insert(tid, name.to_string());
            run.progress.insert(tid, work);
        }
        run
    };
    let table = |other: [f64; 3]| {
        let outcomes = [run("default", [30.0, 50.0, 100.0]), run("avx-fair", other)];
        let results = Results::new(results(Clock::Threads).setting, &outcomes, false);
        (comparison(&results, Style::PLAIN), html::comparison(&results, &Origin::default()))
    };
    let (text, page) = table([50.0, 50.0, 90.0]);
    let outcomes = [run("default", [30.0, 50.0, 100.0]), run("avx-fair", [50.0, 50.0, 90.0])];
    let told = crate::progress(&Results::new(results(Clock::Threads).setting, &outcomes, false));
    assert_eq!(told, ["avx-fair: x265 0.90×, nginx 1.25×"]);
    assert!(text.contains("| nginx   |       2 |    1.25× |"), "{text}");
    assert!(text.contains("| x265    |       1 |    0.90× |"), "{text}");
    assert!(!text.contains("| <worker>"), "it is not known what it did: {text}");
    assert!(page.contains("Work that a thread got done") && page.contains("1.25×"));
    // All runs ran to the end, in another order.
    let (text, page) = table([50.0, 30.0, 100.0]);
    assert!(!text.contains("got done") && !page.contains("got done"), "{text}");
}

/// A build has thousands of processes. Its page still opens at once.
#[test]
fn a_page_of_many_tasks_is_small() {
    let many = |boot| {
        let mut many = outcome("default", boot, 1_000_000_000);
        for tid in 1..=2000 {
            let seen =
                TaskObserved { cpu_ns: 1_234_567 + u64::from(tid), ..TaskObserved::default() };
            many.observed.tasks.insert(tid, seen);
            many.names.insert(tid, format!("cc1-{tid}"));
        }
        many
    };
    let setting = results(Clock::Simulated).setting;
    let outcomes: Vec<Outcome> = (0..20).map(many).collect();
    let results = Results::new(setting, &outcomes, false);
    let page = html::comparison(&results, &Origin::default());
    assert!(page.len() < 3_000_000, "{} bytes", page.len());
    assert!(page.contains("tasks are of the first run"));
    let data: serde_json::Value = serde_json::from_str(&results.json_for_page()).unwrap();
    let tasks = |run: usize| data["runs"][run]["tasks"].as_array().map(Vec::len);
    assert_eq!((tasks(0), tasks(1)), (Some(2000), None));
    assert!(!results.json_for_page().contains("null"));
}

#[test]
fn no_name_commands_the_terminal() {
    let mut results = results(Clock::Icount);
    results.notes.push("\u{1b}[2J is its name".into());
    let rows = [vec!["\u{1b}]0;title\u{7}".to_string(), "1".to_string()]];
    let table = crate::text::table(&["task", "s"], &rows, crate::text::Align::Left, Style::PLAIN);
    let said = comparison(&results, Style::PLAIN) + &table;
    assert!(said.chars().all(|c| !c.is_control() || c == '\n'), "{said:?}");
}

#[test]
fn the_machine_stands_below_the_workloads_own_tasks() {
    let mut own = outcome("default", 0, 1_000_000_000);
    let mut machine = own.observed.clone();
    machine.context_switches = 1234;
    machine.tasks.insert(8, TaskObserved { cpu_ns: 250_000_000, ..TaskObserved::default() });
    machine.idle_ns -= 250_000_000;
    own.observed.idle_ns = machine.idle_ns;
    own.machine = Some(Box::new(machine));
    let results = Results::new(results(Clock::Real).setting, &[own], false);
    let text = comparison(&results, WIDE);
    assert!(text.contains("| default         |       20 |"), "{text}");
    assert!(text.contains("| - whole machine |    1,234 |"), "{text}");
    assert!(text.contains("are of the workload's own tasks"), "{text}");
    assert!(html::comparison(&results, &Origin::default()).contains("<td>1,234</td>"));
    let value: serde_json::Value = serde_json::from_str(&results.json()).unwrap();
    let run = &value["runs"][0];
    assert_eq!(
        (&run["context_switches"], &run["machine"]["context_switches"]),
        (&20.into(), &1234.into())
    );
    assert_eq!(
        (run["process_s"].as_f64(), run["machine"]["process_s"].as_f64()),
        (Some(0.5), Some(0.75))
    );
    // 250 ms of the two CPUs' two seconds: other tasks' time is part of the total.
    assert_eq!(run["idle_while_runnable_share"].as_f64(), Some(0.125));
    assert_eq!(run["tasks"].as_array().map(Vec::len), Some(1));
    assert_eq!(value["summary"][0]["machine"]["context_switches"]["median"], 1234.0);
}

#[test]
fn ratios_are_withheld_of_those_named_and_of_all_where_the_first_is() {
    let shown = |named: &[&str]| {
        let mut results = results(Clock::Dilated);
        results.withhold_ratios(&named.iter().copied().collect());
        results.summary.iter().map(|one| one.vs_first.is_some()).collect::<Vec<_>>()
    };
    assert_eq!(shown(&[]), [true, true]);
    assert_eq!(shown(&["flsched"]), [true, false]);
    assert_eq!(shown(&["default"]), [false, false]);
    let mut results = results(Clock::Dilated);
    results.withhold_ratios(&["default"].into());
    let text = comparison(&results, Style::PLAIN);
    assert!(!text.contains("1.00×") && !text.contains("0.38×"), "{text}");
}

#[test]
fn a_page_says_how_much_what_differs_and_how_to_make_it_again() {
    let mut faster = varied();
    let origin = Origin {
        version: "1.2".into(),
        date: "2026-11-28".into(),
        command: "paceline compare --policy default,<cas>".into(),
        policies: vec![About {
            policy: "cas".into(),
            text: "runs siblings in a row".into(),
            page: Some("https://example.org/cas.html".into()),
        }],
    };
    let page = html::comparison(&faster, &origin);
    let order = ["How much, and how sure", "What each policy did differently", "<h2>Figures</h2>"];
    let places: Vec<usize> = order.iter().map(|what| page.find(what).expect(what)).collect();
    assert!(places.is_sorted(), "{places:?}");
    assert!(page.contains("Again: <code>paceline compare --policy default,&lt;cas&gt;</code>"));
    let link = "<a href=\"https://example.org/cas.html\">More about cas</a>";
    assert!(page.contains("runs siblings in a row") && page.contains(link));
    let said = crate::differences::sentences(&faster);
    assert_eq!(said.len(), faster.summary.len() - 1);
    // Withheld ratios are in no chart either.
    let all: Vec<String> = faster.summary.iter().map(|one| one.policy.clone()).collect();
    faster.withhold_ratios(&all.iter().map(String::as_str).collect());
    assert!(!html::comparison(&faster, &origin).contains("How much, and how sure"));
}

#[test]
fn a_result_is_read_again_as_it_was_and_two_stand_side_by_side() {
    let mut results = varied();
    results.notes.push("a note".into());
    results.answer = Some(Answer::new(Verdict::Stay, "Stay".into(), Vec::new()));
    let again = Results::from_json(&results.json()).unwrap();
    assert_eq!(comparison(&again, WIDE), comparison(&results, WIDE));
    let of_page = Results::from_json(&results.json_for_page()).unwrap();
    assert_eq!(comparison(&of_page, WIDE), comparison(&results, WIDE));
    assert!(Results::from_json("{}").is_err());
    let both = results.clone().beside(again, ["before", "after"]);
    let names: Vec<&str> = both.summary.iter().map(|one| one.policy.as_str()).collect();
    assert_eq!(names.len(), 2 * results.summary.len());
    assert_eq!(both.summary[0].policy, "default (before)");
    let after = both.summary.iter().find(|one| one.policy == "default (after)").unwrap();
    assert_eq!(after.vs_first, Some(1.0));
    assert_eq!(both.notes, ["before: a note", "after: a note"]);
}
