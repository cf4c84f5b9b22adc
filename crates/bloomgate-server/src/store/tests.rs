//! Tests of the store.

use std::sync::Arc;

use super::*;

mod basics;
mod busy;
mod damage;
mod faults;
mod power;
mod seconds;

/// Sequences and payloads.
pub(crate) type Batches = Vec<(u64, Vec<u8>)>;

pub(crate) fn folder(path: &std::path::Path) -> Arc<Folder> {
    Arc::new(Folder::open(path, Arc::new(RealDisk)).expect("the folder opens"))
}

pub(crate) fn options(fsync: Fsync) -> LogOptions {
    LogOptions { fsync, room_bytes: 0, ..LogOptions::default() }
}

/// Opens a log and returns all of its batches.
pub(crate) fn open(
    folder: &Arc<Folder>,
    after: u64,
    options: LogOptions,
) -> Result<(Log, Recovery, Batches), LogError> {
    let mut batches = Vec::new();
    let opened = open_log(folder, after, 0, options, |sequence, payload| {
        batches.push((sequence, payload.to_vec()));
        Ok::<(), std::convert::Infallible>(())
    });
    match opened {
        Ok((log, recovery)) => Ok((log, recovery, batches)),
        Err(OpenError::Log(error)) => Err(error),
        Err(OpenError::Replay { source, .. }) => match source {},
    }
}

/// Waits until the log says that this sequence is safe, as a reactor does.
pub(crate) fn wait(log: &Log, sequence: u64) -> Gate {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let mut moved = log.watch();
        loop {
            moved.borrow_and_update();
            match log.gate(sequence) {
                Gate::Wait => {
                    let changed = tokio::time::timeout(std::time::Duration::from_secs(20), moved.changed()).await;
                    changed.expect("the log moves").expect("the log lives");
                }
                decided => return decided,
            }
        }
    })
}

/// A payload whose length and bytes follow from its number.
pub(crate) fn payload(number: u64) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let length = state >> 33 & 63;
    (0..length)
        .map(|_| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 56) as u8
        })
        .collect()
}

/// The data folder on a disk in memory.
pub(crate) const DATA: &str = "/data";

pub(crate) fn on(disk: impl Disk) -> Arc<Folder> {
    Arc::new(Folder::open(DATA, Arc::new(disk)).expect("the folder opens"))
}

/// Random bits from a seed (splitmix64).
pub(crate) struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
