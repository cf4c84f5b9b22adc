//! Workers: threads for commands that take long, so that no reactor stands still for one.
//!
//! Namespaces take turns, and each has one worker at most, so that the long commands of one tenant hold up no other. One
//! worker is kept for those who run the server: admin commands of users that are bound to no namespace. What waits is bounded for
//! each of them, and what nobody waits for any more is not begun.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bloomgate_command::{Role, find};
use tokio::sync::oneshot;

use super::logins::Logins;
use super::turns::Turns;
use crate::engine::{Core, Engine};
use crate::logging::Level;
use crate::session::desk::{Client, Desk, neighbourhood};
use crate::session::{Dues, Job, login, run_job};

/// What a worker is given: the job, and where its reply goes with what it depends on.
#[derive(Debug)]
struct Order {
    job: Job,
    /// Memory that the job takes while it waits.
    bytes: usize,
    reply: oneshot::Sender<(Vec<u8>, Dues)>,
}

/// Jobs that may wait, and bytes of their words: of a namespace, and of those who are bound to none. One that is larger waits
/// alone.
const MOST_OF_ONE: (usize, usize) = (1_024, 64 << 20);
const MOST_OF_OTHERS: (usize, usize) = (4_096, 256 << 20);

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
    /// Lets a job wait, or gives it back if too many do. Those that nobody waits for any more make room.
    fn push(&mut self, order: Order) -> Option<Order> {
        let (space, is_admin) = (namespace(&order.job), is_admin(&order.job));
        let (most, most_bytes) = if space.is_some() { MOST_OF_ONE } else { MOST_OF_OTHERS };
        let has_room = |bench: &Self| {
            let bytes = |waiting: &mut dyn Iterator<Item = &Order>| waiting.map(|one| one.bytes).sum::<usize>();
            let (count, held) = match is_admin {
                true => (bench.admin.len(), bytes(&mut bench.admin.iter())),
                false => (bench.orders.of(&space), bytes(&mut bench.orders.those_of(&space))),
            };
            count == 0 || (count < most && held + order.bytes <= most_bytes)
        };
        if !has_room(self) {
            self.retain(|one| !one.reply.is_closed());
            if !has_room(self) {
                return Some(order);
            }
        }
        match is_admin {
            true => self.admin.push_back(order),
            false => self.orders.push(space, order),
        }
        None
    }

    fn retain(&mut self, mut wanted: impl FnMut(&Order) -> bool) {
        self.admin.retain(&mut wanted);
        self.orders.retain(wanted);
    }

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
    let spec = job.words.first().and_then(find);
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
        let order = Order { bytes: job.bytes(), job, reply };
        let mut bench = self.0.bench();
        if bench.stopping {
            return None;
        }
        let (given_back, why) = match order.job.login {
            Some(_) => (bench.logins.push(neighbourhood(order.job.client.address), order).err(), TOO_MANY_LOGINS),
            None => (bench.push(order), TOO_MANY_JOBS),
        };
        drop(bench);
        if let Some(Order { job, reply, .. }) = given_back {
            let refusal = if job.silent { b"" } else { why };
            let _ = reply.send((refusal.to_vec(), Dues::default()));
        }
        self.0.moved.notify_all();
        Some(waiting)
    }

    /// Drops what a client waits for, unless it is begun.
    pub fn forget(&self, client: &Client) {
        self.0.bench().retain(|order| order.job.client != *client);
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
        let mut waiting: Vec<String> = bench.admin.drain(..).map(|order| described(&order.job)).collect();
        waiting.extend(std::iter::from_fn(|| bench.orders.pop(|_| true)).map(|order| described(&order.job)));
        self.0.moved.notify_all();
        let busy = |bench: &mut Bench| bench.alive > 0;
        let (bench, _) = self.0.moved.wait_timeout_while(bench, limit, busy).unwrap_or_else(PoisonError::into_inner);
        bench.running.iter().flatten().map(|(job, _)| job.clone()).chain(waiting).collect()
    }
}

const TOO_MANY_LOGINS: &[u8] = b"-ERR too many logins wait to be checked: try again in a moment\r\n";
const TOO_MANY_JOBS: &[u8] = b"-ERR too many long commands wait to be run: try again in a moment\r\n";
const FAILED: &[u8] = b"-ERR the server has a fault: the command was given up, perhaps half done. Its log has more\r\n";

/// Does what a job asks for; nothing if that panicked. A thread that ended by it would be missing for good, and whoever
/// waits for its jobs would wait for ever.
fn attempt<T>(desk: &Desk, job: &Job, out: &mut Vec<u8>, work: impl FnOnce(&mut Vec<u8>) -> T) -> Option<T> {
    // Its locks are let go, and whoever has its buffers makes them anew.
    let done = catch_unwind(AssertUnwindSafe(|| work(out)));
    if done.is_err() {
        let command = described(job);
        let message = format_args!(
            "{command} was given up: a fault of the server (the lines before tell where). Please report it"
        );
        desk.log.say(Level::Error, "command-failed", message, &[("command", command.as_str().into())]);
        out.clear();
        if !job.silent {
            out.extend_from_slice(FAILED);
        }
    }
    done.ok()
}

/// Checks logins, one at a time: a thread of its own, so that they do not wait for long commands nor those for them.
fn check_logins(engine: &Engine, desk: &Desk, shared: &Shared, thread: usize) {
    super::step_back(10);
    let mut bench = shared.bench();
    loop {
        if bench.stopping {
            return;
        }
        let Some(Order { job, reply, .. }) = bench.logins.pop() else {
            bench = shared.moved.wait(bench).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        drop(bench);
        // Who went away is not worth the time.
        if let (Some(login), false) = (&job.login, reply.is_closed()) {
            let mut out = Vec::new();
            attempt(desk, &job, &mut out, |out| login::run(engine, desk, &job, login, thread, out));
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
        let Some(Order { job, reply, .. }) = bench.next(is_kept) else {
            bench = shared.moved.wait(bench).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        // Who went away is not worth the time.
        if reply.is_closed() {
            continue;
        }
        bench.running[number] = Some((described(&job), namespace(&job)));
        drop(bench);
        let mut out = Vec::new();
        let done = attempt(desk, &job, &mut out, |out| run_job(&mut core, desk, &job, out));
        let dues = done.unwrap_or_else(|| {
            core = Core::new(core.engine.clone(), core.thread);
            Dues::default()
        });
        core.engine.journal.flush();
        core.nearby.refresh(&core.engine.names);
        bench = shared.bench();
        bench.running[number] = None;
        // Who asked may be gone: then nobody wants to know.
        let _ = reply.send((out, dues));
        shared.moved.notify_all();
    }
}
