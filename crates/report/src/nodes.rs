// SPDX-License-Identifier: GPL-2.0-only
//! Where threads and their pages are, over time: for machines of several memory nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use trace::{Home, Outcome, Placed, Tid};

use crate::markup::{COLORS, escape, swatch};
use crate::text::time;

/// Most threads that a picture shows.
const THREADS: usize = 32;
/// The picture's units: width of the run, height of a thread's row, room for names.
const WIDTH: usize = 1000;
const ROW: usize = 16;
const LEFT: usize = 160;

/// Start and end, in ns, and the node.
type Stretch = (u64, u64, usize);

/// Where the threads of a policy's first run and their pages were.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    /// By thread: its own nodes, and the nodes of most of its pages.
    threads: BTreeMap<Tid, [Vec<Stretch>; 2]>,
    end_ns: u64,
}

impl Nodes {
    /// From what the ground saw of threads and pages, or else from where the policy placed them.
    pub fn new(outcome: &Outcome) -> Self {
        match outcome.homes.is_empty() {
            true => Nodes::of_placements(&outcome.placed),
            false => Nodes::of_homes(&outcome.homes),
        }
    }

    fn of_homes(homes: &[Home]) -> Self {
        let moments: BTreeSet<u64> = homes.iter().map(|home| home.at_ns).collect();
        let moments: Vec<u64> = moments.into_iter().collect();
        let step_ns = moments.windows(2).map(|two| two[1] - two[0]).min().unwrap_or(0);
        let end_ns = moments.last().map_or(0, |last| last + step_ns);
        let mut nodes = Nodes { end_ns, ..Nodes::default() };
        for home in homes {
            let until_ns = match moments.binary_search(&home.at_ns) {
                Ok(at) => moments.get(at + 1).copied().unwrap_or(end_ns),
                Err(_) => end_ns,
            };
            let rows = nodes.threads.entry(home.tid).or_default();
            for (row, node) in rows.iter_mut().zip([home.node, home.pages]) {
                row.extend(node.map(|node| (home.at_ns, until_ns, node)));
            }
        }
        nodes
    }

    /// A thread stays where it is placed until it is placed elsewhere.
    fn of_placements(placed: &[Placed]) -> Self {
        let begin_ns = placed.iter().map(|one| one.at_ns).min().unwrap_or(0);
        let end_ns = placed.iter().map(|one| one.at_ns - begin_ns).max().unwrap_or(0) + 1;
        let mut nodes = Nodes { end_ns, ..Nodes::default() };
        for one in placed {
            let [threads, _] = nodes.threads.entry(one.tid).or_default();
            let at_ns = one.at_ns - begin_ns;
            if let Some((_, until_ns, _)) = threads.last_mut() {
                *until_ns = at_ns;
            }
            threads.push((at_ns, end_ns, one.domain));
        }
        nodes
    }

    /// Whether threads or pages are on several nodes, at several moments.
    fn tells(&self) -> bool {
        let all = || self.threads.values().flatten().flatten();
        let nodes: BTreeSet<usize> = all().map(|(_, _, node)| *node).collect();
        nodes.len() > 1 && all().any(|(from, ..)| *from > 0)
    }

    fn has_pages(&self) -> bool {
        self.threads.values().any(|[_, pages]| !pages.is_empty())
    }
}

/// A picture for each policy with known nodes.
pub fn drawn<'v>(
    views: impl Iterator<Item = (&'v str, &'v Nodes, &'v BTreeMap<Tid, String>)>,
) -> String {
    let views: Vec<_> = views.filter(|(_, nodes, _)| nodes.tells()).collect();
    let end_ns = views.iter().map(|(_, nodes, _)| nodes.end_ns).max().unwrap_or(0);
    let pictures: String =
        views.iter().map(|(policy, nodes, names)| picture(policy, nodes, names, end_ns)).collect();
    match pictures.is_empty() {
        true => pictures,
        false => format!(
            "<div class=\"screen\">\n<h2>Where threads and pages are</h2>\n{pictures}</div>\n"
        ),
    }
}

fn picture(policy: &str, nodes: &Nodes, names: &BTreeMap<Tid, String>, end_ns: u64) -> String {
    let shown: Vec<_> = nodes.threads.iter().take(THREADS).collect();
    let what = if nodes.has_pages() { "threads and their pages" } else { "threads" };
    let title = format!("{policy}: nodes of {what}, in its first run");
    let (width, height) = (LEFT + WIDTH, shown.len() * ROW + 24);
    let mut svg = format!(
        "<svg class=\"nodes\" role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {width} {height}\">",
        escape(&title)
    );
    let place = |ns: u64| LEFT as f64 + ns as f64 / end_ns.max(1) as f64 * WIDTH as f64;
    for (row, (tid, lines)) in shown.iter().enumerate() {
        let top = row * ROW;
        let name = names.get(tid).map_or_else(|| tid.to_string(), Clone::clone);
        let name: String = name.chars().take(22).collect();
        let _ = write!(svg, "<text x=\"0\" y=\"{}\">{}</text>", top + 12, escape(&name));
        for (line, (at, high)) in lines.iter().zip([(top + 2, 6), (top + 9, 5)]) {
            for (from, to, node) in joined(line) {
                let (x, end) = (place(from), place(to));
                let color = node.min(COLORS - 1);
                let _ = write!(
                    svg,
                    "<path class=\"n{color}\" d=\"M{x:.1} {at}H{end:.1}v{high}H{x:.1}z\"/>"
                );
            }
        }
    }
    let bottom = height - 6;
    let end = time(end_ns as f64 / 1e9);
    let _ = write!(
        svg,
        "<text x=\"{LEFT}\" y=\"{bottom}\">0</text><text x=\"{width}\" y=\"{bottom}\" text-anchor=\"end\">{}</text></svg>",
        escape(&end)
    );
    let all: BTreeSet<usize> =
        nodes.threads.values().flatten().flatten().map(|(_, _, node)| *node).collect();
    let legend: String = all
        .iter()
        .map(|node| swatch(&format!("n{}", node.min(&(COLORS - 1))), &format!("node {node}")))
        .collect();
    let rows = match nodes.has_pages() {
        true => {
            "the upper bar is where a thread ran, the lower where most of its process's pages were"
        }
        false => "the node that the policy placed each thread on",
    };
    let of = match nodes.threads.len() {
        all if all > THREADS => format!("; the first {THREADS} of {all} threads"),
        _ => String::new(),
    };
    format!(
        "<figure class=\"homes\">\n<ul class=\"legend shown\">{legend}</ul>\n\
         <div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{0}\">{svg}</div>\n\
         <figcaption>{0}: {rows}{of}.</figcaption>\n</figure>\n",
        escape(&title)
    )
}

/// Joins consecutive stretches on the same node.
fn joined(line: &[Stretch]) -> Vec<Stretch> {
    let mut joined: Vec<Stretch> = Vec::new();
    for (from, to, node) in line {
        match joined.last_mut() {
            Some((_, end, same)) if *same == *node && *end == *from => *end = *to,
            _ => joined.push((*from, *to, *node)),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(at_ns: u64, tid: Tid, node: usize, pages: usize) -> Home {
        Home { at_ns, tid, node: Some(node), pages: Some(pages) }
    }

    #[test]
    fn a_thread_that_leaves_its_pages_behind_has_bars_of_two_colours() {
        let homes = [home(0, 7, 0, 0), home(10, 7, 1, 0), home(20, 7, 1, 1)];
        let nodes = Nodes::of_homes(&homes);
        assert_eq!(joined(&nodes.threads[&7][0]), [(0, 10, 0), (10, 30, 1)]);
        assert_eq!(joined(&nodes.threads[&7][1]), [(0, 20, 0), (20, 30, 1)]);
        let names = [(7, "<b>".to_string())].into();
        let html = drawn([("dino", &nodes, &names)].into_iter());
        assert!(
            html.contains("&lt;b&gt;") && html.contains("dino: nodes of threads and their pages")
        );
    }

    #[test]
    fn what_was_placed_stays_until_it_is_placed_elsewhere() {
        let placed = |at_ns, tid, domain| Placed { at_ns, tid, domain };
        let nodes =
            Nodes::of_placements(&[placed(100, 7, 0), placed(100, 8, 1), placed(150, 7, 1)]);
        assert_eq!(nodes.threads[&7][0], [(0, 50, 0), (50, 51, 1)]);
        assert!(nodes.tells() && !nodes.has_pages());
    }

    #[test]
    fn one_node_is_no_picture() {
        let homes = [home(0, 7, 0, 0), home(10, 7, 0, 0)];
        let names = BTreeMap::new();
        assert_eq!(drawn([("dino", &Nodes::of_homes(&homes), &names)].into_iter()), "");
    }
}
