//! Threads that own a connection each and do what they are given, one after the other: SQLite blocks, a runtime must not.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::place::FileId;

type Job = Box<dyn FnOnce(&mut Open) + Send>;

/// A connection, and the file that it has open.
#[derive(Debug)]
pub(super) struct Open {
    pub connection: Connection,
    pub file: FileId,
}

/// Threads behind one queue. They end when this is dropped and the queue is empty.
#[derive(Debug)]
pub(super) struct Threads {
    jobs: Sender<Job>,
}

impl Threads {
    /// One thread for each connection.
    pub fn start(name: &str, connections: Vec<Open>) -> io::Result<Self> {
        let (jobs, queue) = channel();
        let queue = Arc::new(Mutex::new(queue));
        for connection in connections {
            let queue = Arc::clone(&queue);
            thread::Builder::new().name(name.to_string()).spawn(move || work(connection, &queue))?;
        }
        Ok(Self { jobs })
    }

    /// What a job gives, or nothing if the threads have ended. `only_if_awaited`: a job that nobody waits for any more
    /// when its turn comes is left out.
    pub async fn run<T: Send + 'static>(
        &self,
        only_if_awaited: bool,
        job: impl FnOnce(&mut Open) -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        let job = Box::new(move |connection: &mut Open| {
            if !(only_if_awaited && answer.is_closed()) {
                // Nobody may be listening any more; the job is done all the same.
                _ = answer.send(job(connection));
            }
        });
        self.jobs.send(job).ok()?;
        answered.await.ok()
    }
}

fn work(mut connection: Open, queue: &Mutex<Receiver<Job>>) {
    loop {
        // Its own statement: the lock must be free while the job runs.
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match next {
            Ok(job) => job(&mut connection),
            Err(_) => return,
        }
    }
}
