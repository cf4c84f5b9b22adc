//! Workers: threads for commands that take long, so that no reactor stands still for one.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use crate::engine::{Core, Engine};
use crate::session::desk::Desk;
use crate::session::{Dues, Job, run_job};

/// What a worker is given: the job, and where its reply goes with what it depends on.
type Order = (Job, oneshot::Sender<(Vec<u8>, Dues)>);

/// Where jobs are put.
#[derive(Debug, Clone)]
pub struct Workers {
    orders: Sender<Order>,
}

impl Workers {
    /// Starts workers whose gates of the turnstile begin at `first_gate`.
    pub fn start(
        engine: &Arc<Engine>,
        desk: &Arc<Desk>,
        count: usize,
        first_gate: usize,
    ) -> std::io::Result<(Self, Vec<JoinHandle<()>>)> {
        let (orders, queue) = channel::<Order>();
        let queue = Arc::new(Mutex::new(queue));
        let mut threads = Vec::new();
        for number in 0..count.max(1) {
            let (engine, desk, queue) = (engine.clone(), desk.clone(), queue.clone());
            let name = format!("bloomgate-work-{number}");
            threads.push(std::thread::Builder::new().name(name).spawn(move || {
                work(Core::new(engine, first_gate + number), &desk, &queue);
            })?);
        }
        Ok((Self { orders }, threads))
    }

    /// Gives a job to a worker; nothing when the server is stopping.
    #[must_use]
    pub fn run(&self, job: Job) -> Option<oneshot::Receiver<(Vec<u8>, Dues)>> {
        let (reply, waiting) = oneshot::channel();
        self.orders.send((job, reply)).ok().map(|()| waiting)
    }
}

fn work(mut core: Core, desk: &Desk, queue: &Mutex<Receiver<Order>>) {
    super::step_back(10);
    loop {
        let order = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((job, reply)) = order else { return };
        let mut out = Vec::new();
        let dues = run_job(&mut core, desk, &job, &mut out);
        core.engine.journal.flush();
        core.nearby.refresh(&core.engine.names);
        // Who asked may be gone: then nobody wants to know.
        let _ = reply.send((out, dues));
    }
}
