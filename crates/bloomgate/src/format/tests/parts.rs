//! Fields and sentinels: what they hold, and what they refuse.

use super::*;

const A: Tag = Tag::critical(1);
const B: Tag = Tag::optional(2);
const C: Tag = Tag::critical(3);
const D: Tag = Tag::critical(4);
const E: Tag = Tag::optional(0x7fff);
const KNOWN: &[Tag] = &[A, B, C, D, E];

#[test]
fn fields_come_back_by_type() {
    let body =
        FieldWriter::new().u16(A, 0xbeef).u32(B, 7).u64(C, u64::MAX).f64(D, 0.01).bytes(E, b"xyz").finish().unwrap();
    assert_eq!(body[..12], [0x01, 0x80, 2, 0, 0xef, 0xbe, 0x02, 0x00, 4, 0, 7, 0]);
    let fields = FieldReader::parse(SectionType::SHAPE, &body, KNOWN).unwrap();
    assert_eq!(fields.u16(A).unwrap(), 0xbeef);
    assert_eq!(fields.u32(B).unwrap(), 7);
    assert_eq!(fields.u64(C).unwrap(), u64::MAX);
    assert_eq!(fields.f64(D).unwrap(), 0.01);
    assert_eq!(fields.bytes(E).unwrap(), b"xyz");
    assert_eq!(fields.optional(E, FieldReader::bytes).unwrap(), Some(&b"xyz"[..]));
    refused(fields.u64(A), ErrorKind::Corrupt, "SHAPE: field 1 has 2 bytes, 8 expected");
    refused(fields.optional(A, FieldReader::u64), ErrorKind::Corrupt, "2 bytes, 8 expected");
    refused(fields.u16(Tag::critical(9)), ErrorKind::Corrupt, "SHAPE: field 9 is missing");
    assert_eq!(fields.optional(Tag::optional(9), FieldReader::u64).unwrap(), None);
}

#[test]
fn fields_that_are_wrong_are_refused() {
    let parse = |body: &[u8]| FieldReader::parse(SectionType::COUNTS, body, KNOWN).map(|_| ());
    assert!(parse(b"").is_ok());
    refused(parse(&[1, 0x80, 0, 0, 1, 0x80, 0, 0]), ErrorKind::Corrupt, "COUNTS, byte 4: field 1 is there twice");
    refused(parse(&[3, 0x80, 0, 0, 2, 0, 0, 0]), ErrorKind::Corrupt, "field 2 after field 3");
    refused(parse(&[0, 0, 0, 0]), ErrorKind::Corrupt, "field 0 is there twice");
    refused(parse(&[1, 0x80, 1]), ErrorKind::Corrupt, "byte 0: goes past the end at 3");
    refused(parse(&[1, 0x80, 1, 0]), ErrorKind::Corrupt, "past the end");
    refused(parse(&[1, 0x80, 255, 255, 0]), ErrorKind::Corrupt, "past the end");
    refused(parse(&[9, 0x80, 0, 0]), ErrorKind::Version, "field 9 is critical and not known");
    refused(parse(&[1, 0, 0, 0]), ErrorKind::Corrupt, "critical bit 0, 1 expected");
    assert!(parse(&[9, 0, 1, 0, 42]).is_ok(), "unknown and not critical: skipped");
    let body = [4, 0x80, 8, 0, 0, 0, 0, 0, 0, 0, 0xf0, 0x7f];
    let fields = FieldReader::parse(SectionType::SHAPE, &body, KNOWN).unwrap();
    refused(fields.f64(D), ErrorKind::Corrupt, "field 4 is inf");
    refused(FieldWriter::new().f64(A, f64::NAN).finish(), ErrorKind::InvalidParameter, "field 1 is NaN");
    refused(FieldWriter::new().u16(C, 1).u16(B, 1).u16(D, 2).finish(), ErrorKind::InvalidParameter, "after field 3");
    refused(FieldWriter::new().u16(Tag::critical(0), 1).finish(), ErrorKind::InvalidParameter, "ascend from 1");
    refused(FieldWriter::new().bytes(A, &[0; 65536]).finish(), ErrorKind::InvalidParameter, "65536 bytes");
}

#[test]
fn sentinels_prove_that_both_sides_hash_alike() {
    let body = sentinels::write(sentinels::UNSIGNED, digest(0)).unwrap();
    assert_eq!(sentinels::verify(&body, digest(0)).unwrap(), 21);
    refused(sentinels::verify(&body, digest(1)), ErrorKind::Contract, "producer and consumer hash differently");
    // A consumer whose hash is wrong from one length on, or in the text form alone, is found too.
    for length in sentinels::LENGTHS {
        let wrong = |form, bytes: &[u8]| digest(u64::from(bytes.len() >= usize::from(length)))(form, bytes);
        refused(sentinels::verify(&body, wrong), ErrorKind::Contract, "hash differently");
    }
    let wrong = |form, bytes: &[u8]| digest(u64::from(form == sentinels::Form::Text))(form, bytes);
    refused(sentinels::verify(&body, wrong), ErrorKind::Contract, "sentinel 15 (the text \"0\")");
    let refusing = |form, bytes: &[u8]| match form {
        sentinels::Form::Canonical => digest(0)(form, bytes),
        sentinels::Form::Text => Err(crate::Error::new(ErrorKind::Encoding, "no such text")),
    };
    refused(sentinels::verify(&body, refusing), ErrorKind::Contract, "encode keys differently");
}

#[test]
fn the_canonical_sentinels_are_frozen() {
    assert_eq!(sentinels::canonical(0), b"");
    assert_eq!(sentinels::canonical(1), [146]);
    assert_eq!(sentinels::canonical(3), [36, 187, 82]);
    // (73 * 1026 + 151 * 1024 + 4) mod 256, by hand.
    assert_eq!(sentinels::canonical(1025)[1024], 150);
    let body = sentinels::write(&[], |_, bytes| Ok([bytes.len() as u8; 16])).unwrap();
    assert_eq!(body.len(), 2 + 15 * 19 + 2373);
    assert_eq!(body[..22], [15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(body[21..27], [0, 1, 0, 146, 1, 1]);
}

#[test]
fn sentinels_that_prove_nothing_are_refused() {
    let body = sentinels::write(sentinels::TEXT, digest(0)).unwrap();
    for cut in 0..body.len() {
        refused(sentinels::verify(&body[..cut], digest(0)), ErrorKind::Corrupt, "past the end of the section");
    }
    refused(sentinels::verify(&[0, 0], digest(0)), ErrorKind::Corrupt, "0 sentinels, at least 15");
    refused(sentinels::verify(&[&body[..], &[0]].concat(), digest(0)), ErrorKind::Corrupt, "1 bytes after the last");
    let mut other = body.clone();
    other[24] ^= 1; // the one byte of the second sentinel
    refused(sentinels::verify(&other, digest(0)), ErrorKind::Corrupt, "sentinel 1 is not the public one of 1 bytes");
    let mut later = body.clone();
    later[2] = 2;
    refused(sentinels::verify(&later, digest(0)), ErrorKind::Version, "has the form 2");
    let mut text = body;
    text[2] = 1;
    refused(sentinels::verify(&text, digest(0)), ErrorKind::Corrupt, "sentinel 0 is not the public one");
    let long = "x".repeat(65536);
    refused(sentinels::write(&[&long], digest(0)), ErrorKind::InvalidParameter, "65536 bytes");
}
