//! Keys to digests on every core, in order.
//!
//! Workers take turns at reading a block; cutting and hashing it, which is most of the work, happens side by side. The
//! caller gets the digests in the order of the sources, whatever order the workers finish in, so a filter built from them
//! is the same file every time. A few blocks are on their way at once, and no more: memory is bounded.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use bloomgate::{Contract, Digest};

use crate::digest;
use crate::failure::Failure;
use crate::keys::{Block, KeyStream, Reading, Source};

/// Digests of one block of keys.
#[derive(Default)]
pub struct Batch {
    /// In the order of the keys.
    pub digests: Vec<Digest>,
    /// The keys that they are of.
    pub block: Block,
    /// Whether these are the first keys of a source.
    pub begins: bool,
}

/// The sources, read one after another.
struct Streams {
    reading: Reading,
    waiting: VecDeque<Source>,
    now: Option<Box<dyn KeyStream>>,
    /// What was left out by those that were read to their end.
    skipped: Vec<String>,
    /// The number of the next batch.
    next: u64,
    /// After the end or an error nothing is read.
    ended: bool,
    /// Whether a worker is reading: one that finds it so has taken over from one that died.
    busy: bool,
    begins: bool,
}

impl Streams {
    /// Fills the block; its number, or nothing at the end.
    fn next(&mut self, batch: &mut Batch) -> Option<(u64, Result<(), Failure>)> {
        if self.ended {
            return None;
        }
        let filled = if std::mem::replace(&mut self.busy, true) { Err(died()) } else { self.fill(batch) };
        self.busy = false;
        let read = match filled {
            Ok(true) => Ok(()),
            Ok(false) => {
                self.ended = true;
                return None;
            }
            Err(error) => {
                self.ended = true;
                Err(error)
            }
        };
        let number = self.next;
        self.next += 1;
        Some((number, read))
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<bool, Failure> {
        loop {
            if self.now.is_none() {
                let Some(source) = self.waiting.pop_front() else { return Ok(false) };
                self.now = Some(self.reading.open(&source)?);
                self.begins = true;
            }
            if let Some(stream) = &mut self.now {
                if stream.next(&mut batch.block)? {
                    batch.begins = std::mem::take(&mut self.begins);
                    return Ok(true);
                }
                self.skipped.extend(stream.skipped());
                self.now = None;
            }
        }
    }
}

/// Keys that nobody hands over would be missing in the filter, which is a wrong "no": it is an error, never the end.
fn died() -> Failure {
    Failure::Message("a thread that reads keys has died; nothing was written".into())
}

/// What a worker hands over: the number of a batch, and what became of it.
type Done = (u64, Result<Batch, Failure>);

/// Digests of all keys of the sources, by the batch, in order.
pub struct Conveyor {
    streams: Arc<Mutex<Streams>>,
    done: Receiver<Done>,
    free: Sender<Batch>,
    /// Batches that came before their turn.
    early: BTreeMap<u64, Result<Batch, Failure>>,
    next: u64,
}

impl Conveyor {
    /// Starts to read and hash. The threads are not waited for when the conveyor is dropped: one may be waiting for a
    /// pipe that nobody writes to.
    pub fn start(sources: &[Source], reading: &Reading, contract: &Contract) -> Self {
        Self::run(
            Streams {
                reading: reading.clone(),
                waiting: sources.iter().cloned().collect(),
                now: None,
                skipped: Vec::new(),
                next: 0,
                ended: false,
                busy: false,
                begins: false,
            },
            contract,
        )
    }

    fn run(streams: Streams, contract: &Contract) -> Self {
        let streams = Arc::new(Mutex::new(streams));
        // One core inserts; where there are no others it hashes too.
        let workers =
            std::thread::available_parallelism().map_or(1, |cores| cores.get().saturating_sub(1)).clamp(1, 64);
        // Each worker has one in hand while another waits to be inserted.
        let room = workers * 2 + 2;
        let (free, taken) = channel();
        (0..room).for_each(|_| _ = free.send(Batch::default()));
        let taken = Arc::new(Mutex::new(taken));
        let (finished, done) = sync_channel(room);
        for _ in 0..workers {
            let (streams, taken, finished, contract) =
                (streams.clone(), taken.clone(), finished.clone(), contract.clone());
            std::thread::spawn(move || work(&streams, &taken, &finished, &contract));
        }
        Self { streams, done, free, early: BTreeMap::new(), next: 0 }
    }

    /// The next batch, in the order of the sources; nothing at the end.
    pub fn next(&mut self) -> Result<Option<Batch>, Failure> {
        loop {
            if let Some(batch) = self.early.remove(&self.next) {
                self.next += 1;
                return batch.map(Some);
            }
            match self.done.recv() {
                Ok((number, batch)) => _ = self.early.insert(number, batch),
                // All workers are gone. Only if everything that they read was taken is this the end.
                Err(_) => {
                    let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
                    return if streams.ended && streams.next == self.next { Ok(None) } else { Err(died()) };
                }
            }
        }
    }

    /// Gives a batch back, to be filled again.
    pub fn recycle(&mut self, batch: Batch) {
        // Nobody takes it once all is read.
        _ = self.free.send(batch);
    }

    /// What the sources left out (such as nulls), in words.
    pub fn skipped(&self) -> Vec<String> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).skipped.clone()
    }
}

fn work(streams: &Mutex<Streams>, free: &Mutex<Receiver<Batch>>, done: &SyncSender<Done>, contract: &Contract) {
    loop {
        let batch = free.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(mut batch) = batch else { return };
        let Some((number, read)) = streams.lock().unwrap_or_else(PoisonError::into_inner).next(&mut batch) else {
            return;
        };
        let result = read.and_then(|()| hash(contract, &mut batch)).map(|()| batch);
        if done.send((number, result)).is_err() {
            return;
        }
    }
}

/// The digests of the keys of a batch, or why one of them is none.
fn hash(contract: &Contract, batch: &mut Batch) -> Result<(), Failure> {
    let keys = batch.block.keys();
    batch.digests.clear();
    if digest::takes_bytes(contract) {
        contract.digest_batch(&keys.keys, &mut batch.digests)?;
        return Ok(());
    }
    let mut scratch = Vec::new();
    batch.digests.reserve(keys.keys.len());
    for (at, key) in keys.keys.iter().enumerate() {
        let digest = digest::digest(contract, key, &mut scratch)
            .map_err(|error| Failure::Message(format!("{}: {error}", keys.place(at))))?;
        batch.digests.push(digest);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_come_in_the_order_of_the_keys() {
        let folder = tempfile::tempdir().unwrap();
        let mut sources = Vec::new();
        for file in 0..3u64 {
            let path = folder.path().join(file.to_string());
            let lines: String = (0..200_000 * file).map(|i| format!("{file}-{i}\n")).collect();
            std::fs::write(&path, lines).unwrap();
            sources.push(Source::File(path));
        }
        let contract = Contract::xxh3();
        let mut conveyor = Conveyor::start(&sources, &Reading::default(), &contract);
        let (mut all, mut begins) = (Vec::new(), 0);
        while let Some(batch) = conveyor.next().unwrap() {
            all.extend_from_slice(&batch.digests);
            begins += u64::from(batch.begins);
            conveyor.recycle(batch);
        }
        let expected: Vec<Digest> = (0..3u64)
            .flat_map(|file| (0..200_000 * file).map(move |i| contract_digest(&format!("{file}-{i}"))))
            .collect();
        assert!(all == expected);
        assert_eq!(begins, 2, "the first file is empty");
        assert!(conveyor.next().unwrap().is_none(), "the end stays the end");
    }

    fn contract_digest(key: &str) -> Digest {
        Contract::xxh3().digest(key).unwrap()
    }

    /// Hands out two blocks of keys, then panics, as a parser with a fault would; asked again it says that this is the end.
    struct Faulty(u32);

    impl KeyStream for Faulty {
        fn next(&mut self, block: &mut Block) -> Result<bool, Failure> {
            self.0 += 1;
            assert!(self.0 != 3, "a fault");
            *block = Block::default();
            Ok(self.0 < 3)
        }
    }

    #[test]
    fn a_thread_that_dies_is_never_the_end() {
        let streams = Streams {
            reading: Reading::default(),
            waiting: VecDeque::new(),
            now: Some(Box::new(Faulty(0))),
            skipped: Vec::new(),
            next: 0,
            ended: false,
            busy: false,
            begins: true,
        };
        let mut conveyor = Conveyor::run(streams, &Contract::xxh3());
        for _ in 0..2 {
            let batch = conveyor.next().unwrap().unwrap();
            conveyor.recycle(batch);
        }
        match conveyor.next() {
            Err(Failure::Message(error)) => assert!(error.contains("has died"), "{error}"),
            Err(Failure::Gone) => panic!("nothing was written"),
            Ok(_) => panic!("keys are missing, and nobody says so"),
        }
    }

    #[test]
    fn an_error_comes_in_its_turn_and_names_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("numbers");
        let mut lines: Vec<String> = (0..150_000).map(|i| i.to_string()).collect();
        lines[140_000] = "x".into();
        std::fs::write(&path, lines.join("\n")).unwrap();
        let contract = Contract::xxh3().with_encoding(bloomgate::Encoding::Unsigned);
        let mut conveyor = Conveyor::start(&[Source::File(path)], &Reading::default(), &contract);
        let mut before = 0;
        let error = loop {
            match conveyor.next() {
                Ok(Some(batch)) => before += batch.digests.len(),
                Ok(None) => panic!("the error is lost"),
                Err(Failure::Message(error)) => break error,
                Err(Failure::Gone) => panic!("nothing was written"),
            }
        };
        assert!(error.contains(":140001: "), "{error}");
        assert!((100_000..140_000).contains(&before), "{before}");
    }
}
