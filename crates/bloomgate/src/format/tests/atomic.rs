//! A file is there whole or not at all.

use std::fs;
use std::io::Write;
use std::path::Path;

use super::*;
use crate::error::Error;

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn put(bytes: &[u8]) -> impl FnOnce(&mut dyn Write) -> crate::Result<usize> {
    move |out| out.write_all(bytes).map(|()| bytes.len()).map_err(|e| Error::io("writing", e))
}

#[test]
fn a_file_is_written_replaced_and_read_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("urls.bloom");
    assert_eq!(write_atomically(&path, put(b"first")).unwrap(), 5);
    assert_eq!(fs::read(&path).unwrap(), b"first");
    write_atomically(&path, put(b"2nd")).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"2nd");
    assert_eq!(names(directory.path()), ["urls.bloom"]);
    let long = directory.path().join("n".repeat(250));
    write_atomically(&long, put(b"x")).unwrap();
    assert_eq!(fs::read(&long).unwrap(), b"x");
}

#[test]
fn a_failure_leaves_the_old_file_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("urls.bloom");
    write_atomically(&path, put(b"old")).unwrap();
    let fails = write_atomically(&path, |out| -> crate::Result<()> {
        out.write_all(&[0; 200_000]).unwrap();
        Err(Error::new(ErrorKind::Corrupt, "changed while it was written"))
    });
    refused(fails, ErrorKind::Corrupt, "changed while");
    let path_in_panic = path.clone();
    let panics =
        std::panic::catch_unwind(|| write_atomically(&path_in_panic, |_| -> crate::Result<()> { panic!("x") }));
    assert!(panics.is_err());
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(names(directory.path()), ["urls.bloom"]);
}

#[test]
fn what_cannot_be_replaced_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    refused(write_atomically(directory.path(), put(b"x")), ErrorKind::InvalidParameter, "not a plain file");
    let nowhere = directory.path().join("no/such/urls.bloom");
    refused(write_atomically(&nowhere, put(b"x")), ErrorKind::Io, "creating");
    refused(write_atomically(Path::new(""), put(b"x")), ErrorKind::InvalidParameter, "not a plain file");
    if cfg!(unix) {
        refused(write_atomically(Path::new("/dev/null"), put(b"x")), ErrorKind::InvalidParameter, "/dev/null");
    }
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_permissions_kept() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let directory = tempfile::tempdir().unwrap();
    let (real, link) = (directory.path().join("real"), directory.path().join("link"));
    write_atomically(&real, put(b"old")).unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).unwrap();
    symlink(&real, &link).unwrap();
    write_atomically(&link, put(b"new")).unwrap();
    assert_eq!(fs::read(&real).unwrap(), b"new");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o600);
    // A link to nothing yet: the file is made where it leads, also by way of another link.
    let (far, near) = (directory.path().join("far"), directory.path().join("near"));
    symlink("not-yet", &far).unwrap();
    symlink(&far, &near).unwrap();
    write_atomically(&near, put(b"made")).unwrap();
    assert_eq!(fs::read(directory.path().join("not-yet")).unwrap(), b"made");
    assert!(fs::symlink_metadata(&near).unwrap().is_symlink() && fs::symlink_metadata(&far).unwrap().is_symlink());
}

#[test]
fn a_file_is_checked_against_its_real_length() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.bloom");
    let bits = words(10_000, 0.5, 30);
    let file = sample(&bits, &bits, Codec::Raw);
    write_atomically(&path, put(&file)).unwrap();
    let mut reader = SectionReader::from_file(fs::File::open(&path).unwrap(), None).unwrap();
    let mut out = Vec::new();
    reader
        .read_payload(1, 80_000, &mut |_, chunk| {
            out.extend_from_slice(chunk);
            Ok(())
        })
        .unwrap();
    assert_eq!(out, to_bytes(&bits));
    write_atomically(&path, put(&[&file[..], b"x"].concat())).unwrap();
    refused(
        SectionReader::from_file(fs::File::open(&path).unwrap(), None),
        ErrorKind::Corrupt,
        "1 bytes after the end of the file",
    );
    write_atomically(&path, put(&file[..file.len() - 1])).unwrap();
    refused(SectionReader::from_file(fs::File::open(&path).unwrap(), None), ErrorKind::Truncated, "ends too early");
    let limit = Some(Limits::payload(100_000));
    refused(SectionReader::from_file(fs::File::open(&path).unwrap(), limit), ErrorKind::Truncated, "ends too early");
    write_atomically(&path, put(&file)).unwrap();
    refused(SectionReader::from_file(fs::File::open(&path).unwrap(), limit), ErrorKind::LimitExceeded, "160000 bytes");
}
