//! How to measure on a machine that the measured share with those who measure: who goes first, who goes last, and cores that
//! stay awake.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The CPUs this process may use, in order.
pub fn cores() -> Vec<usize> {
    // SAFETY: an all-zero cpu_set_t is an empty set, and the call writes at most its size into it.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set);
        set
    };
    // SAFETY: CPU_ISSET reads inside the set for indexes below CPU_SETSIZE.
    let found: Vec<usize> =
        (0..libc::CPU_SETSIZE as usize).filter(|&core| unsafe { libc::CPU_ISSET(core, &set) }).collect();
    if found.is_empty() { vec![0] } else { found }
}

/// Keeps the calling thread (and what it starts) on `cores`; an empty list changes nothing.
pub fn pin(cores: &[usize]) -> std::io::Result<()> {
    if cores.is_empty() {
        return Ok(());
    }
    // SAFETY: the set is a live local of the size given; indexes come from `cores()` and are below CPU_SETSIZE. Nothing
    // here allocates or locks, so it may also run between fork and exec.
    let status = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for &core in cores {
            libc::CPU_SET(core, &mut set);
        }
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    if status == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Lets the calling thread go before all others: a client that stands for one on another machine, where nobody takes its
/// turn. With a high priority alone it waited for the end of a reactor's turn of the scheduler, 3 ms and more, and that
/// wait was counted as the server's. A refusal only adds noise to what is measured.
pub fn go_first() {
    let least = libc::sched_param { sched_priority: 1 };
    // SAFETY: the pointer is to a live value that is only read; 0 names the calling thread.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &least) } != 0 {
        // SAFETY: the call takes no pointer; 0 names the calling thread.
        let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -15) };
    }
}

/// Lets the calling thread (and what it starts) run only where a CPU has nothing else to do: a client that stands for one
/// on another machine, whose work takes nothing from the server's. With the lowest priority alone its turns of 3 ms still
/// came between a reactor and its CPU: lookups were 7 ms late in rows.
pub fn run_when_idle() {
    let nothing_else = libc::sched_param { sched_priority: 0 };
    // SAFETY: the pointer is to a live value that is only read; 0 names the calling thread.
    let _ = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &nothing_else) };
}

/// Keeps CPUs from going to sleep as long as it lives, by a thread on each that only takes time nobody else wants. A virtual
/// CPU that has halted comes back when its host lets it: idle lookups had a 99th percentile of 3 ms that way, and what goes
/// on beside them made them faster. A server is judged on a machine that is awake.
pub struct Awake(Arc<AtomicBool>, Vec<JoinHandle<()>>);

impl Awake {
    /// Wakes `cores`.
    pub fn keep(cores: &[usize]) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let spin = |&core: &usize| {
            let done = done.clone();
            std::thread::spawn(move || {
                run_when_idle();
                // Refused, it wakes whichever CPU it is on.
                let _ = pin(&[core]);
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        let threads = cores.iter().map(spin).collect();
        Self(done, threads)
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.drain(..).for_each(|thread| drop(thread.join()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stays_where_it_is_pinned() {
        let all = cores();
        let last = *all.last().unwrap();
        let seen = std::thread::spawn(move || {
            pin(&[last]).unwrap();
            cores()
        });
        assert_eq!(seen.join().unwrap(), [last]);
    }
}
