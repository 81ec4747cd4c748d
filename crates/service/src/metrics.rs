// SPDX-License-Identifier: GPL-2.0-only
//! The service's metrics: `docs/src/reference/metrics.md` lists them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use live::{BUCKETS, Energy, Meter, Reading, Table, Use, bucket_end_ns};
use measuring::topology_here;
use policy::Topology;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, MetricEncoder, NoLabelSet, prometheus_text, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use report::text::visible;

use crate::config::Metrics;
use crate::request::{RUNTIME, Shown};
use crate::scrape::{Form, Scraped};
use crate::status::Status;

/// All that is told, of one moment.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// The service's state.
    pub status: Status,
    /// The meter's sums; None: the meter could not be attached.
    pub reading: Option<Reading>,
    /// Kinds of cores and memory domains, by CPU.
    pub topology: Topology,
    /// J since the service began, by the part of the machine.
    pub energy: BTreeMap<String, f64>,
}

/// Ends of the buckets that are told: each fourth of the meter's, from 4.1 µs to 4.3 s, by a factor of four.
fn ends() -> impl Iterator<Item = usize> {
    (4..BUCKETS - 1).step_by(4)
}

/// The name of all that has no name of its own, for want of room.
const REST: &str = "(others)";

/// Begins to measure, and listens for scrapes. Returns what an administrator should know of it, too.
pub fn begin(config: &Metrics, core_types: Option<&str>, shown: Shown) -> (Scraped, Vec<String>) {
    let mut warnings = Vec::new();
    let mut warn = |what: &str, error: &dyn fmt::Display| {
        warnings.push(format!("metrics: {what}: {error:#}"));
    };
    let topology = topology_here(core_types);
    let topology = topology.map_err(|error| warn("kinds of cores are not known", &error));
    let topology = topology.unwrap_or_default();
    let meter = Meter::attach(topology.core_type.len(), config.names);
    let mut meter = meter.map_err(|error| warn("waits are not measured", &error)).ok();
    let energy = Energy::here().follow();
    let mut fresh: Option<(Instant, Arc<Told>)> = None;
    let make = move |form| {
        let told = match &fresh {
            Some((at, told)) if at.elapsed() < FRESH => told,
            _ => {
                let status = shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let reading = meter.as_mut().and_then(|meter| meter.read().ok());
                let topology = topology.clone();
                let told = Told { status, reading, topology, energy: energy.read() };
                &fresh.insert((Instant::now(), Arc::new(told))).1
            }
        };
        page(told, form)
    };
    let mode = if config.users { 0o666 } else { 0o600 };
    let socket = Path::new(RUNTIME).join("metrics");
    let mut scraped = Scraped::new(Arc::new(Mutex::new(make)));
    let on_socket = scraped.on_socket(&socket, mode);
    let _ = on_socket.map_err(|error| warn(&socket.display().to_string(), &error));
    if let Some(tcp) = config.listen {
        let _ = scraped.on_tcp(tcp).map_err(|error| warn(&tcp.to_string(), &error));
    }
    (scraped, warnings)
}

/// The meter is read again after this time, however often it is scraped.
const FRESH: Duration = Duration::from_millis(500);

/// The page that a scrape gets.
fn page(told: &Arc<Told>, form: Form) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Collected(told.clone())));
    let mut page = String::new();
    // Writing to a string does not fail.
    let _ = match form {
        Form::OpenMetrics => text::encode(&mut page, &registry),
        Form::Prometheus => prometheus_text::encode(&mut page, &registry),
    };
    page
}

/// A gauge of what is so, or is not.
fn flag(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}

/// Labels, and a value.
type Row = (Vec<(&'static str, String)>, f64);

/// Writes families of metrics.
struct Writer<'a>(DescriptorEncoder<'a>);

impl Writer<'_> {
    fn family(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&str>,
        kind: MetricType,
        write: impl FnOnce(&mut MetricEncoder<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let unit = unit.map(|unit| Unit::Other(unit.into()));
        let name = format!("paceline_{name}");
        write(&mut self.0.encode_descriptor(&name, help, unit.as_ref(), kind)?)
    }

    fn gauges(&mut self, name: &str, help: &str, unit: Option<&str>, of: &[Row]) -> fmt::Result {
        self.family(name, help, unit, MetricType::Gauge, |to| {
            of.iter().try_for_each(|(labels, value)| match labels.is_empty() {
                true => to.encode_gauge(value),
                false => to.encode_family(&&**labels)?.encode_gauge(value),
            })
        })
    }

    fn counters(&mut self, name: &str, help: &str, unit: Option<&str>, of: &[Row]) -> fmt::Result {
        self.family(name, help, unit, MetricType::Counter, |to| {
            of.iter().try_for_each(|(labels, value)| match labels.is_empty() {
                true => to.encode_counter::<NoLabelSet, _, f64>(value, None),
                false => {
                    to.encode_family(&&**labels)?.encode_counter::<NoLabelSet, _, f64>(value, None)
                }
            })
        })
    }
}

#[derive(Debug)]
struct Collected(Arc<Told>);

impl Collector for Collected {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.all(&mut Writer(encoder))
    }
}

impl Told {
    fn all(&self, to: &mut Writer<'_>) -> fmt::Result {
        self.state(to)?;
        if let Some(reading) = &self.reading {
            self.cpus(to, reading)?;
            uses(to, "cgroup", &reading.cgroups)?;
            uses(to, "program", &reading.programs)?;
        }
        let energy: Vec<_> = self
            .energy
            .iter()
            .map(|(part, joules)| (vec![("part", visible(part))], *joules))
            .collect();
        if !energy.is_empty() {
            to.counters(
                "energy",
                "Energy since the service began, of a part of the machine; a part may hold others",
                Some("joules"),
                &energy,
            )?;
        }
        Ok(())
    }

    fn state(&self, to: &mut Writer<'_>) -> fmt::Result {
        let Status { in_charge, policies, faults, .. } = &self.status;
        let now_s = self.status.now_s;
        let version = vec![("version", self.status.version.clone())];
        to.gauges("build_info", "The version of the service", None, &[(version, 1.0)])?;
        let mut known: Vec<&String> =
            policies.iter().chain([in_charge]).chain(faults.keys()).collect();
        known.sort();
        known.dedup();
        let by_policy = |value: &dyn Fn(&str) -> f64| -> Vec<Row> {
            known.iter().map(|label| (vec![("policy", visible(label))], value(label))).collect()
        };
        let stands_aside = self.status.stands_aside_for.is_some();
        to.gauges(
            "policy_in_charge",
            "1 of the policy in charge of the machine's tasks, with its knobs; default is Linux's own class",
            None,
            &by_policy(&|label| flag(label == in_charge && !stands_aside)),
        )?;
        to.gauges(
            "stands_aside",
            "1 while another scheduler is in charge, and the service stands aside",
            None,
            &[(Vec::new(), flag(stands_aside))],
        )?;
        to.gauges(
            "policy_left_alone",
            "1 while a policy is left alone after failures",
            None,
            &by_policy(&|label| {
                let until_s = faults.get(label).map_or(0, |fault| fault.not_before_s);
                flag(until_s > now_s)
            }),
        )?;
        to.gauges(
            "meter_up",
            "1 if CPU time and waits are measured",
            None,
            &[(Vec::new(), flag(self.reading.is_some()))],
        )?;
        to.gauges(
            "policy_failures",
            "Failures of a policy in a row",
            None,
            &by_policy(&|label| faults.get(label).map_or(0.0, |fault| f64::from(fault.count))),
        )?;
        to.gauges(
            "policy_age",
            "How long the policy has been in charge",
            Some("seconds"),
            &[(Vec::new(), self.status.for_s as f64)],
        )?;
        to.counters(
            "policy_loads",
            "Policies that were loaded since the service began",
            None,
            &[(Vec::new(), self.status.loads as f64)],
        )?;
        to.counters(
            "policy_ejections",
            "Policies that the kernel ejected since the service began",
            None,
            &[(Vec::new(), self.status.ejections as f64)],
        )?;
        if let Some(window_s) = self.status.last_switch.as_ref().and_then(|last| last.window_s) {
            to.gauges(
                "last_switch_window",
                "How long Linux's own class was in charge in the last switch, at most",
                Some("seconds"),
                &[(Vec::new(), window_s)],
            )?;
        }
        let counts: Vec<_> = self
            .status
            .counts
            .iter()
            .map(|(name, value)| {
                (vec![("policy", visible(in_charge)), ("count", visible(name))], *value)
            })
            .collect();
        if !counts.is_empty() {
            to.counters(
                "policy_count",
                "What the policy in charge has counted, in the unit at the end of the count's name",
                None,
                &counts,
            )?;
        }
        Ok(())
    }

    fn cpus(&self, to: &mut Writer<'_>, reading: &Reading) -> fmt::Result {
        let mut places = BTreeMap::<[u16; 2], [f64; 6]>::new();
        for (cpu, of) in &reading.cpus {
            let at = |table: &[u16]| table.get(*cpu).copied().unwrap_or(0);
            let sums =
                places.entry([at(&self.topology.core_type), at(&self.topology.node)]).or_default();
            let more = [
                of.busy_ns as f64 / 1e9,
                of.switches as f64,
                of.preemptions as f64,
                of.wakeups as f64,
                of.migrations as f64,
                1.0,
            ];
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
        let by_place = |which: usize| -> Vec<Row> {
            places
                .iter()
                .map(|([kind, node], sums)| {
                    (vec![("kind", kind.to_string()), ("node", node.to_string())], sums[which])
                })
                .collect()
        };
        to.gauges(
            "cpus",
            "CPUs, by their kind of core (0 is the fastest) and memory node",
            None,
            &by_place(5),
        )?;
        to.counters("busy", "CPU time with a task", Some("seconds"), &by_place(0))?;
        to.counters(
            "context_switches",
            "Switches from one task, or from none, to another",
            None,
            &by_place(1),
        )?;
        to.counters(
            "preemptions",
            "Switches from a task that could have gone on",
            None,
            &by_place(2),
        )?;
        to.counters(
            "wakeups",
            "Tasks that became runnable, by what ran on a CPU",
            None,
            &by_place(3),
        )?;
        to.counters(
            "migrations",
            "Turns of tasks that had their last one on another CPU, by the CPU that they came to",
            None,
            &by_place(4),
        )
    }
}

/// CPU time and waits by cgroup or by program.
fn uses(to: &mut Writer<'_>, by: &'static str, table: &Table) -> fmt::Result {
    // Two names that are shown alike are one series.
    let mut by_name = BTreeMap::<String, Cow<'_, Use>>::new();
    let named = table.of.iter().map(|(name, of)| (&**name, of));
    for (name, of) in named.chain(table.rest.iter().map(|rest| (REST, rest))) {
        match by_name.entry(visible(name)) {
            Entry::Vacant(new) => drop(new.insert(Cow::Borrowed(of))),
            Entry::Occupied(mut alike) => *alike.get_mut().to_mut() += of,
        }
    }
    let each = by_name.into_iter().map(|(name, of)| (vec![(by, name)], of));
    let each: Vec<(Vec<_>, Cow<'_, Use>)> = each.collect();
    let rest = flag(table.is_full);
    to.gauges(
        &format!("{by}s_beyond_room"),
        &format!("1 while there is no room for another {by}; the rest is under {REST}"),
        None,
        &[(Vec::new(), rest)],
    )?;
    let help = format!("CPU time of a {by}'s tasks");
    to.family(&format!("{by}_cpu"), &help, Some("seconds"), MetricType::Counter, |to| {
        each.iter().try_for_each(|(labels, of)| {
            let run_s = of.run_ns as f64 / 1e9;
            to.encode_family(&&**labels)?.encode_counter::<NoLabelSet, _, f64>(&run_s, None)
        })
    })?;
    let help = format!("Waits of a {by}'s tasks for a CPU");
    to.family(&format!("{by}_wait"), &help, Some("seconds"), MetricType::Histogram, |to| {
        each.iter().try_for_each(|(labels, of)| {
            let mut at = 0;
            let mut buckets: Vec<(f64, u64)> = ends()
                .map(|end| {
                    let count: u64 = of.buckets[at..=end].iter().sum();
                    at = end + 1;
                    (bucket_end_ns(end).unwrap_or_default() as f64 / 1e9, count)
                })
                .collect();
            buckets.push((f64::INFINITY, of.buckets[at..].iter().sum()));
            let all = of.buckets.iter().sum();
            to.encode_family(&&**labels)?.encode_histogram::<NoLabelSet>(
                of.wait_ns as f64 / 1e9,
                all,
                &buckets,
                None,
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::ladder::Fault;
    use crate::status::Switched;

    fn used(waits_ns: &[u64]) -> Use {
        let mut of = Use { run_ns: 2_500_000_000, ..Use::default() };
        for ns in waits_ns {
            let bucket = (0..BUCKETS).find(|at| bucket_end_ns(*at).is_none_or(|end| *ns < end));
            of.buckets[bucket.unwrap()] += 1;
            of.waits += 1;
            of.wait_ns += ns;
        }
        of
    }

    fn told() -> Told {
        let fault = Fault { count: 2, not_before_s: 9, why: "secret".into() };
        let status = Status {
            version: "0.1.0".into(),
            in_charge: "cas:slice=50ms".into(),
            policies: vec!["paceline".into(), "cas:slice=50ms".into()],
            faults: [("paceline".to_string(), fault)].into(),
            counts: [("refunded_ns".to_string(), 7.0)].into(),
            loads: 3,
            ..Status::default()
        };
        let cpu = live::Cpu { busy_ns: 1_500_000_000, switches: 10, ..live::Cpu::default() };
        let hostile = "/a\"} 1\nevil{\\\u{1b}[2J";
        let cgroups = [("/web", used(&[2000, 5_000_000, 20_000_000_000])), (hostile, used(&[]))];
        let cgroups = cgroups.map(|(name, of)| (name.to_string(), of)).into();
        let rest = Some(used(&[100]));
        let reading = Reading {
            cpus: [(0, cpu.clone()), (3, cpu)].into(),
            programs: Table { of: [("web".to_string(), used(&[3000]))].into(), ..Table::default() },
            cgroups: Table { of: cgroups, rest, is_full: true },
            ..Reading::default()
        };
        let topology =
            Topology { core_type: vec![0, 0, 0, 1], node: vec![0; 4], ..Topology::default() };
        Told {
            status,
            reading: Some(reading),
            topology,
            energy: [("package-0".into(), 12.5)].into(),
        }
    }

    #[test]
    fn a_page_has_units_in_its_names_and_histograms_that_add_up() {
        let page = page(&told().into(), Form::OpenMetrics);
        for line in [
            "paceline_policy_in_charge{policy=\"cas:slice=50ms\"} 1.0",
            "paceline_policy_in_charge{policy=\"paceline\"} 0.0",
            "paceline_policy_failures{policy=\"paceline\"} 2.0",
            "paceline_policy_left_alone{policy=\"paceline\"} 1.0",
            "paceline_stands_aside 0.0",
            "paceline_meter_up 1.0",
            "paceline_cpus{kind=\"0\",node=\"0\"} 1.0",
            "paceline_policy_loads_total 3.0",
            "paceline_policy_count_total{policy=\"cas:slice=50ms\",count=\"refunded_ns\"} 7.0",
            "paceline_busy_seconds_total{kind=\"1\",node=\"0\"} 1.5",
            "paceline_cgroup_cpu_seconds_total{cgroup=\"/web\"} 2.5",
            "paceline_cgroup_wait_seconds_bucket{le=\"0.000004096\",cgroup=\"/web\"} 1",
            "paceline_cgroup_wait_seconds_count{cgroup=\"/web\"} 3",
            "paceline_cgroup_wait_seconds_bucket{le=\"+Inf\",cgroup=\"/web\"} 3",
            "paceline_cgroup_wait_seconds_count{cgroup=\"(others)\"} 1",
            "paceline_cgroups_beyond_room 1.0",
            "paceline_programs_beyond_room 0.0",
            "paceline_energy_joules_total{part=\"package-0\"} 12.5",
        ] {
            assert!(page.contains(&format!("{line}\n")), "no {line} in:\n{page}");
        }
        assert!(page.ends_with("# EOF\n"));
    }

    #[test]
    fn no_name_breaks_a_line_and_no_reason_is_told() {
        let page = page(&told().into(), Form::OpenMetrics);
        assert!(!page.contains("secret") && !page.contains('\u{1b}'));
        let names = |line: &str| line.starts_with("paceline_") || line.starts_with("# ");
        assert!(page.lines().all(names), "{page}");
    }

    /// A scraper drops one of two equal series.
    #[test]
    fn names_that_are_shown_alike_are_one_series() {
        let mut told = told();
        let names = ["a\u{1}", "a\u{2}", REST];
        let of = names.map(|name| (name.to_string(), used(&[3000]))).into();
        let programs = Table { of, rest: Some(used(&[3000])), ..Table::default() };
        told.reading.as_mut().unwrap().programs = programs;
        let page = page(&told.into(), Form::OpenMetrics);
        let lines: Vec<&str> =
            page.lines().filter_map(|line| line.rsplit_once(' ')).map(|it| it.0).collect();
        let different: BTreeSet<&str> = lines.iter().copied().collect();
        assert_eq!(lines.len(), different.len(), "{page}");
        for name in ["a\u{fffd}", REST] {
            let line = format!("paceline_program_cpu_seconds_total{{program=\"{name}\"}} 5.0\n");
            assert!(page.contains(&line), "no {line} in:\n{page}");
        }
    }

    #[test]
    fn another_scheduler_is_not_called_linux_own_class() {
        let mut told = told();
        told.status.in_charge = "default".into();
        told.status.stands_aside_for = Some("scx_simple is enabled".into());
        let page = page(&told.into(), Form::OpenMetrics);
        assert!(page.contains("paceline_policy_in_charge{policy=\"default\"} 0.0\n"), "{page}");
        assert!(page.contains("paceline_stands_aside 1.0\n"), "{page}");
    }

    /// A dashboard or an alert of a metric that is not told shows nothing, and says nothing.
    #[test]
    fn the_dashboard_and_the_alerts_ask_for_metrics_that_there_are() {
        let mut all = told();
        let last = Switched { window_s: Some(0.1), ..Switched::default() };
        all.status.last_switch = Some(last);
        let page = page(&all.into(), Form::Prometheus);
        let told: BTreeSet<&str> =
            page.lines().filter_map(|line| line.split([' ', '{']).next()).collect();
        let typed = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
        let typed: BTreeSet<&str> = typed.collect();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for file in ["packaging/grafana/paceline.json", "packaging/prometheus/paceline.rules.yml"] {
            let text = std::fs::read_to_string(root.join(file)).unwrap();
            let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let words = text.split(|c| !is_of_name(c)).filter(|word| word.starts_with("paceline_"));
            let words: Vec<&str> = words.collect();
            assert!(words.len() > 5, "{file}");
            for word in words {
                assert!(told.contains(word) || typed.contains(word), "{file}: {word}");
            }
        }
        let listed = std::fs::read_to_string(root.join("docs/src/reference/metrics.md")).unwrap();
        for name in typed {
            assert!(listed.contains(&format!("`{name}`")), "{name} is not in the reference");
        }
    }

    #[test]
    fn without_a_meter_the_state_is_told() {
        let page = page(&Told { reading: None, ..told() }.into(), Form::OpenMetrics);
        assert!(page.contains("paceline_policy_loads_total 3.0") && !page.contains("cgroup"));
    }
}
