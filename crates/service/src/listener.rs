// SPDX-License-Identifier: GPL-2.0-only
//! A listener with a thread of its own, which ends when it is told to.

use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The listener, until this is dropped. Then a client that is served now is waited for.
pub struct Listening {
    stop: Arc<AtomicBool>,
    /// Any socket can be shut down as this one: then nothing is accepted any more.
    listener: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl Listening {
    /// Serves one client after another, in a thread of this name. `listener`: what `accept` accepts from.
    pub fn begin<S>(
        name: &str,
        listener: OwnedFd,
        accept: impl Fn() -> io::Result<S> + Send + 'static,
        mut serve: impl FnMut(S) + Send + 'static,
    ) -> io::Result<Self> {
        let stop = Arc::<AtomicBool>::default();
        let stopped = stop.clone();
        let work = move || {
            while let stream = accept()
                && !stopped.load(Ordering::Relaxed)
            {
                match stream {
                    Ok(stream) => serve(stream),
                    // As when this process has no descriptor left.
                    Err(_) => thread::sleep(Duration::from_millis(100)),
                }
            }
        };
        let thread = Some(thread::Builder::new().name(name.into()).spawn(work)?);
        Ok(Listening { stop, listener: listener.into(), thread })
    }

    /// Accepts no further client.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.listener.shutdown(Shutdown::Both);
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
