//! Workers: threads for commands that take long, so that no reactor stands still for one.
//!
//! Namespaces take turns, and each has one worker at most, so that the long commands of one tenant hold up no other. One
//! worker is kept for those who run the server: admin commands of users that are bound to no namespace.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bloomgate_command::{Role, find};
use tokio::sync::oneshot;

use super::logins::Logins;
use super::turns::Turns;
use crate::engine::{Core, Engine};
use crate::session::desk::{Desk, neighbourhood};
use crate::session::{Dues, Job, login, run_job};

/// What a worker is given: the job, and where its reply goes with what it depends on.
type Order = (Job, oneshot::Sender<(Vec<u8>, Dues)>);

/// Where jobs are put.
#[derive(Debug, Clone)]
pub struct Workers(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    bench: Mutex<Bench>,
    /// Moves when an order comes, a job is done, or the server stops.
    moved: Condvar,
}

#[derive(Debug, Default)]
struct Bench {
    /// By the namespace of whoever gave them; none for those who are bound to none.
    orders: Turns<Option<String>, Order>,
    /// Of those who run the server.
    admin: VecDeque<Order>,
    logins: Logins<Order>,
    /// What each worker is doing, in words, and for which namespace.
    running: Vec<Option<(String, Option<String>)>>,
    /// Threads that have not ended: they hold the engine, and with it the folder.
    alive: usize,
    stopping: bool,
}

impl Bench {
    /// The next order for a worker.
    fn next(&mut self, is_kept: bool) -> Option<Order> {
        if is_kept {
            return self.admin.pop_front();
        }
        let running = &self.running;
        let is_free =
            |space: &Option<String>| space.is_none() || !running.iter().flatten().any(|(_, runs)| runs == space);
        self.orders.pop(is_free).or_else(|| self.admin.pop_front())
    }
}

/// The namespace of whoever gave a job.
fn namespace(job: &Job) -> Option<String> {
    job.user.as_ref().and_then(|user| user.namespace.clone())
}

/// Whether a job is an admin command of somebody who runs the server.
fn is_admin(job: &Job) -> bool {
    let spec = job.words.first().and_then(|name| find(name));
    let spec = spec.map(|spec| job.words.get(1).and_then(|word| spec.subcommand(word)).unwrap_or(spec));
    namespace(job).is_none() && spec.is_some_and(|spec| spec.role() == Some(Role::Admin))
}

impl Shared {
    fn bench(&self) -> MutexGuard<'_, Bench> {
        self.bench.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread of this name, which lets go of all it has before it counts as ended.
    fn spawn(self: &Arc<Self>, name: String, work: impl FnOnce(&Self) + Send + 'static) -> std::io::Result<()> {
        let shared = self.clone();
        self.bench().alive += 1;
        let spawned = std::thread::Builder::new().name(name).spawn(move || {
            work(&shared);
            shared.bench().alive -= 1;
            shared.moved.notify_all();
        });
        spawned.map(drop).inspect_err(|_| self.bench().alive -= 1)
    }
}

impl Workers {
    /// Starts workers whose gates of the turnstile begin at `first_gate`. If there are several, one is kept for admin commands.
    pub fn start(engine: &Arc<Engine>, desk: &Arc<Desk>, count: usize, first_gate: usize) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        shared.bench().running = vec![None; count.max(1)];
        for number in 0..count.max(1) {
            let (engine, desk) = (engine.clone(), desk.clone());
            shared.spawn(format!("bloomgate-work-{number}"), move |shared| {
                let is_kept = count > 1 && number == count - 1;
                work(Core::new(engine, first_gate + number), &desk, shared, (number, is_kept));
            })?;
        }
        let (engine, desk) = (engine.clone(), desk.clone());
        shared.spawn("bloomgate-login".to_owned(), move |shared| check_logins(&engine, &desk, shared, first_gate))?;
        Ok(Self(shared))
    }

    /// Gives a job to a worker; nothing when the server is stopping.
    #[must_use]
    pub fn run(&self, job: Job) -> Option<oneshot::Receiver<(Vec<u8>, Dues)>> {
        let (reply, waiting) = oneshot::channel();
        let mut bench = self.0.bench();
        if bench.stopping {
            return None;
        }
        if job.login.is_some() {
            let from = neighbourhood(job.client.address);
            if let Err((job, reply)) = bench.logins.push(from, (job, reply)) {
                let refusal: &[u8] = if job.silent { b"" } else { TOO_MANY_LOGINS };
                let _ = reply.send((refusal.to_vec(), Dues::default()));
            }
        } else {
            match is_admin(&job) {
                true => bench.admin.push_back((job, reply)),
                false => bench.orders.push(namespace(&job), (job, reply)),
            }
        }
        drop(bench);
        self.0.moved.notify_all();
        Some(waiting)
    }

    /// Whether no job is being run.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.0.bench().running.iter().all(Option::is_none)
    }

    /// Takes no more jobs, drops those that wait, and gives those that run so much time to end. What is left, in words: it
    /// is cut off when the process ends, as by a crash. Nobody was told that it is done.
    #[must_use]
    pub fn stop(&self, limit: Duration) -> Vec<String> {
        let mut bench = self.0.bench();
        bench.stopping = true;
        bench.logins.clear();
        let mut waiting: Vec<String> = bench.admin.drain(..).map(|(job, _)| described(&job)).collect();
        waiting.extend(std::iter::from_fn(|| bench.orders.pop(|_| true)).map(|(job, _)| described(&job)));
        self.0.moved.notify_all();
        let busy = |bench: &mut Bench| bench.alive > 0;
        let (bench, _) = self.0.moved.wait_timeout_while(bench, limit, busy).unwrap_or_else(PoisonError::into_inner);
        bench.running.iter().flatten().map(|(job, _)| job.clone()).chain(waiting).collect()
    }
}

const TOO_MANY_LOGINS: &[u8] = b"-ERR too many logins wait to be checked: try again in a moment\r\n";

/// Checks logins, one at a time: a thread of its own, so that they do not wait for long commands nor those for them.
fn check_logins(engine: &Engine, desk: &Desk, shared: &Shared, thread: usize) {
    super::step_back(10);
    let mut bench = shared.bench();
    loop {
        if bench.stopping {
            return;
        }
        let Some((job, reply)) = bench.logins.pop() else {
            bench = shared.moved.wait(bench).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        drop(bench);
        // Who went away is not worth the time.
        if let (Some(login), false) = (&job.login, reply.is_closed()) {
            let mut out = Vec::new();
            login::run(engine, desk, &job, login, thread, &mut out);
            let _ = reply.send((out, Dues::default()));
        }
        bench = shared.bench();
    }
}

/// A job for people: the command and what it is about.
fn described(job: &Job) -> String {
    let word = |at: usize| job.words.get(at).map(|word| word[..word.len().min(64)].escape_ascii().to_string());
    let command = word(0).unwrap_or_default().to_ascii_uppercase();
    match word(1) {
        Some(about) => format!("{command} {about}"),
        None => command,
    }
}

fn work(mut core: Core, desk: &Desk, shared: &Shared, (number, is_kept): (usize, bool)) {
    super::step_back(10);
    let mut bench = shared.bench();
    loop {
        if bench.stopping {
            return;
        }
        let Some((job, reply)) = bench.next(is_kept) else {
            bench = shared.moved.wait(bench).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        bench.running[number] = Some((described(&job), namespace(&job)));
        drop(bench);
        let mut out = Vec::new();
        let dues = run_job(&mut core, desk, &job, &mut out);
        core.engine.journal.flush();
        core.nearby.refresh(&core.engine.names);
        bench = shared.bench();
        bench.running[number] = None;
        // Who asked may be gone: then nobody wants to know.
        let _ = reply.send((out, dues));
        shared.moved.notify_all();
    }
}
