// SPDX-License-Identifier: GPL-2.0-only
//! The socket at which tools of scx look for a scheduler's figures. A request is a JSON object on a line, and so is its
//! answer: <https://github.com/sched-ext/scx/tree/main/rust/scx_stats>.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::listener::Listening;
use crate::request::{REQUEST_MAX, SEND_TAKES, Shown, bind, read_line};
use crate::status::Status;

/// Where tools look for the scheduler of the machine.
pub const SOCKET: &str = "/run/scx/root/stats";
/// Its threads.
const NAME: &str = "scx-stats";
/// Most clients at a time: each has a thread.
const CLIENTS_MAX: usize = 8;
/// A client that says nothing for so long is left.
const SILENCE_MAX: Duration = Duration::from_secs(600);

#[derive(Deserialize)]
struct Request {
    req: String,
    #[serde(default)]
    args: BTreeMap<String, String>,
}

/// The socket, until this is dropped.
pub struct ScxStats {
    socket: PathBuf,
    inode: u64,
    listening: Option<Listening>,
    clients: Clients,
}

type Clients = Arc<Mutex<BTreeMap<u64, UnixStream>>>;

impl ScxStats {
    /// Answers from what is shown, to root.
    pub fn listen(socket: &Path, shown: Shown) -> io::Result<Self> {
        fs::create_dir_all(socket.parent().unwrap_or(Path::new("/")))?;
        let listener = bind(socket, 0o600)?;
        let inode = fs::metadata(socket)?.ino();
        let clients = Clients::default();
        let (own, mut name) = (clients.clone(), 0);
        let serve = move |stream| {
            name += 1;
            begin(name, stream, &own, &shown);
        };
        let listens = listener.try_clone()?.into();
        let accept = move || listener.accept().map(|(stream, _)| stream);
        let listening = Some(Listening::begin(NAME, listens, accept, serve)?);
        Ok(ScxStats { socket: socket.to_path_buf(), inode, listening, clients })
    }
}

impl Drop for ScxStats {
    fn drop(&mut self) {
        drop(self.listening.take());
        for client in self.clients.lock().unwrap_or_else(PoisonError::into_inner).values() {
            let _ = client.shutdown(Shutdown::Both);
        }
        // The next scheduler may have its socket there already.
        if fs::metadata(&self.socket).is_ok_and(|now| now.ino() == self.inode) {
            let _ = fs::remove_file(&self.socket);
        }
    }
}

/// Talks with a client in a thread of its own. One too many is let go.
fn begin(name: u64, stream: UnixStream, clients: &Clients, shown: &Shown) {
    let mut all = clients.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(own) = stream.try_clone().ok().filter(|_| all.len() < CLIENTS_MAX) else { return };
    all.insert(name, own);
    drop(all);
    let (left, shown) = (clients.clone(), shown.clone());
    let work = move || {
        let _ = talk(stream, &shown);
        left.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
    };
    if thread::Builder::new().name(NAME.into()).spawn(work).is_err() {
        clients.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
    }
}

/// One request after another, until the client goes.
fn talk(mut stream: UnixStream, shown: &Shown) -> io::Result<()> {
    stream.set_write_timeout(Some(SEND_TAKES))?;
    while let Some(line) = read_line(&mut stream, REQUEST_MAX, SILENCE_MAX)? {
        let status = shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
        stream.write_all(format!("{}\n", answer(&line, &status)).as_bytes())?;
    }
    Ok(())
}

fn answer(line: &str, status: &Status) -> Value {
    let refused =
        |why: String| json!({ "errno": Errno::INVAL.raw_os_error(), "args": { "resp": why } });
    let request: Request = match serde_json::from_str(line) {
        Ok(request) => request,
        Err(error) => return refused(format!("this is no request: {error}")),
    };
    let target = request.args.get("target").map_or("top", String::as_str);
    let told = match (request.req.as_str(), target) {
        ("stats", "top") => figures(status),
        ("stats", other) => {
            return refused(format!("there is no target {other:?}; ask for \"top\""));
        }
        ("stats_meta", _) => meaning(),
        (other, _) => {
            return refused(format!(
                "{other:?} is no request; ask for \"stats\" or \"stats_meta\""
            ));
        }
    };
    json!({ "errno": 0, "args": { "resp": told } })
}

fn figures(status: &Status) -> Value {
    json!({
        "policy": status.in_charge,
        "in_charge_s": status.for_s,
        "loads": status.loads,
        "ejections": status.ejections,
        "partial": u64::from(status.partial),
        "counts": status.counts,
    })
}

/// What [`figures`] has. Keys with an underscore are for scx's converter to OpenMetrics.
fn meaning() -> Value {
    let of = |kind: &str, what: &str| json!({ "datum": kind, "desc": what });
    json!({ "Paceline": {
        "name": "Paceline",
        "top": "true",
        "desc": "the service of Paceline",
        "user": { "_om_prefix": "paceline_" },
        "fields": {
            "policy": of("string", "the policy in charge, with its knobs"),
            "in_charge_s": of("u64", "for how long, s"),
            "loads": of("u64", "policies that were loaded since the service began"),
            "ejections": of("u64", "of these, those that the kernel ejected"),
            "partial": of("u64", "1: it has only tasks that ask for SCHED_EXT"),
            "counts": {
                "dict": { "key": "string", "datum": "float" },
                "desc": "the policy's own counters",
                "user": { "_om_skip": "true" },
            },
        },
    } })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn asked(client: &UnixStream, line: &str) -> Value {
        (&*client).write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        BufReader::new(client).read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap_or(Value::Null)
    }

    fn listening(folder: &Path) -> (ScxStats, PathBuf) {
        let socket = folder.join("scx/stats");
        let shown = Shown::default();
        *shown.lock().unwrap() = Status {
            in_charge: "cas:slice=5ms".into(),
            loads: 2,
            counts: [("refunded_ns".to_string(), 7.5)].into(),
            ..Status::default()
        };
        (ScxStats::listen(&socket, shown).unwrap(), socket)
    }

    #[test]
    fn a_tool_of_scx_has_figures_and_their_meaning_on_one_connection() {
        let folder = tempfile::tempdir().unwrap();
        let (stats, socket) = listening(folder.path());
        assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
        let client = UnixStream::connect(&socket).unwrap();
        for line in [r#"{"req":"stats"}"#, r#"{"req":"stats","args":{"target":"top"}}"#] {
            let told = asked(&client, line);
            assert_eq!(told["errno"], 0);
            let told = &told["args"]["resp"];
            assert_eq!((&told["policy"], &told["loads"]), (&json!("cas:slice=5ms"), &json!(2)));
            assert_eq!(told["counts"]["refunded_ns"], 7.5);
        }
        let meaning = asked(&client, r#"{"req":"stats_meta"}"#)["args"]["resp"].clone();
        let fields = meaning["Paceline"]["fields"].as_object().unwrap();
        let told = asked(&client, r#"{"req":"stats"}"#)["args"]["resp"].clone();
        let told: Vec<_> = told.as_object().unwrap().keys().cloned().collect();
        assert_eq!(told, fields.keys().cloned().collect::<Vec<_>>());
        drop(stats);
        assert!(!socket.exists() && asked_once_more(&client), "the client is let go");
    }

    fn asked_once_more(client: &UnixStream) -> bool {
        let mut answer = String::new();
        BufReader::new(client).read_line(&mut answer).unwrap_or(0) == 0
    }

    #[test]
    fn what_is_no_request_is_refused_and_many_clients_take_no_more_threads() {
        let folder = tempfile::tempdir().unwrap();
        let (_stats, socket) = listening(folder.path());
        let client = UnixStream::connect(&socket).unwrap();
        for line in
            ["", "{}", "[3]", r#"{"req":"reset"}"#, r#"{"req":"stats","args":{"target":"x"}}"#]
        {
            assert_eq!(asked(&client, line)["errno"], Errno::INVAL.raw_os_error(), "{line}");
        }
        let more: Vec<_> =
            (0..CLIENTS_MAX + 5).map(|_| UnixStream::connect(&socket).unwrap()).collect();
        assert!(more[CLIENTS_MAX..].iter().all(asked_once_more), "they are let go");
        assert_eq!(asked(&client, r#"{"req":"stats"}"#)["errno"], 0);
    }

    #[test]
    fn the_socket_of_the_next_scheduler_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (stats, socket) = listening(folder.path());
        let _next = bind(&socket, 0o600).unwrap();
        drop(stats);
        assert!(socket.exists());
    }
}
