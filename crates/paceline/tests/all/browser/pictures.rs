// SPDX-License-Identifier: GPL-2.0-only
//! Pictures of pages beside kept ones. `UPDATE_PICTURES=1 cargo test -p paceline --test all page` takes them again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::prelude::{BASE64_STANDARD as STANDARD, Engine as _};
use serde_json::Value;

use super::Browser;

/// Size of a kept picture: enough to see the layout, and too small for letters.
const SCALE: f64 = 0.4;
/// Pictures are compared by squares of this many pixels, so that another version of a font or a browser is no
/// difference.
const SQUARE: u32 = 12;
/// Most difference of a square's mean colour, of 255, and most squares of 1,000 with a greater difference.
const COLOR: u32 = 40;
const SQUARES: f64 = 20.0;

/// Parts of 1,000 squares that differ between two PNGs; squares that only one PNG has all differ.
const DIFFER: &str = r#"(async (urls, square, color) => {
    const pixels = await Promise.all(urls.map(async url => {
        const image = new Image();
        image.src = 'data:image/png;base64,' + url;
        await image.decode();
        const canvas = new OffscreenCanvas(Math.ceil(image.width / square), Math.ceil(image.height / square));
        const context = canvas.getContext('2d');
        context.imageSmoothingQuality = 'high';
        context.drawImage(image, 0, 0, canvas.width, canvas.height);
        return context.getImageData(0, 0, canvas.width, canvas.height);
    }));
    const [wide, high] = ['width', 'height'].map(side => Math.max(...pixels.map(it => it[side])));
    let differ = 0;
    for (let y = 0; y < high; y++)
        for (let x = 0; x < wide; x++) {
            const at = pixels.map(it => x < it.width && y < it.height ? it.data.slice(4 * (y * it.width + x), 4 * (y * it.width + x) + 3) : null);
            if (!at[0] || !at[1] || at[0].some((part, which) => Math.abs(part - at[1][which]) > color)) differ++;
        }
    return 1000 * differ / (wide * high);
})"#;

/// Compares pictures in a page of its own.
pub struct Pictures {
    browser: Browser,
}

impl Pictures {
    /// `folder` is for an empty page.
    pub fn new(folder: &Path) -> Self {
        let empty = folder.join("empty.html");
        fs::write(&empty, "<!doctype html><title>empty</title>").unwrap();
        Pictures { browser: Browser::show(&empty, (100, 100), false) }
    }

    fn differ(&mut self, one: &str, other: &str) -> f64 {
        let call = format!("{DIFFER}(['{one}', '{other}'], {SQUARE}, {COLOR})");
        self.browser.value(&call).as_f64().unwrap()
    }

    /// A page looks like its kept picture, and would not without its answer.
    pub fn compare(&mut self, page: &mut Browser, name: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/page/{name}.png"));
        let now = page.picture(SCALE);
        if std::env::var_os("UPDATE_PICTURES").is_some() {
            fs::write(&path, STANDARD.decode(&now).unwrap()).unwrap();
        }
        let kept =
            STANDARD.encode(fs::read(&path).unwrap_or_else(|error| panic!("{name}.png: {error}")));
        let differ = self.differ(&kept, &now);
        if differ > SQUARES {
            let seen = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.png"));
            fs::write(&seen, STANDARD.decode(&now).unwrap()).unwrap();
            panic!(
                "{differ:.0} of 1,000 squares of {name} differ from tests/page/{name}.png; {} shows it now; \
                 UPDATE_PICTURES=1 keeps it",
                seen.display()
            );
        }
        let hide = |hidden: bool| {
            let value = if hidden { "none" } else { "" };
            format!(
                "void document.querySelectorAll('.answer, svg.timeline').forEach(it => it.style.display = '{value}')"
            )
        };
        page.value(&hide(true));
        let without = page.picture(SCALE);
        page.value(&hide(false));
        assert!(self.differ(&kept, &without) > SQUARES, "{name} looks the same without its answer");
    }
}

/// The release of axe-core that checks the pages.
const AXE: &str = "4.14.1";

/// axe-core's complaints about a page; None: it is not here and cannot be fetched.
pub fn axe(page: &mut Browser) -> Option<Vec<String>> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("axe-core-{AXE}"));
    let script = folder.join("package/axe.min.js");
    if !script.exists() {
        fs::create_dir_all(&folder).unwrap();
        let fetch = format!("npm pack --silent axe-core@{AXE} && tar -xzf axe-core-*.tgz");
        let fetched =
            Command::new("sh").args(["-c", &fetch]).current_dir(&folder).output().unwrap();
        if !fetched.status.success() || !script.exists() {
            println!("not checked by axe-core: npm does not give it here");
            return None;
        }
    }
    page.value(&format!("{};0", fs::read_to_string(&script).unwrap()));
    let found = page.value(
        "axe.run().then(it => it.violations.map(it => it.id + ': ' + it.nodes.map(it => it.html.slice(0, 99)).join(' | ')))",
    );
    let of = |value: &Value| value.as_str().unwrap().to_string();
    Some(found.as_array().unwrap().iter().map(of).collect())
}
