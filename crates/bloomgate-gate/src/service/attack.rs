//! The attack on an embedded catalogue, for the dashboard: started by an admin, told front by front.
//!
//! It runs in a process of its own (`bloomgate attack --only FRONT`, one front after the other), so that neither the gate
//! nor what it guards is touched: the catalogue is made for it in a folder that is removed again. It has a lower priority,
//! and ends with the gate.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use bloomgate_http::problem::Problem;
use serde::Serialize;
use serde_json::Value;

/// The fronts that are attacked, in this order.
const FRONTS: [&str; 5] = ["nothing", "cache", "negative-cache", "gate", "gate-resp"];
/// Requests to each front: the fewest that show something, what is usual, and two minutes of a slow disk.
const REQUESTS: (u64, u64, u64) = (1_000, 100_000, 2_000_000);
/// No front takes longer, or it is ended.
const PATIENCE: Duration = Duration::from_secs(300);
/// How often the process is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// What is read of what a process says; a front's report has about 2 kB.
const MOST_SAID: u64 = 64 << 10;

/// How far the attack is.
#[derive(Clone, Debug, Default, Serialize)]
struct State {
    running: bool,
    /// The front that is attacked now.
    front: Option<&'static str>,
    /// All of them, in their order.
    fronts: &'static [&'static str],
    /// Requests to each.
    requests: u64,
    /// What `bloomgate attack --json` said of the fronts that are done.
    done: Vec<Value>,
    /// Why it ended early.
    failure: Option<String>,
    #[serde(skip)]
    stop: bool,
}

/// The attack of a service.
#[derive(Debug)]
pub(super) struct Attack {
    program: PathBuf,
    state: Arc<Mutex<State>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Attack {
    /// An attack by this program, which understands `attack`.
    pub(super) fn by(program: PathBuf) -> Self {
        let state = State { fronts: &FRONTS, requests: REQUESTS.1, ..State::default() };
        Self { program, state: Arc::new(Mutex::new(state)), thread: Mutex::default() }
    }

    /// How far it is, as JSON.
    pub(super) fn told(&self) -> impl Serialize + use<> {
        locked(&self.state).clone()
    }

    /// Begins it, as a body like `{"requests":100000}` says.
    pub(super) fn begin(&self, body: &[u8]) -> Result<(), Problem> {
        let requests = wanted(body)?;
        let mut thread = locked(&self.thread);
        {
            let mut state = locked(&self.state);
            if state.running {
                let title = "An attack is under way";
                let detail = "one at a time: wait for its end, or POST /attack/stop";
                return Err(Problem::new(StatusCode::CONFLICT, "attack-under-way", title, detail));
            }
            *state = State { running: true, fronts: &FRONTS, requests, ..State::default() };
        }
        let (program, state) = (self.program.clone(), self.state.clone());
        let begun = std::thread::Builder::new().name("attack".into()).spawn(move || all_fronts(&program, &state));
        *thread = begun
            .inspect_err(|error| {
                let mut state = locked(&self.state);
                (state.running, state.failure) = (false, Some(format!("no thread for it: {error}")));
            })
            .ok();
        Ok(())
    }

    /// Ends it, if it runs.
    pub(super) fn stop(&self) {
        locked(&self.state).stop = true;
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        self.stop();
        // A look of the process later it is over.
        if let Some(thread) = locked(&self.thread).take() {
            let _ = thread.join();
        }
    }
}

fn locked<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The requests that a body asks for.
fn wanted(body: &[u8]) -> Result<u64, Problem> {
    let (least, usual, most) = REQUESTS;
    if body.is_empty() {
        return Ok(usual);
    }
    let wish: Option<Value> = serde_json::from_slice(body).ok();
    let wish = wish.as_ref().and_then(Value::as_object).filter(|wish| wish.keys().all(|name| name == "requests"));
    wish.and_then(|wish| wish.get("requests").map_or(Some(usual), Value::as_u64))
        .filter(|requests| (least..=most).contains(requests))
        .ok_or_else(|| {
            Problem::bad_request(format!(
                "the body of /attack is a JSON object like {{\"requests\":{usual}}}, with {least} to {most} requests to each front"
            ))
        })
}

fn all_fronts(program: &Path, state: &Mutex<State>) {
    let requests = locked(state).requests;
    let mut failure = None;
    for front in FRONTS {
        locked(state).front = Some(front);
        match one_front(program, front, requests, state) {
            Ok(Some(found)) => locked(state).done.push(found),
            Ok(None) => failure = Some("it was stopped".to_owned()),
            Err(why) => failure = Some(format!("{front}: {why}")),
        }
        if failure.is_some() {
            break;
        }
    }
    let mut state = locked(state);
    (state.running, state.front, state.failure) = (false, None, failure);
}

/// What the attack on one front found; nothing if it was stopped.
fn one_front(program: &Path, front: &str, requests: u64, state: &Mutex<State>) -> Result<Option<Value>, String> {
    let mut child = spawn(program, front, requests).map_err(|error| format!("it could not be started: {error}"))?;
    let began = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => {}
            Err(error) => return Err(format!("its process is lost: {error}")),
        }
        let stopped = locked(state).stop;
        if stopped || began.elapsed() > PATIENCE {
            end(&mut child);
            return if stopped { Ok(None) } else { Err(format!("it took longer than {} s", PATIENCE.as_secs())) };
        }
        std::thread::sleep(LOOK);
    };
    let said = |pipe: Option<&mut dyn Read>| {
        let mut text = String::new();
        // What is no text is not understood below.
        let _ = pipe.map(|pipe| pipe.take(MOST_SAID).read_to_string(&mut text));
        text
    };
    let out = said(child.stdout.as_mut().map(|pipe| pipe as &mut dyn Read));
    let found = serde_json::from_str::<Value>(&out)
        .ok()
        .and_then(|mut report| Some(report.get_mut("fronts")?.get_mut(0)?.take()));
    found.map(Some).ok_or_else(|| {
        let why = said(child.stderr.as_mut().map(|pipe| pipe as &mut dyn Read));
        match why.trim() {
            "" => format!("it ended with {status}"),
            why => why.chars().take(500).collect(),
        }
    })
}

fn spawn(program: &Path, front: &str, requests: u64) -> std::io::Result<Child> {
    let start = |mut command: Command| {
        command.args(["attack", "--json", "--quiet", "--only", front, "--requests"]).arg(requests.to_string());
        // Nothing of ours: no secrets, no settings. Only what finds programs and the folder for temporary files.
        command
            .env_clear()
            .envs(["PATH", "TMPDIR", "HOME"].into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
    };
    let mut kind = Command::new("nice");
    kind.args(["-n", "10"]).arg(program);
    start(kind).or_else(|_| start(Command::new(program)))
}

fn end(child: &mut Child) {
    // It may have ended by itself meanwhile.
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_have_limits() {
        let asked = |body: &str| wanted(body.as_bytes()).ok();
        assert_eq!(asked(""), Some(100_000));
        assert_eq!(asked("{}"), Some(100_000));
        assert_eq!(asked(r#"{"requests":1000}"#), Some(1_000));
        for wrong in [
            "[]",
            "7",
            "{",
            r#"{"requests":999}"#,
            r#"{"requests":2000001}"#,
            r#"{"requests":"9000"}"#,
            r#"{"fronts":1}"#,
        ] {
            assert_eq!(asked(wrong), None, "{wrong}");
        }
    }

    fn ended(attack: &Attack) -> State {
        let begun = Instant::now();
        while locked(&attack.state).running {
            assert!(begun.elapsed() < Duration::from_secs(20), "it does not end");
            std::thread::sleep(LOOK);
        }
        locked(&attack.state).clone()
    }

    #[test]
    fn a_program_that_is_not_there_or_says_nothing_is_told() {
        for (program, told) in [("/nowhere/bloomgate", "nothing: "), ("true", "nothing: it ended with")] {
            let attack = Attack::by(program.into());
            attack.begin(b"").unwrap();
            let state = ended(&attack);
            let failure = state.failure.unwrap();
            assert!(failure.starts_with(told) && state.done.is_empty(), "{program}: {failure}");
        }
    }

    /// A shell stands for the program: it says what `attack --json` says, or takes its time.
    #[cfg(unix)]
    fn program(script: &str) -> (tempfile::TempDir, PathBuf) {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        (folder, path)
    }

    #[cfg(unix)]
    #[test]
    fn every_front_is_attacked_and_told() {
        let (_folder, path) = program(r#"echo "{\"fronts\":[{\"front\":\"$5\",\"requests\":$7}]}""#);
        let attack = Attack::by(path);
        attack.begin(br#"{"requests":5000}"#).unwrap();
        let state = ended(&attack);
        assert_eq!(state.failure, None);
        let told: Vec<&str> = state.done.iter().map(|found| found["front"].as_str().unwrap()).collect();
        assert_eq!(told, FRONTS);
        assert!(state.done.iter().all(|found| found["requests"] == 5_000));
    }

    #[cfg(unix)]
    #[test]
    fn one_at_a_time_and_it_can_be_stopped() {
        let (_folder, path) = program("exec sleep 60");
        let attack = Attack::by(path);
        attack.begin(b"").unwrap();
        assert_eq!(attack.begin(b"").unwrap_err().status(), StatusCode::CONFLICT);
        attack.stop();
        assert_eq!(ended(&attack).failure.as_deref(), Some("it was stopped"));
        // And again; it ends with its service.
        attack.begin(b"").unwrap();
        let begun = Instant::now();
        drop(attack);
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
}
