//! Images of filters that are written to meanwhile, and the replay that makes them whole again.

use std::io::Cursor;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bloomgate::{
    AnyFilter, Blocked, Classic, Contract, Counting, Cuckoo, Digest, ErrorKind, GrowingCuckoo, Insertion, Kind,
    Partitioned, Quotient, Rotating, Scalable, Secret, Shared, WhenFull,
};

fn contract() -> Contract {
    Contract::keyed(&Secret::from_bytes([3; 32])).for_keys::<u64>()
}

fn digests(from: u64, to: u64) -> Vec<Digest> {
    let contract = contract();
    (from..to).map(|key| contract.digest(&key).unwrap()).collect()
}

/// Inserts as a server does; the digests that were new, which it logs.
fn insert(filter: &AnyFilter<Shared>, digests: &[Digest]) -> Vec<Digest> {
    let mut outcomes = vec![Insertion::Full; digests.len()];
    filter.insert_each(digests, &mut outcomes).unwrap();
    let new = digests.iter().zip(&outcomes).filter(|&(_, &outcome)| outcome == Insertion::New);
    new.map(|(&digest, _)| digest).collect()
}

fn load(bytes: &[u8]) -> AnyFilter<Shared> {
    AnyFilter::from_bytes_keyed(bytes, &Secret::from_bytes([3; 32])).unwrap().into_shared().unwrap()
}

fn stages(filter: &AnyFilter<Shared>) -> usize {
    match filter {
        AnyFilter::Scalable(chain) => chain.stages(),
        _ => 1,
    }
}

/// Filters that only set bits: some larger than a chunk of 64 KiB, and chains that grow during the test.
fn subjects() -> Vec<AnyFilter<Shared>> {
    let chain = |stages| Scalable::builder().contract(contract()).items(500).stages(stages);
    let all: Vec<AnyFilter> = vec![
        Blocked::builder().contract(contract()).items(200_000).build().unwrap().into(),
        Blocked::builder().contract(contract()).items(30_000).rate(1e-6).build().unwrap().into(),
        Classic::builder().contract(contract()).items(100_000).build().unwrap().into(),
        Partitioned::builder().contract(contract()).items(100).build().unwrap().into(),
        Blocked::builder().contract(contract()).items(15_000).when_full(WhenFull::Refuse).build().unwrap().into(),
        chain(Kind::Blocked).build().unwrap().into(),
        chain(Kind::Classic).build().unwrap().into(),
        chain(Kind::Partitioned).build().unwrap().into(),
        chain(Kind::Blocked).items(6_000).when_full(WhenFull::Refuse).build().unwrap().into(),
        chain(Kind::Blocked).when_full(WhenFull::GoOn).build().unwrap().into(),
    ];
    all.into_iter().map(|filter| filter.into_shared().unwrap()).collect()
}

/// Capture, more inserts (with growth), write, load, replay: stages, counts and keys are those of before.
#[test]
fn an_image_and_a_replay_are_the_filter_again() {
    let (before, between, later) = (digests(0, 5_000), digests(4_000, 12_000), digests(11_000, 20_000));
    for filter in subjects() {
        let what = format!("{filter:?}");
        let first = insert(&filter, &before);
        let image = filter.image().unwrap();
        assert_eq!(image.len(), first.len() as u64);
        let mut log = insert(&filter, &between);
        let mut file = Cursor::new(Vec::new());
        image.write_seeking(&mut file).unwrap();
        let mut streamed = Vec::new();
        image.write_to(&mut streamed).unwrap();
        assert_eq!(file.get_ref(), &streamed, "the same bits at the same time are the same file: {what}");
        log.extend(insert(&filter, &later));

        let loaded = load(&streamed);
        assert_eq!((loaded.len(), loaded.kind()), (first.len() as u64, filter.kind()), "{what}");
        assert!(first.iter().all(|&digest| loaded.contains_digest(digest)), "{what}");
        let batch = 1 + log.len() / 7;
        log.chunks(batch).for_each(|digests| loaded.replay(digests).unwrap());
        assert_eq!(loaded.len(), filter.len(), "{what}");
        assert_eq!(stages(&loaded), stages(&filter), "{what}");
        assert_eq!((loaded.capacity(), loaded.size_in_bytes()), (filter.capacity(), filter.size_in_bytes()));
        assert!(first.iter().chain(&log).all(|&digest| loaded.contains_digest(digest)), "{what}");
        // And it is filled no more than before: by the bits of keys in the stage before theirs at most.
        assert!(loaded.expected_rate() <= filter.expected_rate() * 1.0001, "{what}");
        let (now, then) = (loaded.estimated_rate().unwrap(), filter.estimated_rate().unwrap());
        assert!((now / then - 1.0).abs() < 0.05, "{what}: {now} against {then}");
    }
}

/// Writers go on all the time: no key of before the capture is missing, and the count is that of the capture.
#[test]
fn images_are_written_beside_writers() {
    let filter: AnyFilter = Scalable::builder().contract(contract()).items(20_000).build().unwrap().into();
    let filter = filter.into_shared().unwrap();
    let digests = digests(0, 400_000);
    let (inserted, done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for (at, batch) in digests.chunks(100).enumerate() {
                insert(&filter, batch);
                inserted.store(100 * (at as u64 + 1), Ordering::Release);
            }
            done.store(true, Ordering::Release);
        });
        let mut images = 0;
        while !done.load(Ordering::Acquire) || images == 0 {
            let certain = inserted.load(Ordering::Acquire) as usize;
            let image = filter.image().unwrap();
            let counted = image.len();
            let mut file = Cursor::new(Vec::new());
            image.write_seeking(&mut file).unwrap();
            let loaded = load(file.get_ref());
            assert_eq!(loaded.len(), counted);
            let mut answers = vec![false; certain];
            loaded.contains_digests(&digests[..certain], &mut answers).unwrap();
            assert!(answers.into_iter().all(|answer| answer), "image {images} of {certain} keys");
            images += 1;
        }
        writer.join().unwrap();
    });
}

/// A file inside another: what is before and behind it stays, and the writer stands at its end.
#[test]
fn an_image_begins_where_the_writer_stands() {
    let filter = subjects().swap_remove(5);
    insert(&filter, &digests(0, 3_000));
    let mut plain = Cursor::new(Vec::new());
    filter.image().unwrap().write_seeking(&mut plain).unwrap();
    let mut file = Cursor::new(vec![7; 100]);
    file.set_position(100);
    filter.image().unwrap().write_seeking(&mut file).unwrap();
    assert_eq!(file.position() as usize, 100 + plain.get_ref().len());
    assert_eq!(file.get_ref()[..100], [7; 100]);
    assert_eq!(&file.get_ref()[100..], plain.get_ref());
    assert_eq!(
        plain.into_inner(),
        filter.copy().unwrap().to_bytes().unwrap(),
        "the file that a copy would be saved to"
    );
}

#[test]
fn kinds_whose_cells_move_have_no_image() {
    let moving: Vec<AnyFilter> = vec![
        Cuckoo::builder().items(100).build().unwrap().into(),
        Rotating::builder().items(100).window(Duration::from_secs(60)).build().unwrap().into(),
    ];
    for filter in moving {
        let filter = filter.into_shared().unwrap();
        assert_eq!(filter.image().unwrap_err().kind(), ErrorKind::Unsupported);
        filter.replay(&digests(0, 50)).unwrap();
        assert_eq!(filter.len(), 50);
        assert!(digests(0, 50).iter().all(|&digest| filter.contains_digest(digest)));
    }
}

/// Kinds whose cells move, and of the others one: the file is the one that a copy would be saved to.
#[test]
fn any_kind_is_written_at_rest_without_a_copy() {
    let moving: Vec<AnyFilter> = vec![
        Cuckoo::builder().contract(contract()).items(200_000).build().unwrap().into(),
        GrowingCuckoo::builder().contract(contract()).items(1_000).build().unwrap().into(),
        Counting::builder().contract(contract()).items(100_000).build().unwrap().into(),
        Quotient::builder().contract(contract()).items(100_000).build().unwrap().into(),
        Rotating::builder().contract(contract()).items(50_000).window(Duration::from_secs(60)).build().unwrap().into(),
        Blocked::builder().contract(contract()).items(100_000).build().unwrap().into(),
    ];
    for filter in moving {
        let filter = filter.into_shared().unwrap();
        let keys = digests(0, 20_000);
        insert(&filter, &keys);
        filter.advance(Duration::from_secs(70));
        let mut file = Cursor::new(vec![7; 100]);
        file.set_position(100);
        filter.write_at_rest(&mut file).unwrap();
        let bytes = file.into_inner().split_off(100);
        assert!(bytes == filter.copy().unwrap().to_bytes().unwrap(), "{filter:?}");
        assert_eq!(load(&bytes).len(), filter.len(), "{filter:?}");
        // Somebody may write to it again.
        insert(&filter, &digests(20_000, 20_100));
    }
}

/// Nobody changes what is being written: every key is in it or not, whatever moves, and lookups go on.
#[test]
fn writers_wait_while_a_filter_is_written_at_rest_and_lookups_do_not() {
    /// A file that tells whenever something was written to it.
    struct Slow<'a>(Cursor<Vec<u8>>, &'a dyn Fn());
    impl std::io::Write for Slow<'_> {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            (self.1)();
            self.0.write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            self.0.flush()
        }
    }
    impl std::io::Seek for Slow<'_> {
        fn seek(&mut self, to: std::io::SeekFrom) -> std::io::Result<u64> {
            self.0.seek(to)
        }
    }
    let filter: AnyFilter = Cuckoo::builder().contract(contract()).items(300_000).build().unwrap().into();
    let filter = filter.into_shared().unwrap();
    let (before, during) = (digests(0, 100_000), digests(100_000, 200_000));
    insert(&filter, &before);
    let (began, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            while !began.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
            insert(&filter, &during);
            ended.store(true, Ordering::Release);
        });
        let look = || {
            began.store(true, Ordering::Release);
            assert!(before.iter().step_by(999).all(|&digest| filter.contains_digest(digest)));
            std::thread::yield_now();
            assert!(!ended.load(Ordering::Acquire), "a writer did not wait");
        };
        let mut file = Slow(Cursor::new(Vec::new()), &look);
        filter.write_at_rest(&mut file).unwrap();
        writer.join().unwrap();
        let loaded = load(file.0.get_ref());
        assert_eq!(loaded.len(), before.len() as u64);
        assert!(before.iter().all(|&digest| loaded.contains_digest(digest)));
    });
    assert_eq!(filter.len(), (before.len() + during.len()) as u64);
}
