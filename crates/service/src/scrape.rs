// SPDX-License-Identifier: GPL-2.0-only
//! Where metrics are scraped: HTTP on a Unix socket, and on TCP if the config file names an address.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::request::bind;

/// Longest head of a request, in bytes.
const HEAD_MAX: usize = 8192;
/// How long a client has to send its request, and to take the answer.
const CLIENT_TAKES: Duration = Duration::from_secs(5);

/// The form of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// OpenMetrics text, for a client that asks for it.
    OpenMetrics,
    /// Prometheus' own text, for all others.
    Prometheus,
}

impl Form {
    fn asked(request: &httparse::Request<'_, '_>) -> Form {
        let asks = |header: &httparse::Header<'_>| {
            let value = String::from_utf8_lossy(header.value);
            header.name.eq_ignore_ascii_case("accept") && value.contains(OPEN_METRICS)
        };
        if request.headers.iter().any(asks) { Form::OpenMetrics } else { Form::Prometheus }
    }

    fn kind(self) -> String {
        match self {
            Form::OpenMetrics => format!("{OPEN_METRICS}; version=1.0.0; charset=utf-8"),
            Form::Prometheus => "text/plain; version=0.0.4; charset=utf-8".into(),
        }
    }
}

const OPEN_METRICS: &str = "application/openmetrics-text";

/// The listeners, until this is dropped.
pub struct Scraped {
    stop: Arc<AtomicBool>,
    socket: PathBuf,
    tcp: Option<SocketAddr>,
    threads: Vec<JoinHandle<()>>,
}

/// Makes the page of a scrape.
pub type Page = Arc<Mutex<dyn FnMut(Form) -> String + Send>>;

/// Listens. `mode`: of the Unix socket.
pub fn listen(
    socket: &Path,
    mode: u32,
    tcp: Option<SocketAddr>,
    page: Page,
) -> io::Result<Scraped> {
    let stop = Arc::<AtomicBool>::default();
    let unix = bind(socket, mode)?;
    let tcp = tcp.map(TcpListener::bind).transpose()?;
    let address = tcp.as_ref().map(TcpListener::local_addr).transpose()?;
    let mut scraped =
        Scraped { stop, socket: socket.to_path_buf(), tcp: address, threads: Vec::new() };
    let accept = move || unix.accept().map(|(stream, _)| stream);
    scraped.begin(
        accept,
        UnixStream::set_read_timeout,
        UnixStream::set_write_timeout,
        page.clone(),
    )?;
    if let Some(tcp) = tcp {
        let accept = move || tcp.accept().map(|(stream, _)| stream);
        scraped.begin(accept, TcpStream::set_read_timeout, TcpStream::set_write_timeout, page)?;
    }
    Ok(scraped)
}

type SetTimeout<S> = fn(&S, Option<Duration>) -> io::Result<()>;

impl Scraped {
    /// One client after another: each has a time limit.
    fn begin<S: Read + Write + 'static>(
        &mut self,
        accept: impl Fn() -> io::Result<S> + Send + 'static,
        read_within: SetTimeout<S>,
        write_within: SetTimeout<S>,
        page: Page,
    ) -> io::Result<()> {
        let stop = self.stop.clone();
        let work = move || {
            while let stream = accept()
                && !stop.load(Ordering::Relaxed)
            {
                match stream {
                    Ok(mut stream) => {
                        let _ = answer(&mut stream, read_within, write_within, &page);
                    }
                    // As when this process has no descriptor left.
                    Err(_) => thread::sleep(Duration::from_millis(100)),
                }
            }
        };
        self.threads.push(thread::Builder::new().name("metrics".into()).spawn(work)?);
        Ok(())
    }
}

impl Drop for Scraped {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A connection wakes each of them.
        let _ = UnixStream::connect(&self.socket);
        if let Some(tcp) = self.tcp {
            let _ = TcpStream::connect_timeout(&tcp, CLIENT_TAKES);
        }
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
        let _ = fs::remove_file(&self.socket);
    }
}

fn answer<S: Read + Write>(
    stream: &mut S,
    read_within: SetTimeout<S>,
    write_within: SetTimeout<S>,
    page: &Page,
) -> io::Result<()> {
    let head = read_head(stream, read_within)?;
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    let is_whole = request.parse(&head).is_ok_and(|parsed| parsed.is_complete());
    let path = request.path.and_then(|path| path.split('?').next());
    let plain = || "text/plain".to_string();
    let (status, kind, body) = match (request.method, path) {
        _ if !is_whole => ("400 Bad Request", plain(), "this is no request\n".into()),
        (Some("GET" | "HEAD"), Some("/metrics")) => {
            let form = Form::asked(&request);
            let mut page = page.lock().unwrap_or_else(PoisonError::into_inner);
            ("200 OK", form.kind(), page(form))
        }
        (Some("GET" | "HEAD"), _) => ("404 Not Found", plain(), "see /metrics\n".into()),
        _ => ("405 Method Not Allowed", plain(), "only GET is heeded\n".into()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    write_within(stream, Some(CLIENT_TAKES))?;
    stream.write_all(head.as_bytes())?;
    match request.method {
        Some("HEAD") => Ok(()),
        _ => stream.write_all(body.as_bytes()),
    }
}

/// All up to the empty line, or what there is of it in time.
fn read_head<S: Read>(stream: &mut S, read_within: SetTimeout<S>) -> io::Result<Vec<u8>> {
    let began = Instant::now();
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < HEAD_MAX {
        let left = CLIENT_TAKES.saturating_sub(began.elapsed());
        if left.is_zero() {
            break;
        }
        read_within(stream, Some(left))?;
        let mut some = [0; 1024];
        match stream.read(&mut some) {
            Ok(0) => break,
            Ok(count) => head.extend(&some[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn scraped(folder: &Path) -> (Scraped, PathBuf) {
        let socket = folder.join("metrics");
        let mut scrapes = 0;
        let page: Page = Arc::new(Mutex::new(move |form| {
            scrapes += 1;
            format!("{form:?} {scrapes}\n# EOF\n")
        }));
        let tcp = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        (listen(&socket, 0o600, tcp, page).unwrap(), socket)
    }

    fn ask(mut stream: impl Read + Write, request: &[u8]) -> String {
        let _ = stream.write_all(request);
        let mut reply = Vec::new();
        let _ = stream.read_to_end(&mut reply);
        String::from_utf8_lossy(&reply).into_owned()
    }

    const GET: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
    const GET_OPEN: &[u8] = b"GET /metrics HTTP/1.1\r\naccept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n\r\n";

    #[test]
    fn both_sockets_give_the_same_page() {
        let folder = tempfile::tempdir().unwrap();
        let (scraped, socket) = scraped(folder.path());
        let unix = ask(UnixStream::connect(&socket).unwrap(), GET_OPEN);
        assert!(
            unix.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text"),
            "{unix}"
        );
        assert!(unix.ends_with("\r\n\r\nOpenMetrics 1\n# EOF\n"), "{unix}");
        let tcp = ask(TcpStream::connect(scraped.tcp.unwrap()).unwrap(), GET);
        assert!(tcp.contains("Content-Type: text/plain; version=0.0.4"), "{tcp}");
        assert!(tcp.ends_with("Prometheus 2\n# EOF\n"), "{tcp}");
        assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
        let tcp = scraped.tcp.unwrap();
        drop(scraped);
        assert!(!socket.exists() && TcpStream::connect(tcp).is_err());
    }

    #[test]
    fn what_is_no_scrape_gets_no_metrics_and_holds_up_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let (_scraped, socket) = scraped(folder.path());
        let connect = || UnixStream::connect(&socket).unwrap();
        let long = [b"GET /metrics HTTP/1.1\r\nA: ".to_vec(), vec![b'a'; 2 * HEAD_MAX]].concat();
        for (request, status) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
            (b"\xff\xfe\r\n\r\n", "400"),
        ] {
            let reply = ask(connect(), request);
            assert!(reply.starts_with(&format!("HTTP/1.1 {status}")), "{reply}");
        }
        // Of a request that is too long the rest is not read, and the answer may be lost with it.
        assert!(!ask(connect(), &long).contains("EOF"));
        drop(connect());
        let head = ask(connect(), b"HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(head.contains("200 OK") && !head.contains("EOF"), "{head}");
        assert!(ask(connect(), GET).ends_with("EOF\n"));
    }
}
