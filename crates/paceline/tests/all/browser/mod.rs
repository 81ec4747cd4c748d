// SPDX-License-Identifier: GPL-2.0-only
//! A real Chromium without a window, through its DevTools protocol: JSON messages that end in NUL, through pipes.
//!
//! <https://chromedevtools.github.io/devtools-protocol/>

pub mod pictures;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Debian's names of it, and other distributions'.
const PROGRAMS: [&str; 4] =
    ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];

/// It reads requests from descriptor 3 and answers on 4: those are our pipes.
const THROUGH_PIPES: &str = r#"exec "$0" "$@" 3<&0 4>&1 >/dev/null 2>&1 </dev/null"#;

/// One page in a browser of its own.
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: String,
    asked: u64,
    /// Its unrequested messages.
    pub told: Vec<Value>,
    _profile: TempDir,
}

impl Browser {
    /// Shows a file in a window of this size in CSS pixels, a phone's or a desk's.
    pub fn show(file: &Path, size: (u32, u32), phone: bool) -> Browser {
        let mut browser = Browser::start();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.ask(&format!("{domain}.enable"), json!({}));
        }
        browser.resize(size, phone);
        browser.ask("Page.navigate", json!({"url": format!("file://{}", file.display())}));
        while !browser.told.iter().any(|told| told["method"] == "Page.loadEventFired") {
            let told = browser.hear();
            browser.told.push(told);
        }
        browser
    }

    fn start() -> Browser {
        let program = PROGRAMS.iter().find_map(|name| vm::which(name.as_ref()).ok());
        let program = program.expect("no Chromium; script/setup installs one");
        let profile = tempfile::tempdir().unwrap();
        let mut child = Command::new("sh")
            .args(["-c", THROUGH_PIPES])
            .arg(program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args([
                "--remote-debugging-pipe",
                "--no-first-run",
                "--host-resolver-rules=MAP * ~NOTFOUND",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (from, session, told) = (BufReader::new(from), String::new(), Vec::new());
        let mut browser = Browser { child, to, from, session, asked: 0, told, _profile: profile };
        let target = browser.ask("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.ask("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().unwrap().to_string();
        browser
    }

    /// Calls a method, and waits for its result.
    pub fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.asked += 1;
        let mut message = json!({"id": self.asked, "method": method, "params": parameters});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let heard = self.hear();
            if heard["id"] != self.asked {
                self.told.push(heard);
                continue;
            }
            assert!(heard["error"].is_null(), "{method}: {}", heard["error"]);
            return heard["result"].clone();
        }
    }

    fn hear(&mut self) -> Value {
        let mut message = Vec::new();
        self.from.read_until(0, &mut message).unwrap();
        assert_eq!(message.pop(), Some(0), "Chromium has ended");
        serde_json::from_slice(&message).unwrap()
    }

    /// The value of an expression of JavaScript.
    pub fn value(&mut self, expression: &str) -> Value {
        let ask = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let given = self.ask("Runtime.evaluate", ask);
        assert!(given["exceptionDetails"].is_null(), "{expression}: {given}");
        given["result"]["value"].clone()
    }

    /// Shows it as on paper or on a screen, in light or dark colours.
    pub fn prefer(&mut self, medium: &str, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.ask("Emulation.setEmulatedMedia", json!({"media": medium, "features": features}));
    }

    /// Changes the size of the window.
    pub fn resize(&mut self, (width, height): (u32, u32), phone: bool) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone});
        self.ask("Emulation.setDeviceMetricsOverride", size);
    }

    /// Presses a key.
    pub fn press(&mut self, key: &str, code: u32) {
        for kind in ["rawKeyDown", "keyUp"] {
            let event =
                json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code});
            self.ask("Input.dispatchKeyEvent", event);
        }
    }

    /// A picture of the whole page at this scale, as base64 of a PNG.
    pub fn picture(&mut self, scale: f64) -> String {
        let size = self
            .value("[document.documentElement.clientWidth, document.documentElement.scrollHeight]");
        let clip = json!({"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": scale});
        let how = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        self.ask("Page.captureScreenshot", how)["data"].as_str().unwrap().to_string()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
