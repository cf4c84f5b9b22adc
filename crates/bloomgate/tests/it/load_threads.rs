//! Files loaded by one thread and by two, to stay in the page cache and to go: the same filters, and the same refusal of every kind of damage.

use std::path::Path;

use bloomgate::format::{self, Compression, Limits};
use bloomgate::*;

use super::file::{samples, with_secret};

/// What opening these bytes as a file comes to: the bytes again, or the refusal without the path.
fn opened(path: &Path, options: &OpenOptions<'_>) -> Result<Vec<u8>, (ErrorKind, String)> {
    match AnyFilter::open_with(path, options) {
        Ok(filter) => Ok(filter.to_bytes().unwrap()),
        Err(error) => Err((error.kind(), error.to_string().replace(&format!("{}: ", path.display()), ""))),
    }
}

/// What the reader of a stream says of the same bytes: it goes through them one chunk after the other.
fn streamed(bytes: &[u8]) -> Result<Vec<u8>, (ErrorKind, String)> {
    match AnyFilter::from_bytes_with(bytes, &with_secret()) {
        Ok(filter) => Ok(filter.to_bytes().unwrap()),
        Err(error) => Err((error.kind(), error.to_string())),
    }
}

fn alike(path: &Path, bytes: &[u8], what: &str) -> Result<Vec<u8>, (ErrorKind, String)> {
    std::fs::write(path, bytes).unwrap();
    let expected = streamed(bytes);
    for threads in [1, 2] {
        let options = with_secret().threads(threads);
        assert_eq!(opened(path, &options), expected, "{what}, {threads} threads");
        assert_eq!(opened(path, &options.once()), expected, "{what}, {threads} threads, once");
    }
    expected
}

/// Three stages, of which the last has four megabytes: enough for several threads, and no multiple of a chunk.
fn large() -> Vec<u8> {
    let chain = Scalable::builder().keys::<u64>().items(1_000).growth(50.0).rate(0.01);
    let mut chain = chain.build().unwrap();
    chain.insert_batch(&(0..60_000u64).collect::<Vec<_>>()).unwrap();
    assert_eq!(chain.stages(), 3);
    let bytes = chain.to_bytes().unwrap();
    assert!(bytes.len() > 3 << 20);
    bytes
}

#[test]
fn every_sample_is_loaded_alike() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.bloom");
    for (name, filter, _) in samples() {
        let bytes = filter.to_bytes().unwrap();
        assert_eq!(alike(&path, &bytes, name).unwrap(), bytes);
        let coded = filter.to_bytes_with(&SaveOptions::new().compress(Compression::WhereItPays)).unwrap();
        alike(&path, &coded, name).unwrap();
        // Cut, and flipped: everywhere in the small sections, and here and there in the rest.
        for at in (0..bytes.len()).filter(|at| at % 499 == 0 || bytes.len() - at < 4) {
            let (kind, _) = alike(&path, &bytes[..at], name).unwrap_err();
            assert_eq!(kind, if at == 0 { ErrorKind::NotAFilter } else { ErrorKind::Truncated });
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            alike(&path, &flipped, name).unwrap_err();
        }
    }
}

#[test]
fn damage_of_large_files_is_told_alike() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.bloom");
    let bytes = large();
    assert_eq!(alike(&path, &bytes, "whole").unwrap(), bytes);
    let first =
        format::inspect(&path).unwrap().sections.iter().find(|s| s.section.is_chunked()).unwrap().section.offset;
    for at in (first as usize..bytes.len()).step_by(150_001) {
        let (kind, _) = alike(&path, &bytes[..at], "cut").unwrap_err();
        assert_eq!(kind, ErrorKind::Truncated);
        // One damaged chunk, and one more near the end: the first is told, whoever finds the other earlier.
        let mut flipped = bytes.clone();
        flipped[at] ^= 16;
        let last = flipped.len() - 100;
        flipped[last] ^= 1;
        let (kind, says) = alike(&path, &flipped, "flipped").unwrap_err();
        assert_eq!(kind, ErrorKind::Corrupt, "{says}");
    }
    // Longer than it says, and a limit that is too low.
    let (kind, _) = alike(&path, &[&bytes[..], &[0]].concat(), "longer").unwrap_err();
    assert_eq!(kind, ErrorKind::Corrupt);
    std::fs::write(&path, &bytes).unwrap();
    let tight = OpenOptions::new().threads(2).limits(Limits::payload(1 << 20));
    assert_eq!(Scalable::open_with(&path, &tight).unwrap_err().kind(), ErrorKind::LimitExceeded);
    assert_eq!(Blocked::open_with(&path, &OpenOptions::new().threads(2)).unwrap_err().kind(), ErrorKind::Shape);
}
