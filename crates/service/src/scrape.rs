// SPDX-License-Identifier: GPL-2.0-only
//! Where metrics are scraped: HTTP on a Unix socket, and on TCP if the config file names an address.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::listener::Listening;
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
    page: Page,
    listeners: Vec<Listening>,
    socket: Option<PathBuf>,
}

/// Makes the page of a scrape.
pub type Page = Arc<Mutex<dyn FnMut(Form) -> String + Send>>;

impl Scraped {
    /// Listens nowhere yet.
    pub fn new(page: Page) -> Self {
        Scraped { page, listeners: Vec::new(), socket: None }
    }

    /// Listens on a Unix socket of this mode.
    pub fn on_socket(&mut self, socket: &Path, mode: u32) -> io::Result<()> {
        let unix = bind(socket, mode)?;
        self.socket = Some(socket.to_path_buf());
        let listener = unix.try_clone()?.into();
        let accept = move || unix.accept().map(|(stream, _)| stream);
        self.begin(listener, accept, UnixStream::set_read_timeout, UnixStream::set_write_timeout)
    }

    /// Listens on a TCP address, and returns it with its port.
    pub fn on_tcp(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        let tcp = TcpListener::bind(address)?;
        let address = tcp.local_addr()?;
        let listener = tcp.try_clone()?.into();
        let accept = move || tcp.accept().map(|(stream, _)| stream);
        self.begin(listener, accept, TcpStream::set_read_timeout, TcpStream::set_write_timeout)?;
        Ok(address)
    }

    /// One client after another: each has a time limit.
    fn begin<S: Read + Write + 'static>(
        &mut self,
        listener: OwnedFd,
        accept: impl Fn() -> io::Result<S> + Send + 'static,
        read_within: SetTimeout<S>,
        write_within: SetTimeout<S>,
    ) -> io::Result<()> {
        let page = self.page.clone();
        let serve = move |stream| {
            let until = Instant::now() + CLIENT_TAKES;
            let _ = answer(&mut Client { stream, read_within, write_within, until }, &page);
        };
        self.listeners.push(Listening::begin("metrics", listener, accept, serve)?);
        Ok(())
    }
}

impl Drop for Scraped {
    /// Clients that are there now are waited for, which takes [`CLIENT_TAKES`] at most.
    fn drop(&mut self) {
        self.listeners.iter().for_each(Listening::stop);
        self.listeners.clear();
        let _ = self.socket.as_ref().map(fs::remove_file);
    }
}

type SetTimeout<S> = fn(&S, Option<Duration>) -> io::Result<()>;

/// A client, for so long.
struct Client<S> {
    stream: S,
    read_within: SetTimeout<S>,
    write_within: SetTimeout<S>,
    until: Instant,
}

impl<S: Read + Write> Client<S> {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }

    /// All up to the empty line, or what there is of it in time.
    fn head(&mut self) -> io::Result<Vec<u8>> {
        let mut head = Vec::new();
        while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < HEAD_MAX {
            (self.read_within)(&self.stream, self.left()?)?;
            let mut some = [0; 1024];
            match self.stream.read(&mut some) {
                Ok(0) => break,
                Ok(count) => head.extend(&some[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(head)
    }

    /// One that reads a little now and then has no more time than others.
    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            (self.write_within)(&self.stream, self.left()?)?;
            match self.stream.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn answer<S: Read + Write>(client: &mut Client<S>, page: &Page) -> io::Result<()> {
    let head = client.head()?;
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
        _ => ("405 Method Not Allowed", plain(), "only GET is allowed\n".into()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let is_head = request.method == Some("HEAD");
    client.send(head.as_bytes())?;
    if is_head { Ok(()) } else { client.send(body.as_bytes()) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::thread;

    use super::*;

    fn scraped(folder: &Path) -> (Scraped, PathBuf, SocketAddr) {
        let socket = folder.join("metrics");
        let mut scrapes = 0;
        let page: Page = Arc::new(Mutex::new(move |form| {
            scrapes += 1;
            format!("{form:?} {scrapes}{}\n# EOF\n", " ".repeat(PADDING))
        }));
        let mut scraped = Scraped::new(page);
        scraped.on_socket(&socket, 0o600).unwrap();
        let tcp = scraped.on_tcp(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        (scraped, socket, tcp)
    }

    fn ask(mut stream: impl Read + Write, request: &[u8]) -> String {
        let _ = stream.write_all(request);
        let mut reply = Vec::new();
        let _ = stream.read_to_end(&mut reply);
        String::from_utf8_lossy(&reply).into_owned()
    }

    /// More than a socket takes without a reader.
    const PADDING: usize = 8 << 20;
    const GET: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
    const GET_OPEN: &[u8] = b"GET /metrics HTTP/1.1\r\naccept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n\r\n";

    #[test]
    fn both_sockets_give_the_same_page() {
        let folder = tempfile::tempdir().unwrap();
        let (scraped, socket, tcp) = scraped(folder.path());
        let unix = ask(UnixStream::connect(&socket).unwrap(), GET_OPEN);
        assert!(
            unix.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text"),
            "{unix}"
        );
        assert!(unix.contains("\r\n\r\nOpenMetrics 1 ") && unix.ends_with(" \n# EOF\n"));
        let page = ask(TcpStream::connect(tcp).unwrap(), GET);
        assert!(page.contains("Content-Type: text/plain; version=0.0.4"));
        assert!(page.contains("\r\n\r\nPrometheus 2 ") && page.ends_with(" \n# EOF\n"));
        assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
        drop(scraped);
        assert!(!socket.exists() && TcpStream::connect(tcp).is_err());
    }

    #[test]
    fn what_is_no_scrape_gets_no_metrics_and_holds_up_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let (_scraped, socket, _) = scraped(folder.path());
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

    /// Neither one that says nothing nor one that reads nothing.
    #[test]
    fn no_client_holds_up_others_or_the_end_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let (scraped, socket, tcp) = scraped(folder.path());
        let _silent = UnixStream::connect(&socket).unwrap();
        let mut slow = TcpStream::connect(tcp).unwrap();
        slow.write_all(GET).unwrap();
        let reader = thread::spawn(move || {
            // It takes a little, so that each of the service's writes gets somewhere.
            let mut some = [0; 4096];
            while slow.read(&mut some).is_ok_and(|count| count > 0) {
                thread::sleep(Duration::from_millis(20));
            }
        });
        let page = ask(UnixStream::connect(&socket).unwrap(), GET);
        assert!(page.ends_with("EOF\n"));
        let page = ask(TcpStream::connect(tcp).unwrap(), GET);
        assert!(page.ends_with("EOF\n"));
        let _silent = TcpStream::connect(tcp).unwrap();
        drop(scraped);
        reader.join().unwrap();
    }

    #[test]
    fn without_its_address_the_socket_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let (mut scraped, socket, _) = scraped(folder.path());
        assert!(scraped.on_tcp(taken.local_addr().unwrap()).is_err());
        assert!(ask(UnixStream::connect(&socket).unwrap(), GET).ends_with("EOF\n"));
    }
}
