//! What the tests of every table do: read a row, put one, scan all keys, and be refused.

use bloomgate_gate::sources::{KeyBatch, Source};
use bloomgate_gate::{Error, ErrorKind, Key};
use bytes::Bytes;

pub async fn row(source: &dyn Source, key: impl Into<Key>) -> Option<String> {
    source.get(&key.into()).await.unwrap().map(text)
}

pub fn text(row: Bytes) -> String {
    String::from_utf8(row.to_vec()).unwrap()
}

pub async fn put(source: &dyn Source, key: impl Into<Key>, row: &'static str) -> Result<(), Error> {
    source.put_many(&[(key.into(), Bytes::from_static(row.as_bytes()))]).await
}

/// All keys of a scan, or how it failed.
pub async fn scanned(source: &dyn Source) -> Result<Vec<Vec<u8>>, Error> {
    let (mut scan, mut batch, mut keys) = (source.scan().await?, KeyBatch::default(), Vec::new());
    while scan.next(&mut batch).await? {
        keys.extend(batch.iter().map(<[u8]>::to_vec));
    }
    assert!(!scan.next(&mut batch).await? && batch.is_empty(), "the end stays the end");
    Ok(keys)
}

/// Refused as this kind, with all of this in the message.
#[track_caller]
pub fn refused<T>(result: Result<T, Error>, kind: ErrorKind, said: &[&str]) {
    let error = result.err().expect("this must be refused");
    assert_eq!(error.kind(), kind, "{error}");
    said.iter().for_each(|said| assert!(error.to_string().contains(said), "{said:?} is not in: {error}"));
}
