// SPDX-License-Identifier: GPL-2.0-only
//! The report in a real browser: of a minute on 8 CPUs, with names that are HTML.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::browser::pictures::{Pictures, axe};

/// A minute of two programs, one of which does little and often.
const MINUTE: &str = r#"{
    "global": {"duration": 60},
    "tasks": {
        "<i>&\"busy\"": {"instance": 12, "loop": -1, "run": 9000, "sleep": 2500},
        "waits": {"instance": 20, "process": "own", "loop": -1, "run": 900, "sleep": 6000},
        "nice": {"instance": 2, "priority": 10, "loop": -1, "run": 50000, "sleep": 100}
    }
}"#;

/// A policy with a long name.
const LONG: &str = "min-fair:target=0.9,tenant=program,inside=utility";

/// Width and height of a phone and of a desk's screen, CSS pixels.
const PHONE: (u32, u32) = (360, 740);
const DESK: (u32, u32) = (1280, 900);
/// A4 within its margins.
const PAPER: (u32, u32) = (720, 1040);

/// How much the page is wider than the window.
const WIDER: &str = "document.scrollingElement.scrollWidth - document.documentElement.clientWidth";

/// Elements that reach farther to the right than the window, except in a scrolling box of their own.
const TOO_WIDE: &str = "[...document.querySelectorAll('body *')].filter(it => !it.closest('.scroll *') && \
    it.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5).map(it => it.outerHTML.slice(0, 80))";

/// Texts with too little contrast to their background: less than 4.5 to 1 (WCAG 2.1, 1.4.3).
const UNREADABLE: &str = r#"(() => {
    const numbers = color => (color.match(/[\d.]+/g) || []).map(Number);
    const linear = c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    const light = color => { const [r, g, b] = numbers(color).map(linear); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
    const behind = it => { for (; it; it = it.parentElement) { const color = getComputedStyle(it).backgroundColor;
        if (numbers(color)[3] !== 0) return color; } return 'rgb(255, 255, 255)'; };
    const bad = [];
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
        const it = walk.currentNode.parentElement;
        if (!walk.currentNode.data.trim() || !it.checkVisibility()) continue;
        const style = getComputedStyle(it);
        const [a, b] = [light(it.closest('svg') ? style.fill : style.color), light(behind(it))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < 4.5) bad.push(ratio.toFixed(1) + ' ' + walk.currentNode.data.trim());
    }
    return bad;
})()"#;

fn report(folder: &Path) -> std::path::PathBuf {
    let (load, page) = (folder.join("minute.json"), folder.join("report.html"));
    fs::write(&load, MINUTE).unwrap();
    let made = Command::new(env!("CARGO_BIN_EXE_paceline"))
        .args(["compare", "--on", "sim", "--machine", "numa-2x4"])
        .args(["--policy", &format!("default,cas,{LONG}"), "--runs", "2"])
        // Names without a folder: the page shows them, and kept pictures have them.
        .args(["--workload", "minute.json", "--report", "report.html"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    page
}

fn list(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect()
}

/// Presses Tab until the page is left. Returns the elements that had the focus, in order.
fn tabbed(browser: &mut Browser) -> Vec<String> {
    const NAMED: &str = "(it => it === document.body ? '' : it.tagName + ' ' + (it.ariaLabel || it.value || \
                         it.textContent))(document.activeElement)";
    let mut reached = Vec::new();
    for _ in 0..200 {
        browser.press("Tab", 9);
        match browser.value(NAMED).as_str().unwrap() {
            "" => break,
            name if reached.first().is_some_and(|first| first == name) => break,
            name => reached.push(name.to_string()),
        }
    }
    reached
}

#[test]
fn the_report_of_a_minute_is_read_on_any_device() {
    let folder = tempfile::tempdir().unwrap();
    let page = report(folder.path());
    let bytes = fs::metadata(&page).unwrap().len();
    assert!(bytes <= 1_000_000, "{bytes} bytes");

    let mut desk = Browser::show(&page, DESK, false);
    let loaded_ms = desk.value("performance.getEntriesByType('navigation')[0].loadEventEnd");
    println!("{bytes} bytes, loaded in {loaded_ms} ms");
    nothing_goes_wrong(&desk);
    wide_things_scroll_alone(&mut desk);
    let mut pictures = Pictures::new(folder.path());
    for scheme in ["light", "dark"] {
        desk.prefer("screen", scheme);
        pictures.compare(&mut desk, scheme);
        if let Some(wrong) = axe(&mut desk) {
            assert_eq!(wrong, Vec::<String>::new(), "{scheme}");
        }
        let unreadable = desk.value(UNREADABLE);
        assert_eq!(list(&unreadable), Vec::<&str>::new(), "{scheme}");
    }
    keys_reach_everything(&mut desk);
    everything_has_a_name(&mut desk);
    the_timeline_says_what_runs_under_the_cursor(&mut desk);
    paper_has_what_matters(&mut desk);
    pictures.compare(&mut desk, "print");

    let mut phone = Browser::show(&page, PHONE, true);
    nothing_goes_wrong(&phone);
    pictures.compare(&mut phone, "phone");
    wide_things_scroll_alone(&mut phone);
    a_row_has_its_name_beside_its_figures(&mut phone);
}

fn nothing_goes_wrong(browser: &Browser) {
    let of = |method: &str| -> Vec<&Value> {
        browser.told.iter().filter(|told| told["method"] == method).collect()
    };
    assert_eq!(of("Runtime.exceptionThrown"), Vec::<&Value>::new());
    assert_eq!(of("Log.entryAdded"), Vec::<&Value>::new());
    let requests = of("Network.requestWillBeSent");
    let urls: Vec<&str> =
        requests.iter().map(|told| told["params"]["request"]["url"].as_str().unwrap()).collect();
    assert!(urls.len() == 1 && urls[0].starts_with("file://"), "{urls:?}");
}

fn wide_things_scroll_alone(browser: &mut Browser) {
    let too_wide = browser.value(TOO_WIDE);
    assert_eq!((browser.value(WIDER), list(&too_wide)), (0.into(), vec![]));
    // The same on a page with something too wide.
    browser.value(
        "void document.body.insertAdjacentHTML('beforeend', '<p id=w style=width:3000px>w')",
    );
    assert!(browser.value(WIDER).as_u64() > Some(0) && !list(&browser.value(TOO_WIDE)).is_empty());
    browser.value("document.getElementById('w').remove()");
}

/// Names of rows leave half of a table's width to figures, and a plot is entirely within its width.
fn a_row_has_its_name_beside_its_figures(browser: &mut Browser) {
    assert_eq!(browser.value("innerWidth"), PHONE.0);
    browser.value("void document.querySelectorAll('details').forEach(it => { it.open = true; })");
    let wide = browser.value(
        "[...document.querySelectorAll('th:first-child')].filter(it => \
         it.offsetWidth > it.closest('.scroll').clientWidth / 2).map(it => it.textContent)",
    );
    assert_eq!(list(&wide), Vec::<&str>::new());
    let names = "[...document.querySelectorAll('tbody th')].map(it => it.textContent)";
    assert!(list(&browser.value(names)).contains(&LONG));
    let cut = browser.value(
        "[...document.querySelectorAll('svg.rows text')].filter(it => { \
         const [own, all] = [it, it.closest('svg')].map(it => it.getBoundingClientRect()); \
         return own.left < all.left || own.right > all.right; }).map(it => it.textContent.trim())",
    );
    assert_eq!(list(&cut), Vec::<&str>::new());
    let nameless = browser.value(&format!(
        "[...document.querySelectorAll('svg.rows')].filter(it => \
         !it.textContent.replace(/\\s/g, '').includes('{LONG}')).length"
    ));
    assert_eq!(nameless, 0);
}

fn keys_reach_everything(browser: &mut Browser) {
    let reached = tabbed(browser);
    let all = browser.value(
        "[...document.querySelectorAll('a, summary, .scroll[tabindex], input:checked')].filter(it => \
         it.checkVisibility()).map(it => it.tagName + ' ' + (it.ariaLabel || it.value || it.textContent))",
    );
    assert_eq!(reached, list(&all));
    // Arrow keys choose the meaning of colours.
    browser.value("document.querySelector('input:checked').focus()");
    let color = "getComputedStyle(document.querySelector('.timeline path[class~=t1]')).fill";
    let by_task = browser.value(color);
    browser.press("ArrowRight", 39);
    assert_eq!(browser.value("document.activeElement.value"), "space");
    assert_ne!(browser.value(color), by_task);
}

/// Arrow keys move a cursor through a timeline that has the focus; plus makes it wider.
fn the_timeline_says_what_runs_under_the_cursor(browser: &mut Browser) {
    let told = "document.querySelector('figure.views output').textContent";
    assert!(browser.value(told).as_str().unwrap().contains("arrow keys move"));
    browser.value("document.querySelector('figure.views .scroll').focus()");
    browser.press("ArrowRight", 39);
    let first = browser.value(told);
    let first = first.as_str().unwrap();
    assert!(first.starts_with("CPU 0 at 0.3") && first.contains("<i>&\"busy\"-"), "{first}");
    browser.press("ArrowDown", 40);
    assert!(browser.value(told).as_str().unwrap().starts_with("CPU 1 at 0.3"));
    let width = "document.querySelector('svg.timeline').getBoundingClientRect().width";
    let before = browser.value(width).as_f64().unwrap();
    browser.press("+", 187);
    assert!(browser.value(width).as_f64().unwrap() > 1.5 * before);
    browser.press("-", 189);
}

fn everything_has_a_name(browser: &mut Browser) {
    browser.ask("Accessibility.enable", json!({}));
    let tree = browser.ask("Accessibility.getFullAXTree", json!({}));
    let nodes = tree["nodes"].as_array().unwrap();
    let of = |role: &str| -> Vec<&str> {
        let own =
            nodes.iter().filter(|node| node["role"]["value"] == role && node["ignored"] == false);
        own.map(|node| node["name"]["value"].as_str().unwrap_or("")).collect()
    };
    for role in ["table", "image", "radiogroup", "region", "link", "radio"] {
        let nameless = of(role).iter().filter(|name| name.is_empty()).count();
        assert_eq!(nameless, 0, "{role}: {:?}", of(role));
    }
    assert!(!of("table").is_empty() && !of("image").is_empty() && !of("radio").is_empty());
}

/// The essentials, on four pages at most; every run and task is for a screen.
fn paper_has_what_matters(browser: &mut Browser) {
    browser.prefer("print", "dark");
    browser.resize(PAPER, false);
    let shown = |what: &str| {
        format!(
            "[...document.querySelectorAll('{what}')].filter(it => it.checkVisibility()).length"
        )
    };
    assert_eq!(browser.value(&shown(".screen table")), 0);
    assert_eq!(browser.value(&shown(".answer strong")), 1);
    assert!(browser.value(&shown("svg.timeline")).as_u64() > Some(1));
    let height = browser.value("document.documentElement.scrollHeight").as_u64().unwrap();
    assert!(height <= 4 * u64::from(PAPER.1), "{height} px are more than four pages");
    assert_eq!(
        browser.value("getComputedStyle(document.body).backgroundColor"),
        "rgb(255, 255, 255)"
    );
    let unreadable = browser.value(UNREADABLE);
    assert_eq!(list(&unreadable), Vec::<&str>::new());
    assert_eq!((browser.value(WIDER), list(&browser.value(TOO_WIDE))), (0.into(), vec![]));
    let clipped = browser.value(
        "[...document.querySelectorAll('.scroll')].filter(it => it.scrollWidth > it.clientWidth + 1).length",
    );
    assert_eq!(clipped, 0, "paper does not scroll");
}
