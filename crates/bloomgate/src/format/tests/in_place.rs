//! Files that are written in place: what they are when they are whole, and what can be left of them when they are not.

use std::cell::{Cell, RefCell};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::*;
use crate::bits::mapped_mut::faults;
use crate::bits::{Mapped, MappedMut};
use crate::bloom::{BlockedLayout, Bloom, Builder, ClassicLayout, Layout, PartitionedLayout};
use crate::{Blocked, Counting, WhenFull};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

fn builder<L: Layout>(items: u64) -> Builder<L> {
    Bloom::<L>::builder().keys::<u64>().items(items).rate(0.01)
}

/// Keys `from..to`, scattered.
fn keys(from: u64, to: u64) -> Vec<u64> {
    (from..to).map(|key| key.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect()
}

fn holds<L: Layout, S: crate::bits::Store>(filter: &Bloom<L, S>, keys: &[u64]) -> bool {
    keys.iter().all(|key| filter.contains(key).unwrap())
}

#[track_caller]
fn dirty<T>(result: crate::Result<T>) {
    refused(result, ErrorKind::Dirty, "recover");
}

fn same_file<L: Layout>() {
    let folder = Folder::new();
    let path = folder.path("made");
    let (first, second) = (keys(0, 30_000), keys(30_000, 60_000));
    let made = builder::<L>(60_000).create_mapped(&path).unwrap();
    assert_eq!((made.len(), made.is_dirty()), (0, false));
    assert!(Bloom::<L>::open(&path).unwrap().is_empty(), "an empty filter is a whole file");
    let mut alone = builder::<L>(60_000).build().unwrap();
    assert_eq!(fs::read(&path).unwrap(), alone.to_bytes().unwrap(), "empty");
    let fresh = made.insert_batch(&first).unwrap();
    assert_eq!(fresh, alone.insert_batch(&first).unwrap());
    assert!(made.is_dirty());
    dirty(Bloom::<L>::open(&path));
    dirty(Bloom::<L, Mapped>::map(&path));
    dirty(crate::AnyFilter::<Mapped>::map(&path));
    dirty(inspect(&path));
    made.sync().unwrap();
    assert!(!made.is_dirty());
    assert_eq!(fs::read(&path).unwrap(), alone.to_bytes().unwrap(), "synced");
    made.close().unwrap();

    let again = Bloom::<L, MappedMut>::map_mut(&path).unwrap();
    assert_eq!(again.len(), alone.len());
    for key in &second {
        assert_eq!(again.insert(key).unwrap(), alone.insert(key).unwrap());
    }
    assert!(holds(&again, &first) && holds(&again, &second));
    let mut answers = vec![false; second.len()];
    again.contains_batch(&second, &mut answers).unwrap();
    assert!(answers.iter().all(|&maybe| maybe));
    assert_eq!(alone, again);
    assert_eq!(again.to_bytes().unwrap(), alone.to_bytes().unwrap(), "a copy of what is not synced yet");
    again.close().unwrap();
    assert_eq!(fs::read(&path).unwrap(), alone.to_bytes().unwrap(), "closed");
    let mapped = Bloom::<L, Mapped>::map(&path).unwrap();
    mapped.verify_all(|_, _| ()).unwrap();
    assert!(holds(&mapped, &first) && holds(&mapped, &second));
}

#[test]
fn what_is_closed_is_the_file_that_save_writes() {
    same_file::<BlockedLayout>();
    same_file::<ClassicLayout>();
    same_file::<PartitionedLayout>();
}

#[test]
fn threads_insert_while_others_ask_and_one_syncs() {
    let folder = Folder::new();
    let path = folder.path("shared");
    let filter = builder::<BlockedLayout>(400_000).create_mapped(&path).unwrap();
    let working = std::sync::atomic::AtomicUsize::new(3);
    std::thread::scope(|scope| {
        for at in 0..3 {
            let (filter, working) = (&filter, &working);
            scope.spawn(move || {
                for round in 0..20 {
                    let own = keys((at * 20 + round) * 2_000, (at * 20 + round + 1) * 2_000);
                    if round % 2 == 0 {
                        filter.insert_batch(&own).unwrap();
                    } else {
                        own.iter().for_each(|key| assert!(filter.insert(key).is_ok()));
                    }
                    assert!(holds(filter, &own), "own keys, at once");
                }
                working.fetch_sub(1, std::sync::atomic::Ordering::Release);
            });
        }
        let mut syncs = 0;
        while working.load(std::sync::atomic::Ordering::Acquire) > 0 || syncs == 0 {
            filter.sync().unwrap();
            syncs += 1;
        }
    });
    filter.close().unwrap();
    let mut alone = builder::<BlockedLayout>(400_000).build().unwrap();
    alone.insert_batch(&keys(0, 120_000)).unwrap();
    let loaded = Blocked::open(&path).unwrap();
    assert_eq!(loaded, alone, "not the bits of one thread, or not all of them synced");
    let (together, alone) = (loaded.len() as f64, alone.len() as f64);
    assert!((together / alone - 1.0).abs() < 0.005, "{together} told, {alone} alone");
}

/// One sector of a file as of before or after, at random.
fn mixed(before: &[u8], after: &[u8], seed: u64) -> Vec<u8> {
    let coins = words(before.len().div_ceil(512 * 64) + 1, 0.5, seed);
    let mut out = after.to_vec();
    for (at, sector) in out.chunks_mut(512).enumerate() {
        if coins[at / 64] >> (at % 64) & 1 == 1 {
            sector.copy_from_slice(&before[at * 512..][..sector.len()]);
        }
    }
    out
}

/// A power cut at every step of insert and sync, with any mixture of old and new sectors on the disk: the file is whole
/// and has everything that was synced, or is known to be unfinished, and can be recovered. It is never torn beyond that.
#[test]
fn after_a_power_cut_the_file_is_whole_or_says_that_it_is_not() {
    let folder = Folder::new();
    let (path, copy) = (folder.path("cut"), folder.path("copy"));
    let (before, since) = (keys(0, 3_000), keys(3_000, 9_000));
    let filter = builder::<BlockedLayout>(9_000).create_mapped(&path).unwrap();
    filter.insert_batch(&before).unwrap();
    filter.close().unwrap();

    let states = Rc::new(RefCell::new(Vec::new()));
    let (seen, watched) = (states.clone(), path.clone());
    let durable = RefCell::new(fs::read(&path).unwrap());
    let mut seed = 0;
    faults::watch(Some(Box::new(move |step| {
        let now = fs::read(&watched).unwrap();
        if step == "synced" {
            *durable.borrow_mut() = now.clone();
        }
        seen.borrow_mut().push((step, now.clone()));
        for _ in 0..6 {
            seed += 1;
            seen.borrow_mut().push((step, mixed(&durable.borrow(), &now, seed)));
        }
        Ok(())
    })));
    let filter = Blocked::map_mut(&path).unwrap();
    // Two syncs: the second has sums and counts of the first to mix with.
    filter.insert_batch(&since[..3_000]).unwrap();
    filter.sync().unwrap();
    let first_sync = states.borrow().len();
    filter.insert_batch(&since[3_000..]).unwrap();
    filter.close().unwrap();
    faults::watch(None);

    let mut alone = builder::<BlockedLayout>(9_000).build().unwrap();
    alone.insert_batch(&before).unwrap();
    alone.insert_batch(&since).unwrap();
    let states = states.take();
    assert!(states.len() > 140, "{} states", states.len());
    let (mut whole, mut unfinished) = (0, 0);
    for (at, (step, bytes)) in states.iter().enumerate() {
        fs::write(&copy, bytes).unwrap();
        let synced: &[&[u64]] = if at < first_sync { &[&before] } else { &[&before, &since[..3_000]] };
        match Blocked::open(&copy) {
            Ok(loaded) => {
                whole += 1;
                assert!(synced.iter().all(|keys| holds(&loaded, keys)), "a wrong no at {step}, state {at}");
            }
            Err(refusal) => {
                unfinished += 1;
                assert_eq!(refusal.kind(), ErrorKind::Dirty, "state {at}, {step}: {refusal}");
                dirty(Blocked::map_mut(&copy));
                let recovered = Blocked::recover_mapped(&copy).unwrap();
                assert!(synced.iter().all(|keys| holds(&recovered, keys)), "a wrong no at {step}, state {at}");
                assert!(recovered.is_dirty(), "until it is closed");
                if at % 8 == 0 {
                    drop(recovered);
                    dirty(Blocked::open(&copy));
                    let recovered = Blocked::recover_mapped(&copy).unwrap();
                    recovered.insert_batch(&since).unwrap();
                    recovered.close().unwrap();
                    assert_eq!(Blocked::open(&copy).unwrap(), alone, "{step}, state {at}");
                }
            }
        }
    }
    assert!(whole > 20 && unfinished > 60, "{whole} whole, {unfinished} unfinished");
}

/// Every step of the disk fails once: nothing is called whole that is not, and there is no second try.
#[test]
fn an_error_of_the_disk_at_any_step_leaves_the_mark() {
    let folder = Folder::new();
    let path = folder.path("failing");
    let (before, since) = (keys(0, 3_000), keys(3_000, 6_000));
    let mut failed = Vec::new();
    for fails in 0.. {
        let _ = fs::remove_file(&path);
        let filter = builder::<ClassicLayout>(6_000).create_mapped(&path).unwrap();
        filter.insert_batch(&before).unwrap();
        filter.close().unwrap();

        let (left, name) = (Cell::new(fails), Rc::new(Cell::new("")));
        let told = name.clone();
        faults::watch(Some(Box::new(move |step| {
            if step == "synced" {
                return Ok(());
            }
            if left.get() == 0 {
                told.set(step);
                left.set(u64::MAX);
                return Err(io::ErrorKind::StorageFull.into());
            }
            left.set(left.get() - 1);
            Ok(())
        })));
        let filter = Bloom::<ClassicLayout, MappedMut>::map_mut(&path).unwrap();
        let result = filter.insert_batch(&since).and_then(|_| filter.sync());
        faults::watch(None);
        let Err(refusal) = result else {
            filter.close().unwrap();
            assert!(holds(&Bloom::<ClassicLayout>::open(&path).unwrap(), &since));
            break;
        };
        assert_eq!(refusal.kind(), ErrorKind::Io, "{refusal}");
        failed.push(name.get());
        // No more, though the disk would take it now.
        assert_eq!(filter.insert(&1u64).unwrap_err().kind(), ErrorKind::Dirty);
        assert_eq!(filter.insert_batch(&since).unwrap_err().kind(), ErrorKind::Dirty);
        assert_eq!(filter.sync().unwrap_err().kind(), ErrorKind::Dirty);
        assert!(holds(&filter, &before), "asking goes on");
        drop(filter);
        match Bloom::<ClassicLayout>::open(&path) {
            // Before the mark was written nothing else was; and once it is taken away all else is durable.
            Ok(loaded) => match failed[..] {
                ["mark"] => assert!(holds(&loaded, &before)),
                [.., "settle", "sync"] => assert!(holds(&loaded, &before) && holds(&loaded, &since)),
                _ => panic!("a file that is not whole is taken for one after {failed:?}"),
            },
            Err(refusal) => assert_eq!(refusal.kind(), ErrorKind::Dirty, "step {fails}"),
        }
        let recovered = Bloom::<ClassicLayout, MappedMut>::recover_mapped(&path).unwrap();
        assert!(holds(&recovered, &before));
        recovered.insert_batch(&since).unwrap();
        recovered.close().unwrap();
        let loaded = Bloom::<ClassicLayout>::open(&path).unwrap();
        assert!(holds(&loaded, &before) && holds(&loaded, &since));
        assert!((loaded.len() as f64 / 6_000.0 - 1.0).abs() < 0.05, "{} keys by the bits", loaded.len());
    }
    assert_eq!(failed, ["mark", "sync", "flush", "body", "body", "sync", "settle", "sync"]);
}

#[test]
fn a_file_that_cannot_be_made_is_not_left_behind() {
    let folder = Folder::new();
    let path = folder.path("unmade");
    for fails in 0..20 {
        let left = Cell::new(fails);
        faults::watch(Some(Box::new(move |step| {
            left.set(left.get() - i32::from(step != "synced"));
            if step != "synced" && left.get() == -1 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        })));
        let made = builder::<BlockedLayout>(1_000).create_mapped(&path);
        faults::watch(None);
        match made {
            Err(refusal) => {
                assert_eq!(refusal.kind(), ErrorKind::Io);
                assert!(!path.exists());
            }
            Ok(_) => {
                assert!(fails > 5, "made in {fails} steps");
                return;
            }
        }
    }
    panic!("never made");
}

/// A file of four chunks, closed, and where its payload starts.
fn four_chunks(path: &Path) -> (Vec<u64>, usize) {
    let all = keys(0, 150_000);
    let filter = builder::<BlockedLayout>(170_000).create_mapped(path).unwrap();
    filter.insert_batch(&all).unwrap();
    filter.close().unwrap();
    let bytes = fs::read(path).unwrap();
    let frame = Frame::parse(&bytes, bytes.len() as u64).unwrap();
    let payload = frame.find(SectionType::PAYLOAD, 0).unwrap();
    assert_eq!(chunk_count(payload.length), 4);
    (all, payload.offset as usize)
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1 << (at % 8);
    fs::write(path, bytes).unwrap();
}

/// A chunk that is damaged when the file is opened answers "maybe", takes no keys, and is still damaged after a sync.
#[test]
fn damage_is_never_given_a_fresh_checksum() {
    let folder = Folder::new();
    let path = folder.path("damaged");
    let (all, payload) = four_chunks(&path);
    flip(&path, payload + CHUNK_LEN + 100);
    let filter = Blocked::map_mut(&path).unwrap();
    assert!(holds(&filter, &all), "a wrong no");
    assert_eq!(filter.damage().unwrap().chunk, 1);
    let (mut taken, mut told) = (0, 0);
    for key in keys(150_000, 151_000) {
        match filter.insert(&key) {
            Ok(_) => taken += 1,
            Err(refusal) => {
                assert_eq!(refusal.kind(), ErrorKind::Corrupt, "{refusal}");
                told += 1;
            }
        }
        assert!(filter.contains(&key).unwrap(), "in, or maybe");
    }
    assert!(taken > 600 && told > 150, "{taken} taken, {told} refused");
    assert_eq!(filter.insert_batch(&keys(151_000, 152_000)).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(filter.to_bytes().unwrap_err().kind(), ErrorKind::Corrupt, "damage is not copied");
    refused(filter.verify_all(|_, _| ()), ErrorKind::Corrupt, "chunk 1");
    filter.close().unwrap();
    refused(Blocked::open(&path), ErrorKind::Corrupt, "chunk 1");
    let mapped = Blocked::map(&path).unwrap();
    assert!(holds(&mapped, &all) && mapped.damage().is_some_and(|damage| damage.chunk == 1));
}

/// After a close every byte counts.
#[test]
fn flips_after_a_close_are_found() {
    let folder = Folder::new();
    let path = folder.path("flipped");
    let (all, payload) = four_chunks(&path);
    let good = fs::read(&path).unwrap();
    let in_head = (0..payload).step_by(payload / 60);
    let in_bits = (payload..good.len()).step_by(good.len() / 60);
    for at in in_head.chain(in_bits) {
        flip(&path, at);
        let found = match Blocked::map(&path) {
            Ok(mapped) => {
                assert!(at >= payload && holds(&mapped, &all), "a wrong no at {at}");
                mapped.verify_all(|_, _| ()).is_err()
            }
            Err(_) => true,
        };
        assert!(found && Blocked::open(&path).is_err(), "a flip at {at} was not found");
        assert!(at >= payload || Blocked::map_mut(&path).is_err(), "a flip at {at} is written over");
        fs::write(&path, &good).unwrap();
    }
    assert!(holds(&Blocked::open(&path).unwrap(), &all));
}

/// The mark itself: a flip in it, or beside it, is not a mark and not its absence.
#[test]
fn a_torn_mark_is_damage() {
    let folder = Folder::new();
    let path = folder.path("mark");
    let filter = builder::<BlockedLayout>(1_000).create_mapped(&path).unwrap();
    filter.insert(&5u64).unwrap();
    drop(filter);
    let marked = fs::read(&path).unwrap();
    for at in 8..32 {
        flip(&path, at);
        assert!(Blocked::open(&path).is_err() && Blocked::map(&path).is_err(), "{at}");
        assert!(Blocked::recover_mapped(&path).is_err(), "{at}");
        fs::write(&path, &marked).unwrap();
    }
    // Everything but sums, counts and bits is still checked.
    let frame = Frame::parse_dirty(&marked, marked.len() as u64).unwrap().unwrap();
    for section in frame.sections() {
        flip(&path, section.offset as usize + section.length as usize / 2);
        let recovered = Blocked::recover_mapped(&path);
        let stale = matches!(section.kind, SectionType::PAYLOAD | SectionType::CHUNK_SUMS | SectionType::COUNTS);
        assert_eq!(recovered.is_ok(), stale, "{section}");
        drop(recovered);
        fs::write(&path, &marked).unwrap();
    }
}

#[test]
fn one_writer_at_a_time() {
    let folder = Folder::new();
    let path = folder.path("locked");
    let filter = builder::<BlockedLayout>(1_000).create_mapped(&path).unwrap();
    refused(Blocked::map_mut(&path), ErrorKind::Io, "being written in place by another");
    refused(Blocked::recover_mapped(&path), ErrorKind::Io, "being written in place by another");
    filter.insert(&1u64).unwrap();
    filter.close().unwrap();
    let second = Blocked::map_mut(&path).unwrap();
    refused(Blocked::map_mut(&path), ErrorKind::Io, "being written");
    drop(second);
    assert!(Blocked::map_mut(&path).unwrap().contains(&1u64).unwrap());
}

#[test]
fn a_file_that_was_made_shorter_is_not_synced() {
    let folder = Folder::new();
    let path = folder.path("short");
    four_chunks(&path);
    let filter = Blocked::map_mut(&path).unwrap();
    let length = fs::metadata(&path).unwrap().len();
    let other = fs::OpenOptions::new().write(true).open(&path).unwrap();
    other.set_len(length - 8192).unwrap();
    refused(filter.insert(&1u64), ErrorKind::Corrupt, "another program changed it");
    refused(filter.sync(), ErrorKind::Dirty, "earlier sync");
    drop(filter);
    assert_eq!(Blocked::open(&path).unwrap_err().kind(), ErrorKind::Truncated);

    let path = folder.path("later");
    four_chunks(&path);
    let filter = Blocked::map_mut(&path).unwrap();
    filter.insert(&1u64).unwrap();
    let other = fs::OpenOptions::new().write(true).open(&path).unwrap();
    other.set_len(length - 8192).unwrap();
    refused(filter.sync(), ErrorKind::Corrupt, "another program changed it");
    drop(filter);
    assert!(Blocked::open(&path).is_err());
}

#[test]
fn what_cannot_be_written_in_place_is_refused() {
    let folder = Folder::new();
    let path = folder.path("file");
    fs::write(&path, b"").unwrap();
    assert_eq!(Blocked::map_mut(&path).unwrap_err().kind(), ErrorKind::NotAFilter);
    refused(builder::<BlockedLayout>(10).create_mapped(&path), ErrorKind::InvalidParameter, "there already");
    assert_eq!(Blocked::map_mut(folder.path("nowhere")).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(Blocked::map_mut(folder.0.path()).unwrap_err().kind(), ErrorKind::InvalidParameter);

    Counting::builder().items(100).build().unwrap().save(&path).unwrap();
    assert_eq!(Blocked::map_mut(&path).unwrap_err().kind(), ErrorKind::Shape);
    let mut sparse = builder::<ClassicLayout>(100_000).build().unwrap();
    sparse.insert(&1u64).unwrap();
    sparse.save(&path).unwrap();
    assert_eq!(Blocked::map_mut(&path).unwrap_err().kind(), ErrorKind::Shape);
    sparse.save_with(&path, &SaveOptions::new().compress(Compression::WhereItPays)).unwrap();
    let coded = Bloom::<ClassicLayout, MappedMut>::map_mut(&path);
    refused(coded, ErrorKind::Unsupported, "compressed");

    // A later version may be read, where it says so; what it has that we do not know would be out of date.
    let mut later = builder::<BlockedLayout>(100).build().unwrap().to_bytes().unwrap();
    later[8] = 2;
    reseal(&mut later);
    fs::write(&path, &later).unwrap();
    Blocked::open(&path).unwrap();
    refused(Blocked::map_mut(&path), ErrorKind::Version, "update");

    // Any size that a shape can have is refused or made, never tried.
    let huge = Blocked::builder().bits(1 << 58).hashes(8).create_mapped(folder.path("huge"));
    refused(huge, ErrorKind::LimitExceeded, "cannot be mapped");
    assert!(!folder.path("huge").exists());
}

/// A saved file with private sections: they stay, unless there are so many that the table does not fit a sector.
#[test]
fn private_sections_stay_if_the_head_fits_a_sector() {
    let folder = Folder::new();
    let path = folder.path("private");
    let filter = builder::<BlockedLayout>(1_000).build().unwrap();
    let plain = filter.to_bytes().unwrap();
    for (private, fits) in [(1, true), (8, true), (9, false)] {
        let file = MemoryFile::open(&plain, Limits::default()).unwrap();
        let mut copy = FrameWriter::new();
        for kind in [SectionType::CONTRACT, SectionType::SHAPE, SectionType::COUNTS, SectionType::SENTINELS] {
            copy.section(kind, 0, file.head().body(kind, 0).unwrap().to_vec());
        }
        for number in 0..private {
            copy.section(SectionType(0x8000 + number), 0, vec![7; 100]);
        }
        let bits = file.payload(0).unwrap().stored();
        copy.payload(0, &bits, Codec::Raw);
        let mut bytes = Vec::new();
        copy.write_to(&mut bytes).unwrap();
        fs::write(&path, &bytes).unwrap();
        match Blocked::map_mut(&path) {
            Ok(filter) => {
                assert!(fits);
                filter.insert(&9u64).unwrap();
                filter.close().unwrap();
                assert!(Blocked::open(&path).unwrap().contains(&9u64).unwrap());
                let now = fs::read(&path).unwrap();
                let file = MemoryFile::open(&now, Limits::default()).unwrap();
                assert_eq!(file.head().get(SectionType(0x8000), 0), Some(&[7; 100][..]));
            }
            Err(refusal) => {
                assert!(!fits, "{refusal}");
                assert_eq!(refusal.kind(), ErrorKind::Unsupported);
            }
        }
    }
}

/// A full filter that refuses, in place: the capacity, and not much more.
#[test]
fn a_full_filter_refuses_in_place_and_after_recovery() {
    let folder = Folder::new();
    let path = folder.path("full");
    let filter = builder::<BlockedLayout>(5_000).when_full(WhenFull::Refuse).create_mapped(&path).unwrap();
    assert_eq!(filter.insert_batch(&keys(0, 5_000)).unwrap(), filter.len());
    let refusal = filter.insert_batch(&keys(5_000, 6_000)).unwrap_err();
    assert_eq!(refusal.kind(), ErrorKind::Full);
    let taken = filter.len();
    drop(filter);
    let filter = Blocked::recover_mapped(&path).unwrap();
    assert!((filter.len() as f64 / taken as f64 - 1.0).abs() < 0.03, "{} by the bits, {taken} told", filter.len());
    assert!(holds(&filter, &keys(0, 5_000)));
    filter.close().unwrap();
    // A file that is whole is recovered by being opened.
    let filter = Blocked::recover_mapped(&path).unwrap();
    assert!(!filter.is_dirty());
    filter.verify_all(|_, _| ()).unwrap();
}

/// A keyed filter, in place: with its secret, and not without.
#[test]
fn a_keyed_filter_needs_its_secret() {
    let folder = Folder::new();
    let path = folder.path("keyed");
    let secret = crate::Secret::from_bytes([3; 32]);
    let filter = builder::<PartitionedLayout>(1_000).secret(&secret).create_mapped(&path).unwrap();
    filter.insert(&77u64).unwrap();
    filter.close().unwrap();
    let without = Bloom::<PartitionedLayout, MappedMut>::map_mut(&path);
    assert_eq!(without.unwrap_err().kind(), ErrorKind::Secret);
    let filter = Bloom::<PartitionedLayout, MappedMut>::map_mut_keyed(&path, &secret).unwrap();
    assert!(filter.contains(&77u64).unwrap() && !filter.contains(&78u64).unwrap());
}
