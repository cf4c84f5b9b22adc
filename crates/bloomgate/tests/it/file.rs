//! Filters as files: what goes in comes out, in every place, and what is wrong is said.

use bloomgate::format::{Compression, OpenOptions, SaveOptions};
use bloomgate::*;

fn keys(n: u64) -> impl Iterator<Item = String> {
    (0..n).map(|i| format!("key-{i}"))
}

#[test]
fn quick_round_trip() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("seen.bloom");
    let mut seen = Blocked::builder().items(100_000).rate(0.01).build().unwrap();
    seen.insert_all(keys(100_000)).unwrap();
    let address = seen.save(&path).unwrap();
    let opened = Blocked::open(&path).unwrap();
    assert_eq!(opened, seen);
    let mapped = Blocked::map(&path).unwrap();
    for key in keys(100_000) {
        assert!(mapped.contains(&key).unwrap());
    }
    assert_eq!(mapped.damage(), None);
    mapped.verify_all(|_, _| ()).unwrap();
    let about = format::inspect(&path).unwrap();
    assert_eq!(about.address, address);
    assert!(about.is_intact());
    let any = AnyFilter::open(&path).unwrap();
    assert_eq!(any.save(dir.path().join("again.bloom")).unwrap(), address);
    let small = seen.to_bytes_with(&SaveOptions::new().compress(Compression::WhereItPays)).unwrap();
    assert_eq!(Classic::from_bytes_with(&small, &OpenOptions::new()).unwrap_err().kind(), ErrorKind::Shape);
}
