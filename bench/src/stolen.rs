//! When the host of a virtual machine held one of its processors, by the kernel's own account (`steal` in /proc/stat): in those
//! moments no program answers anybody, whatever it does. What is said of a server's delays leaves them out, idle and busy
//! alike, and says how many.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the account is kept in.
const TICK: Duration = Duration::from_millis(10);
/// How often it is looked at: each look takes about 40 us.
const EVERY: Duration = Duration::from_millis(4);

/// Times in which a processor was held.
#[derive(Clone, Debug, Default)]
pub struct Stolen {
    spans: Vec<(Instant, Instant)>,
    ticks: u64,
}

impl Stolen {
    /// Whether a processor was held at some time between the two.
    pub fn touches(&self, from: Instant, to: Instant) -> bool {
        self.spans.iter().any(|&(begin, end)| from <= end && to >= begin)
    }

    /// How long all processors together were held.
    pub fn time(&self) -> Duration {
        TICK * self.ticks as u32
    }

    /// Notes that the account grew by so many ticks between two looks.
    fn grew(&mut self, ticks: u64, before: Instant, now: Instant) {
        // It is brought up to date when the processor is back, in whole ticks: what came to one tick may have begun two
        // before the last look.
        let began = before.checked_sub(TICK * (ticks as u32 + 1)).unwrap_or(before);
        self.ticks += ticks;
        match self.spans.last_mut() {
            Some((_, end)) if *end >= began => *end = now,
            _ => self.spans.push((began, now)),
        }
    }
}

/// Looks at the account until it is ended.
pub struct Watch(Arc<AtomicBool>, JoinHandle<Stolen>);

impl Watch {
    /// Begins; `first` lets the thread go before all others, or does nothing.
    pub fn begin(first: fn()) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let ended = done.clone();
        let thread = std::thread::spawn(move || {
            first();
            let mut stolen = Stolen::default();
            let Ok(file) = File::open("/proc/stat") else { return stolen };
            let (mut before, mut at) = (account(&file), Instant::now());
            while !ended.load(Ordering::Relaxed) {
                std::thread::sleep(EVERY);
                let (account, now) = (account(&file), Instant::now());
                let grown: u64 = account.iter().zip(&before).map(|(is, was)| is.saturating_sub(*was)).sum();
                if grown > 0 {
                    stolen.grew(grown, at, now);
                }
                (before, at) = (account, now);
            }
            stolen
        });
        Self(done, thread)
    }

    /// What was held since it began.
    pub fn end(self) -> Stolen {
        self.0.store(true, Ordering::Relaxed);
        // Without an account nothing is left out.
        self.1.join().unwrap_or_default()
    }
}

/// Ticks that each processor was held for since it was started.
fn account(file: &File) -> Vec<u64> {
    // The processors come first, a line of about a hundred bytes each.
    let mut bytes = [0; 16 << 10];
    let read = file.read_at(&mut bytes, 0).unwrap_or(0);
    stolen_ticks(&String::from_utf8_lossy(&bytes[..read]))
}

fn stolen_ticks(text: &str) -> Vec<u64> {
    let processors = text.lines().skip(1).take_while(|line| line.starts_with("cpu"));
    processors.map(|line| line.split_whitespace().nth(8).and_then(|ticks| ticks.parse().ok()).unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_is_the_eighth_number_of_each_processor() {
        let text = "cpu  9 9 9 9 9 9 9 30 0 0\ncpu0 1 2 3 4 5 6 7 10 0 0\ncpu1 1 2 3 4 5 6 7 20 0 0\nintr 5 6\n";
        assert_eq!(stolen_ticks(text), [10, 20]);
        assert!(stolen_ticks("").is_empty());
        assert!(!account(&File::open("/proc/stat").unwrap()).is_empty());
    }

    #[test]
    fn what_ran_while_a_processor_was_held_is_touched() {
        let start = Instant::now() + Duration::from_secs(1);
        let ms = |ms: u64| start + Duration::from_millis(ms);
        let mut stolen = Stolen::default();
        stolen.grew(1, ms(100), ms(104));
        stolen.grew(2, ms(300), ms(304));
        stolen.grew(1, ms(310), ms(314));
        assert_eq!(stolen.spans, [(ms(80), ms(104)), (ms(270), ms(314))]);
        assert_eq!(stolen.time(), Duration::from_millis(40));
        assert!(stolen.touches(ms(70), ms(80)) && stolen.touches(ms(90), ms(91)) && stolen.touches(ms(0), ms(500)));
        assert!(
            !stolen.touches(ms(0), ms(79)) && !stolen.touches(ms(105), ms(269)) && !stolen.touches(ms(315), ms(400))
        );
    }
}
