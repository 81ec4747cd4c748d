// SPDX-License-Identifier: GPL-2.0-only
//! What the service can be asked: one line of JSON for each request and each answer, on Unix sockets. `control` is
//! root's and takes all requests; `status` is open to all users, and answers one.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};

use serde::{Deserialize, Serialize};
use terminal::Failure;

use crate::status::{Status, Switched};

/// The folder of the sockets.
pub const RUNTIME: &str = "/run/paceline";
/// Longest request, in bytes.
pub(crate) const REQUEST_MAX: u64 = 4096;
/// Longest answer that a client reads, in bytes.
const ANSWER_MAX: u64 = 1 << 20;
/// How long a client has to send its request.
pub(crate) const SEND_TAKES: Duration = Duration::from_secs(2);
/// How long one waits that only looks.
const LOOK_TAKES: Duration = Duration::from_millis(300);
/// How long a client waits for its answer: a policy is loaded in it, and before that another one ends.
const ANSWER_TAKES: Duration = Duration::from_secs(180);

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// What is in charge.
    Status,
    /// Put another policy in charge, or `default` for Linux's own class.
    Switch(String),
    /// Change a knob of the policy in charge, in place.
    Set {
        /// Its name.
        knob: String,
        /// Its new value, as a user writes it.
        value: String,
    },
    /// Read the config file again, and follow it.
    Reload,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// To [`Request::Status`].
    Status(Box<Status>),
    /// To [`Request::Switch`].
    Switched(Switched),
    /// To [`Request::Set`].
    Set {
        /// The policy with its knobs, as it is now.
        policy: String,
        /// The value before.
        old: String,
        /// The value now.
        new: String,
    },
    /// To [`Request::Reload`]: the switch that followed from it, if one did.
    Reloaded(Option<Switched>),
    /// It was not done; why, in a line.
    Refused(String),
}

/// A request that waits for its answer.
pub struct Asked {
    /// What is asked.
    pub request: Request,
    answer: Sender<Answer>,
}

impl Asked {
    /// Answers. A client that has gone does not matter.
    pub fn answer(&self, answer: Answer) {
        let _ = self.answer.send(answer);
    }
}

/// The folder of the sockets: one service has it at a time, until this is dropped.
pub struct Claim {
    folder: PathBuf,
    _lock: File,
}

impl Claim {
    /// Fails if another service has it.
    pub fn new(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let place = folder.join("lock");
        let lock =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(place)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => io::Error::other("a service of Paceline runs here already"),
            TryLockError::Error(error) => error,
        })?;
        Ok(Claim { folder: folder.to_path_buf(), _lock: lock })
    }
}

/// The sockets, until this is dropped.
pub struct Sockets {
    paths: Vec<PathBuf>,
    _claim: Claim,
}

impl Drop for Sockets {
    fn drop(&mut self) {
        for path in &self.paths {
            let _ = fs::remove_file(path);
        }
    }
}

/// The state that any user may see.
pub type Shown = Arc<Mutex<Status>>;

/// Opens both sockets in a folder. Requests on `control` go to `to`; `status` is answered from what is shown.
pub fn listen(claim: Claim, to: Sender<Asked>, shown: Shown) -> io::Result<Sockets> {
    let (control, status) = (claim.folder.join("control"), claim.folder.join("status"));
    let control_of = bind(&control, 0o600)?;
    let status_of = bind(&status, 0o666)?;
    let ask = move |request: Request| {
        let (answer, answered) = channel();
        if to.send(Asked { request, answer }).is_err() {
            return Answer::Refused("the service ends".into());
        }
        answered.recv().unwrap_or_else(|_| Answer::Refused("the service ends".into()))
    };
    let look = move |request: Request| match request {
        Request::Status => {
            Answer::Status(Box::new(shown.lock().unwrap_or_else(PoisonError::into_inner).clone()))
        }
        _ => Answer::Refused("this socket answers status alone; ask as root".into()),
    };
    thread::Builder::new().name("control".into()).spawn(move || {
        // An administrator is heard even under a policy that starves all others.
        let _ = live::outrank_policies();
        serve(&control_of, ask);
    })?;
    thread::Builder::new().name("status".into()).spawn(move || serve(&status_of, look))?;
    Ok(Sockets { paths: vec![control, status], _claim: claim })
}

/// A listener on a new Unix socket of this mode.
pub(crate) fn bind(path: &Path, mode: u32) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Nobody may connect before the mode is set.
    let own = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let listener = UnixListener::bind(path);
    rustix::process::umask(own);
    let listener = listener?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    Ok(listener)
}

/// One client after another: each has a time limit.
fn serve(listener: &UnixListener, answer: impl Fn(Request) -> Answer) {
    for stream in listener.incoming() {
        match stream {
            Ok(stream) => {
                let _ = talk(stream, &answer);
            }
            // As when this process has no descriptor left.
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn talk(mut stream: UnixStream, answer: impl Fn(Request) -> Answer) -> io::Result<()> {
    let answer = match read_line(&mut stream, REQUEST_MAX, SEND_TAKES)? {
        Some(line) => match serde_json::from_str(&line) {
            Ok(request) => answer(request),
            Err(error) => Answer::Refused(format!("this is no request: {error}")),
        },
        None => Answer::Refused(format!("a request is one line of at most {REQUEST_MAX} bytes")),
    };
    stream.set_write_timeout(Some(SEND_TAKES))?;
    let line = serde_json::to_string(&answer).expect("it is plain data") + "\n";
    stream.write_all(line.as_bytes())
}

/// A line without its end; None: there is none within so many bytes and so much time.
pub(crate) fn read_line(
    stream: &mut UnixStream,
    most: u64,
    takes: Duration,
) -> io::Result<Option<String>> {
    let began = Instant::now();
    let mut bytes = Vec::new();
    while !bytes.contains(&b'\n') && (bytes.len() as u64) < most {
        let left = takes.saturating_sub(began.elapsed());
        if left.is_zero() {
            return Ok(None);
        }
        stream.set_read_timeout(Some(left))?;
        let mut some = [0; 1024];
        match stream.read(&mut some) {
            Ok(0) => break,
            Ok(count) => bytes.extend(&some[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    let end = bytes.iter().position(|byte| *byte == b'\n');
    Ok(end.and_then(|end| String::from_utf8(bytes[..end].to_vec()).ok()))
}

/// Asks the service that runs on this machine.
pub fn ask(folder: &Path, request: &Request) -> Result<Answer, Failure> {
    let may_control = rustix::process::geteuid().is_root();
    let socket = match request {
        Request::Status if !may_control => "status",
        _ => "control",
    };
    let path = folder.join(socket);
    let mut stream = UnixStream::connect(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Failure::input(
            "no service of Paceline runs here; start it: systemctl start paceline (or paceline serve)",
        ),
        io::ErrorKind::PermissionDenied => Failure::input(match request {
            Request::Status => "only root may see it here: run it with sudo",
            _ => "only root may change what is in charge: run it with sudo",
        }),
        _ => Failure::run(format!("{}: {error}", path.display())),
    })?;
    let line = serde_json::to_string(request).expect("it is plain data") + "\n";
    let failed =
        |why: &dyn std::fmt::Display| Failure::run(format!("the service gives no answer: {why}"));
    stream.write_all(line.as_bytes()).map_err(|error| failed(&error))?;
    stream.set_read_timeout(Some(ANSWER_TAKES)).map_err(|error| failed(&error))?;
    let mut answer = String::new();
    let mut from = BufReader::new(stream.take(ANSWER_MAX));
    from.read_line(&mut answer).map_err(|error| failed(&error))?;
    serde_json::from_str(&answer).map_err(|_| failed(&"it ended, or it is of another version"))
}

/// The state that any user may see, of the service that runs on this machine. None: there is none, or it does not answer
/// soon.
pub fn look(folder: &Path) -> Option<Status> {
    let mut stream = UnixStream::connect(folder.join("status")).ok()?;
    stream.set_read_timeout(Some(LOOK_TAKES)).ok()?;
    stream.set_write_timeout(Some(LOOK_TAKES)).ok()?;
    let line = serde_json::to_string(&Request::Status).expect("it is plain data") + "\n";
    stream.write_all(line.as_bytes()).ok()?;
    match serde_json::from_str(&read_line(&mut stream, ANSWER_MAX, LOOK_TAKES).ok()??).ok()? {
        Answer::Status(status) => Some(*status),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A service that answers each request with its name.
    fn service(folder: &Path) -> Sockets {
        let (to, from) = channel::<Asked>();
        let shown = Shown::default();
        shown.lock().unwrap().in_charge = "flsched".into();
        let sockets = listen(Claim::new(folder).unwrap(), to, shown).unwrap();
        thread::spawn(move || {
            for asked in from {
                asked.answer(Answer::Refused(format!("{:?}", asked.request)));
            }
        });
        sockets
    }

    fn raw(path: &Path, bytes: &[u8]) -> String {
        let mut stream = UnixStream::connect(path).unwrap();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn the_socket_for_all_users_answers_status_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let _sockets = service(folder.path());
        let status = folder.path().join("status");
        assert!(raw(&status, b"\"status\"\n").contains("\"in_charge\":\"flsched\""));
        for request in
            ["{\"switch\":\"cas\"}", "\"reload\"", "{\"set\":{\"knob\":\"a\",\"value\":\"b\"}}"]
        {
            let answer = raw(&status, format!("{request}\n").as_bytes());
            assert!(answer.contains("answers status alone"), "{answer}");
        }
        let mode = |name: &str| {
            fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o777
        };
        assert_eq!([mode("control"), mode("status")], [0o600, 0o666]);
    }

    #[test]
    fn what_is_no_request_is_refused_and_the_next_one_is_heard() {
        let folder = tempfile::tempdir().unwrap();
        let _sockets = service(folder.path());
        let control = folder.path().join("control");
        let long = [vec![b'x'; 1 << 20], b"\n".to_vec()].concat();
        for bytes in
            [&b""[..], b"\n", b"\"status\"", b"{\"switch\":3}\n", b"\xff\xfe\n", b"null\n", &long]
        {
            let answer = raw(&control, bytes);
            // Of a request that is too long the rest is not read, and the answer may be lost with it.
            assert!(answer.is_empty() || answer.contains("\"refused\""), "{answer}");
        }
        let asked = ask(folder.path(), &Request::Switch("cas".into())).unwrap();
        assert_eq!(asked, Answer::Refused("Switch(\"cas\")".into()));
    }

    #[test]
    fn a_client_that_says_nothing_holds_up_no_other_for_long() {
        let folder = tempfile::tempdir().unwrap();
        let _sockets = service(folder.path());
        let _silent = UnixStream::connect(folder.path().join("control")).unwrap();
        assert!(ask(folder.path(), &Request::Reload).is_ok());
    }

    #[test]
    fn a_second_service_does_not_take_the_sockets() {
        let folder = tempfile::tempdir().unwrap();
        let first = service(folder.path());
        let other = Claim::new(folder.path()).err().unwrap();
        assert!(other.to_string().contains("runs here already"), "{other}");
        assert!(ask(folder.path(), &Request::Reload).is_ok());
        drop(first);
        assert!(Claim::new(folder.path()).is_ok());
    }

    #[test]
    fn without_a_service_it_says_how_to_start_one() {
        let folder = tempfile::tempdir().unwrap();
        let error = ask(folder.path(), &Request::Reload).unwrap_err().to_string();
        assert!(error.contains("systemctl start paceline"), "{error}");
        let sockets = service(folder.path());
        drop(sockets);
        assert!(ask(folder.path(), &Request::Reload).is_err());
    }
}
