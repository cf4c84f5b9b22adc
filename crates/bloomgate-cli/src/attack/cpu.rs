//! What the database cost: the CPU time of the threads or processes that answer for it, from Linux's own books.
//!
//! The embedded database runs on threads of a name of its own; a PostgreSQL on this machine in processes whose numbers it
//! tells. Anywhere else nobody can say.

use std::collections::HashMap;
use std::fs;

/// CPU seconds by thread or process, at one moment.
#[derive(Clone, Debug, Default)]
pub struct Reading(HashMap<i32, f64>);

impl Reading {
    /// The threads of this process whose name begins so. `None` where the system does not tell.
    pub fn of_threads(prefix: &str) -> Option<Self> {
        let tasks = fs::read_dir("/proc/self/task").ok()?;
        let mut seconds = HashMap::new();
        for task in tasks.flatten() {
            let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            let number = task.file_name().to_str().and_then(|name| name.parse().ok());
            if let (true, Some(number)) = (name.starts_with(prefix), number) {
                // Nanoseconds on the CPU come first; a thread that has just ended is no longer there to tell.
                let told = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
                let spent: f64 = told.split(' ').next().and_then(|spent| spent.parse().ok()).unwrap_or(0.0);
                seconds.insert(number, spent * 1e-9);
            }
        }
        Some(Self(seconds))
    }

    /// These processes, which must be of that name: the numbers may be those of another machine.
    #[cfg(any(feature = "postgres", test))]
    pub fn of_processes(numbers: &[i32], name: &str) -> Option<Self> {
        let mut seconds = HashMap::new();
        for &number in numbers {
            let told = fs::read_to_string(format!("/proc/{number}/comm")).ok()?;
            if !told.starts_with(name) {
                return None;
            }
            let told = fs::read_to_string(format!("/proc/{number}/schedstat")).ok()?;
            seconds.insert(number, told.split(' ').next()?.parse::<f64>().ok()? * 1e-9);
        }
        Some(Self(seconds))
    }

    /// Seconds since an earlier reading. Who was not there then began since.
    pub fn since(&self, before: &Self) -> f64 {
        self.0.iter().map(|(number, spent)| (spent - before.0.get(number).unwrap_or(&0.0)).max(0.0)).sum()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn work_of_named_threads_is_seen_and_that_of_others_is_not() {
        let before = Reading::of_threads("book-").unwrap();
        let (tell, told) = std::sync::mpsc::channel::<()>();
        let busy = std::thread::Builder::new()
            .name("book-1".into())
            .spawn(move || {
                let spent = || Reading::of_threads("book-").unwrap().since(&Reading::default());
                while spent() < 0.02 {}
                told.recv()
            })
            .unwrap();
        let began = Instant::now();
        let spent = loop {
            let spent = Reading::of_threads("book-").unwrap().since(&before);
            if spent >= 0.02 || began.elapsed() > Duration::from_secs(20) {
                break spent;
            }
        };
        assert!((0.02..10.0).contains(&spent), "{spent}");
        assert_eq!(Reading::of_threads("nobody-").unwrap().since(&Reading::default()), 0.0);
        drop(tell);
        _ = busy.join();
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(Reading::of_processes(&[own], "another").is_none());
    }
}
