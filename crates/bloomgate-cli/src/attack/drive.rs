//! The workers: each sends its stream of requests to a front, one after the other, and holds every answer against what
//! it knows to be true.
//!
//! The loop is closed (a worker waits for its answer before it asks again), so a front that is slow is asked less often:
//! compare latencies at the same number of workers, and throughput beside them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bloomgate_gate::{Key, Outcome};
use bytes::Bytes;

use super::catalogue;
use super::fronts::{Front, Seen};
use super::latency::Latencies;
use super::mix::{Mix, Step, Subject};
use super::model::{Model, Verdict};

/// Wrong answers and errors that are kept to be shown.
const SHOWN: usize = 5;
/// How often the progress is looked at.
const GLANCE: Duration = Duration::from_millis(100);

/// What is driven: so many requests of a mix.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    /// What the requests are like.
    pub mix: Mix,
    /// How many there are, of all workers together.
    pub requests: u64,
    /// How often the filter is built anew on the way.
    pub rebuilds: u64,
}

/// What was seen.
#[derive(Default)]
pub struct Tally {
    /// Requests that were sent.
    pub requests: u64,
    /// Lookups of products that are there all the time.
    pub standing: u64,
    /// Lookups of keys that never were.
    pub absent: u64,
    /// Lookups of keys that come and go.
    pub moving: u64,
    /// Rows written.
    pub puts: u64,
    /// Rows deleted.
    pub deletes: u64,
    /// Rebuilds that ended well.
    pub rebuilds: u64,
    /// Lookups by where they ended, in the order of [`Outcome::ALL`].
    pub outcomes: [u64; Outcome::ALL.len()],
    /// Lookups of keys that never were, whose filter said "maybe".
    pub false_positives: u64,
    /// Lookups of keys that never were, which a filter was asked about.
    pub true_negatives: u64,
    /// "No" of a key that was there.
    pub wrong_no: u64,
    /// A row of a key that was not there.
    pub wrong_yes: u64,
    /// A row that was not the one written last, or of another key.
    pub wrong_row: u64,
    /// Requests that failed.
    pub errors: u64,
    /// The first wrong answers and errors, in words.
    pub shown: Vec<String>,
    /// How long lookups took.
    pub latencies: Latencies,
    /// How long all of it took.
    pub elapsed: Duration,
}

impl Tally {
    /// Lookups that ended there.
    pub fn ended(&self, outcome: Outcome) -> u64 {
        self.outcomes[place(outcome)]
    }

    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.standing += other.standing;
        self.absent += other.absent;
        self.moving += other.moving;
        self.puts += other.puts;
        self.deletes += other.deletes;
        self.rebuilds += other.rebuilds;
        self.outcomes.iter_mut().zip(other.outcomes).for_each(|(mine, more)| *mine += more);
        self.false_positives += other.false_positives;
        self.true_negatives += other.true_negatives;
        self.wrong_no += other.wrong_no;
        self.wrong_yes += other.wrong_yes;
        self.wrong_row += other.wrong_row;
        self.errors += other.errors;
        self.show_all(other.shown);
        self.latencies.add(&other.latencies);
    }

    fn show_all(&mut self, words: impl IntoIterator<Item = String>) {
        let room = SHOWN.saturating_sub(self.shown.len());
        self.shown.extend(words.into_iter().take(room));
    }

    /// An answer that is not one of the right ones.
    fn note(&mut self, verdict: Verdict, key: &str, seen: &Seen) {
        let what = match verdict {
            Verdict::Right => return,
            Verdict::WrongNo => {
                self.wrong_no += 1;
                "is there and was not found"
            }
            Verdict::WrongYes => {
                self.wrong_yes += 1;
                "is not there and was found"
            }
            Verdict::OldRow => {
                self.wrong_row += 1;
                "has another row than the one that was found"
            }
        };
        let ended = seen.outcome;
        self.show_all([format!("{key} {what} ({ended})")]);
    }

    /// A request that failed.
    fn fail(&mut self, error: &bloomgate_gate::Error) {
        self.errors += 1;
        if self.shown.len() < SHOWN {
            self.shown.push(error.to_string());
        }
    }
}

fn place(outcome: Outcome) -> usize {
    Outcome::ALL.iter().position(|one| *one == outcome).unwrap_or(0)
}

/// Drives the course against a front. `progress` is told how many requests were sent since it was told last.
pub async fn drive(front: Arc<Front>, course: Course, mut progress: impl FnMut(u64)) -> Result<Tally, String> {
    let model = Arc::new(Model::new(if course.mix.writes > 0.0 { course.mix.coming_and_going } else { 0 }));
    let sent = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..course.mix.workers {
        // As even as it goes, and the same in every run.
        let requests = course.requests / course.mix.workers + u64::from(worker < course.requests % course.mix.workers);
        let (front, model, sent) = (front.clone(), model.clone(), sent.clone());
        workers.spawn(work(front, course.mix, worker, requests, model, sent));
    }
    if course.rebuilds > 0 {
        workers.spawn(rebuild(front, course, sent.clone()));
    }
    let mut glance = tokio::time::interval(GLANCE);
    let (mut tally, mut told) = (Tally::default(), 0);
    loop {
        tokio::select! {
            ended = workers.join_next() => match ended {
                Some(Ok(of_worker)) => tally.add(of_worker),
                Some(Err(error)) => return Err(format!("a worker ended early: {error}")),
                None => break,
            },
            _ = glance.tick() => {
                let now = sent.load(Ordering::Relaxed);
                progress(now - told);
                told = now;
            }
        }
    }
    tally.elapsed = began.elapsed();
    Ok(tally)
}

/// Rebuilds at even distances while the workers work.
async fn rebuild(front: Arc<Front>, course: Course, sent: Arc<AtomicU64>) -> Tally {
    let mut tally = Tally::default();
    for number in 1..=course.rebuilds {
        // The last begins before the end, so that it has company.
        let due = course.requests / (course.rebuilds + 1) * number;
        while sent.load(Ordering::Relaxed) < due {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        match front.rebuild().await {
            Ok(built) => tally.rebuilds += u64::from(built),
            Err(error) => tally.fail(&error),
        }
    }
    tally
}

async fn work(
    front: Arc<Front>,
    mix: Mix,
    worker: u64,
    requests: u64,
    model: Arc<Model>,
    sent: Arc<AtomicU64>,
) -> Tally {
    let mut stream = mix.stream(worker);
    let mut tally = Tally::default();
    for _ in 0..requests {
        // Requests come one by one: whoever waits for the database is not made to wait for all those who do not.
        tokio::task::yield_now().await;
        match stream.step() {
            Step::Get(subject) => look_up(&front, &mix, subject, &model, &mut tally).await,
            Step::Put(slot) => {
                let text = catalogue::key(mix.number(Subject::Moving(slot)));
                let version = model.begin(slot, true);
                let row = Bytes::from(catalogue::row(&text, version));
                let outcome = front.put(Key::from(text.as_str()), row).await;
                model.end(slot, outcome.is_ok().then_some(true));
                tally.puts += 1;
                if let Err(error) = outcome {
                    tally.fail(&error);
                }
            }
            Step::Delete(slot) => {
                let key = Key::from(catalogue::key(mix.number(Subject::Moving(slot))).as_str());
                model.begin(slot, false);
                let outcome = front.delete(&key).await;
                model.end(slot, outcome.is_ok().then_some(false));
                tally.deletes += 1;
                if let Err(error) = outcome {
                    tally.fail(&error);
                }
            }
        }
        tally.requests += 1;
        sent.fetch_add(1, Ordering::Relaxed);
    }
    tally
}

async fn look_up(front: &Front, mix: &Mix, subject: Subject, model: &Model, tally: &mut Tally) {
    let text = catalogue::key(mix.number(subject));
    let key = Key::from(text.as_str());
    let before = match subject {
        Subject::Moving(slot) => Some((slot, model.look(slot))),
        _ => None,
    };
    let began = Instant::now();
    let answer = front.get(&key).await;
    let took = began.elapsed();
    let seen = match answer {
        Ok(seen) => seen,
        // Refused is not answered: neither yes nor no.
        Err(error) => return tally.fail(&error),
    };
    tally.latencies.record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    tally.outcomes[place(seen.outcome)] += 1;
    let verdict = match subject {
        Subject::Standing(_) => {
            tally.standing += 1;
            if seen.row.is_some() { Verdict::Right } else { Verdict::WrongNo }
        }
        Subject::Absent(_) => {
            tally.absent += 1;
            // A filter that was not asked has said nothing wrong.
            if seen.outcome != Outcome::Bypass {
                tally.true_negatives += 1;
                tally.false_positives += u64::from(seen.outcome != Outcome::AbsentByFilter);
            }
            if seen.row.is_none() { Verdict::Right } else { Verdict::WrongYes }
        }
        Subject::Moving(_) => {
            tally.moving += 1;
            let found = seen.row.as_deref().map(|row| catalogue::version(row).unwrap_or(u64::MAX));
            before.map_or(Verdict::Right, |(slot, before)| model.judge(slot, before, found))
        }
    };
    let verdict = match &seen.row {
        Some(row) if verdict == Verdict::Right && !catalogue::is_of(row, &text) => Verdict::OldRow,
        _ => verdict,
    };
    tally.note(verdict, &text, &seen);
}

#[cfg(test)]
mod tests {
    use bloomgate_gate::sources::Sqlite;

    use super::*;
    use crate::attack::fronts::Plain;

    const MIX: Mix =
        Mix { seed: 5, products: 50, absent: 0.5, exponent: 0.0, writes: 0.0, coming_and_going: 0, workers: 4 };

    /// Drives 2,000 lookups at a catalogue that somebody has changed meanwhile.
    fn drive_at(change: &str) -> Tally {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("catalogue.db");
        catalogue::build_sqlite(&path, &MIX, true).unwrap();
        rusqlite::Connection::open(&path).unwrap().execute_batch(change).unwrap();
        let source = Arc::new(Sqlite::open(&path, catalogue::TABLE, catalogue::COLUMN).unwrap());
        let front = Arc::new(Front::Plain(Plain::new(source, None, false)));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let course = Course { mix: MIX, requests: 2_000, rebuilds: 0 };
        let mut told = 0;
        let tally = runtime.block_on(drive(front, course, |more| told += more)).unwrap();
        assert!(told <= 2_000 && tally.requests == 2_000 && tally.standing + tally.absent == 2_000);
        tally
    }

    #[test]
    fn every_wrong_answer_is_seen() {
        let wrong = |tally: &Tally| (tally.wrong_no, tally.wrong_yes, tally.wrong_row, tally.errors);
        assert_eq!(wrong(&drive_at("")), (0, 0, 0, 0));
        // Without products, each of the lookups for them is answered with a wrong "no".
        let gone = drive_at("DELETE FROM products");
        assert_eq!(wrong(&gone), (gone.standing, 0, 0, 0));
        assert!(
            (880..1_120).contains(&gone.standing) && gone.shown.len() == SHOWN,
            "{} {:?}",
            gone.standing,
            gone.shown
        );
        assert!(gone.shown[0].contains("is there and was not found"), "{:?}", gone.shown);
        // One of the fifty is gone: 1,000 / 50 lookups are for it, give or take 4.5.
        let one = drive_at("DELETE FROM products WHERE sku = (SELECT min(sku) FROM products)");
        assert!((3..=42).contains(&one.wrong_no), "{}", one.wrong_no);
    }
}
