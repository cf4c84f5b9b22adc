//! What a contract promises, seen from outside: one key one digest through every door, another type
//! refused, another contract refused, and no secret in anything that is shown.

use std::borrow::Cow;

use super::*;
use crate::error::{ErrorKind, Result};
use crate::key::{Encoding, Key, Uuid};

/// 32 bytes without a word or a pattern that a message could have by chance.
const SECRET: [u8; 32] = [
    0x93, 0xe1, 0x0b, 0x7f, 0xd4, 0x22, 0xc8, 0x5e, 0x00, 0xff, 0x3a, 0x91, 0x6d, 0xb7, 0x14, 0xe9, 0x48, 0xac, 0xf3,
    0x05, 0x8d, 0x76, 0x1b, 0xc2, 0x59, 0xae, 0x30, 0xf8, 0x87, 0x6c, 0xd1, 0x2f,
];

fn secret() -> Secret {
    Secret::from_bytes(SECRET)
}

/// A contract of every algorithm that hashes, and of several seeds.
fn hashing() -> Vec<Contract> {
    let secret = secret();
    vec![
        Contract::xxh3(),
        Contract::xxh3_seeded(u64::MAX),
        Contract::siphash13(&secret),
        Contract::siphash24(&secret),
        Contract::blake2b(&secret),
        Contract::murmur3(0),
        Contract::murmur3(u32::MAX),
        Contract::murmur64a_pair(),
        Contract::murmur64a(),
        Contract::xxh64(),
        Contract::blake2b_64_double(),
    ]
}

/// Asserts that every door gives each key the digest of its canonical bytes.
fn every_door_agrees<K: Key>(keys: &[K]) {
    for contract in hashing() {
        let contract = contract.for_keys::<K>();
        let mut expected = Vec::new();
        for key in keys {
            let digest = contract.digest_bytes(key.canonical(&mut Vec::new()));
            assert_eq!(contract.digest(key).unwrap(), digest);
            expected.push(digest);
        }
        for len in (0..CHUNK).chain([CHUNK]) {
            for (keys, expected) in keys.chunks(len.max(1)).zip(expected.chunks(len.max(1))).take(8) {
                let (keys, expected) = if len == 0 { (&keys[..0], &expected[..0]) } else { (keys, expected) };
                let untouched = Digest::new(1, 2);
                let mut out = [untouched; CHUNK];
                contract.digest_chunk(keys, &mut out).unwrap();
                assert_eq!(out[..keys.len()], *expected, "{contract}");
                assert!(out[keys.len()..].iter().all(|digest| *digest == untouched));
                let mut lo = [3; CHUNK];
                contract.digest_lo_chunk(keys, &mut lo).unwrap();
                assert!(lo.iter().zip(expected).all(|(lo, digest)| *lo == digest.lo), "{contract}");
                assert!(lo[keys.len()..].iter().all(|lo| *lo == 3));
            }
        }
    }
}

#[test]
fn one_key_has_one_digest_through_every_door() {
    let numbers: Vec<u64> = (0..200u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let texts: Vec<String> = (0..200).map(|i| "key/é".repeat(i % 13) + &i.to_string()).collect();
    every_door_agrees(&numbers);
    every_door_agrees(&numbers.iter().map(|&n| n as i16).collect::<Vec<_>>());
    every_door_agrees(&numbers.iter().map(|&n| u128::from(n) << 40).collect::<Vec<_>>());
    every_door_agrees(&numbers.iter().map(|&n| Uuid([n as u8; 16])).collect::<Vec<_>>());
    every_door_agrees(&numbers.iter().zip(&texts).map(|(&n, text)| (n, text.as_str())).collect::<Vec<_>>());
    every_door_agrees(&texts);
    every_door_agrees(&texts.iter().map(|text| text.as_bytes()).collect::<Vec<_>>());
}

#[test]
fn simd_switched_off_gives_the_same_digests() {
    let before = crate::arch::avx2();
    let keys: Vec<u64> = (0..32).collect();
    for contract in hashing() {
        let contract = contract.for_keys::<u64>();
        let mut outs = [[Digest::default(); CHUNK]; 2];
        for (on, out) in [true, false].into_iter().zip(&mut outs) {
            crate::arch::set_simd(on);
            contract.digest_chunk(&keys, out).unwrap();
        }
        crate::arch::set_simd(before);
        assert_eq!(outs[0], outs[1]);
    }
}

/// A byte key that is built in the scratch room, as a type outside this crate might do it.
struct Built(u32);

impl Key for Built {
    const ENCODING: Encoding = Encoding::Bytes;
    fn canonical<'a>(&'a self, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        scratch.clear();
        scratch.extend_from_slice(self.0.to_string().as_bytes());
        scratch
    }
}

/// A key whose encoding is a word but which does not hand the word out.
struct Wordless(u64);

impl Key for Wordless {
    const ENCODING: Encoding = Encoding::Unsigned;
    fn canonical<'a>(&'a self, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        scratch.clear();
        scratch.extend_from_slice(&self.0.to_le_bytes());
        scratch
    }
}

#[test]
fn keys_of_other_types_go_through_every_door() {
    every_door_agrees(&(0..100).map(Built).collect::<Vec<_>>());
    every_door_agrees(&(0..100).map(Wordless).collect::<Vec<_>>());
    for contract in hashing() {
        let words = contract.clone().for_keys::<u64>();
        assert_eq!(words.digest(&Wordless(77)).unwrap(), words.digest(&77u8).unwrap());
        assert_eq!(contract.digest(&Built(42)).unwrap(), contract.digest("42").unwrap());
    }
}

#[test]
fn prefixes_are_cut_through_every_door() {
    let cut = Encoding::PrefixDelimiter { delimiter: b'/', count: 2 };
    let keys = ["a/b/c", "a/b/d/e", "a/b/", "a/b", "", "x/y/z"];
    for contract in hashing() {
        let plain = contract.clone();
        let contract = contract.with_encoding(cut);
        let expected = keys.map(|key| plain.digest_bytes(cut.prefix(key.as_bytes())));
        assert_eq!(expected[0], expected[1]);
        assert_ne!(expected[2], expected[3]);
        let mut out = [Digest::default(); CHUNK];
        contract.digest_chunk(&keys, &mut out).unwrap();
        assert_eq!(out[..keys.len()], expected);
        for (key, expected) in keys.into_iter().zip(expected) {
            assert_eq!(contract.digest(key).unwrap(), expected);
            assert_eq!(contract.digest(key.as_bytes()).unwrap(), expected);
            assert_eq!(contract.digest_bytes(key.as_bytes()), expected);
            assert_eq!(contract.digest_text(key).unwrap(), expected);
        }
    }
}

/// T26: a key of another type is refused by both doors, and the message names both encodings.
fn refused<K: Key>(contract: &Contract, key: K) {
    let error = contract.digest(&key).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Encoding);
    let message = error.to_string();
    assert!(message.contains(&format!("encoding {}", K::ENCODING)), "{message}");
    assert!(message.contains(&format!("keys are {}", contract.encoding())), "{message}");
    let mut out = [Digest::default(); CHUNK];
    assert_eq!(contract.digest_chunk(&[&key], &mut out).unwrap_err().to_string(), message);
    assert_eq!(contract.digest_lo_chunk(&[&key], &mut [0; CHUNK]).unwrap_err().to_string(), message);
}

#[test]
fn keys_of_another_type_are_refused() {
    for contract in hashing() {
        let of = |encoding| contract.clone().with_encoding(encoding);
        refused(&of(Encoding::Unsigned), 42i64);
        refused(&of(Encoding::Unsigned), &b"42"[..]);
        refused(&of(Encoding::Unsigned), 42u128);
        refused(&of(Encoding::Signed), 42u8);
        refused(&of(Encoding::Text), b"42".to_vec());
        refused(&of(Encoding::Text), 42u64);
        refused(&of(Encoding::Bytes), 42u64);
        refused(&of(Encoding::Bytes), Uuid([1; 16]));
        refused(&of(Encoding::Uuid), [1u8; 16]);
        refused(&of(Encoding::PrefixLength { bytes: 4 }), 42u64);
        refused(&of(<(u64, &str)>::ENCODING), ("x", 1u64));
        refused(&of(<(u64, &str)>::ENCODING), 1u64);
    }
}

#[test]
fn text_is_parsed_into_the_filters_encoding_or_refused() -> Result<()> {
    for contract in hashing() {
        let of = |encoding| contract.clone().with_encoding(encoding);
        let numbers = of(Encoding::Unsigned);
        for text in ["42", "042", "+42"] {
            assert_eq!(numbers.digest(text)?, numbers.digest(&42u16)?);
            assert_eq!(numbers.digest(&Cow::Borrowed(text))?, numbers.digest(&42u16)?);
            assert_eq!(numbers.digest_text(text)?, numbers.digest(&42u16)?);
        }
        let mut out = [Digest::default(); CHUNK];
        numbers.digest_chunk(&["7", "8"], &mut out)?;
        assert_eq!(out[..2], [numbers.digest(&7u64)?, numbers.digest(&8u64)?]);
        assert_eq!(of(Encoding::Signed).digest("-5")?, of(Encoding::Signed).digest(&-5i8)?);
        let uuid = Uuid([0xab; 16]);
        assert_eq!(of(Encoding::Uuid).digest(&uuid.to_string())?, of(Encoding::Uuid).digest(&uuid)?);
        let pairs = of(<(u64, &str)>::ENCODING);
        assert_eq!(pairs.digest("7\tx")?, pairs.digest(&(7u8, "x"))?);
        for (contract, text) in [(&numbers, "forty-two"), (&numbers, "-1"), (&pairs, "7"), (&of(Encoding::Uuid), "7")] {
            let error = contract.digest(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Encoding);
            assert!(error.to_string().contains(&format!("keys are {}", contract.encoding())), "{error}");
            assert_eq!(contract.digest_chunk(&[text], &mut out).unwrap_err().to_string(), error.to_string());
        }
        // The text 42, the number 42 and the tuple are three keys with three digests.
        assert_ne!(of(Encoding::Text).digest("42")?, numbers.digest("42")?);
    }
    Ok(())
}

#[test]
fn given_contracts_refuse_keys_and_take_digests() {
    let given = Contract::given();
    let mut out = [Digest::default(); CHUNK];
    for error in [
        given.digest("key").unwrap_err(),
        given.digest(&7u64).unwrap_err(),
        given.clone().for_keys::<u64>().digest(&7u64).unwrap_err(),
        given.clone().for_keys::<u64>().digest("7").unwrap_err(),
        given.digest_text("key").unwrap_err(),
        given.digest_chunk(&["key"], &mut out).unwrap_err(),
        given.clone().for_keys::<u64>().digest_chunk(&[1u64], &mut out).unwrap_err(),
        given.clone().for_keys::<u64>().digest_lo_chunk(&[1u64], &mut [0; CHUNK]).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("128-bit digest"), "{error}");
    }
    let digest = Digest::new(1, 2);
    assert_eq!(given.digest_bytes(&digest.to_bytes()), digest);
}

/// T27: who does not have the secret does not have the digests; another secret or another algorithm
/// under the same secret shares none of them.
#[test]
fn secrets_and_seeds_decide_the_digests() {
    let (one, other) = (secret(), Secret::from_bytes([0; 32]));
    let mut all = hashing();
    all.extend([Contract::siphash13(&other), Contract::siphash24(&other), Contract::blake2b(&other)]);
    all.extend([Contract::xxh3_seeded(1), Contract::murmur3(1), Contract::keyed(&one.derive("a"))]);
    let mut digests: Vec<u64> = all
        .iter()
        .flat_map(|contract| [contract.digest("key").unwrap().lo, contract.digest("key").unwrap().hi])
        .collect();
    let count = digests.len();
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), count);
    assert_eq!(Contract::keyed(&one), Contract::siphash13(&one));
}

#[test]
fn contracts_are_the_same_or_the_difference_is_named() {
    let (one, other) = (secret(), Secret::from_bytes([7; 32]));
    let (id, other_id) = (one.id().to_string(), other.id().to_string());
    let text = Contract::xxh3().with_encoding(Encoding::Text);
    for (this, that, names) in [
        (Contract::xxh3(), text.clone(), ["encoding", "bytes", "text"]),
        (Contract::xxh3(), Contract::murmur3(0), ["hash", "xxh3", "murmur3"]),
        (Contract::xxh3_seeded(3), Contract::xxh3_seeded(4), ["seed", "3", "4"]),
        (Contract::keyed(&one), Contract::keyed(&other), ["secret", &id, &other_id]),
        (Contract::siphash13(&one), Contract::siphash24(&one), ["hash", "siphash13", "siphash24"]),
    ] {
        assert_ne!(this, that);
        let error = this.ensure_same(&that).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Contract);
        for name in names {
            assert!(error.to_string().contains(name), "{error}");
        }
    }
    let mut same = hashing();
    same.extend([text, Contract::given()]);
    for contract in same {
        contract.ensure_same(&contract.clone()).unwrap();
        assert_eq!(contract, contract.clone());
    }
}

#[test]
fn descriptions_are_one_line() {
    assert_eq!(Contract::xxh3().for_keys::<u64>().describe(), "xxh3 seed 0 over u64");
    assert_eq!(Contract::murmur3(9).for_keys::<(u64, &str)>().describe(), "murmur3 seed 9 over tuple(u64,text)");
    assert_eq!(Contract::given().describe(), "given digests");
    assert_eq!(Contract::murmur64a_pair().describe(), "murmur64a-pair unkeyed over bytes");
    assert_eq!(Contract::xxh64().for_keys::<i64>().describe(), "xxh64 unkeyed over i64");
    let keyed = Contract::keyed(&secret()).for_keys::<str>();
    assert_eq!(keyed.describe(), format!("siphash13 secret {} over text", secret().id()));
    assert_eq!(format!("{keyed:?}"), format!("Contract({keyed})"));
}

#[test]
fn algorithms_take_a_seed_or_a_secret() {
    let secret = secret();
    for algorithm in Algorithm::ALL {
        let with = algorithm.is_keyed().then_some(&secret);
        let contract = Contract::new(algorithm, 0, with).unwrap();
        assert_eq!((contract.algorithm(), contract.is_keyed()), (algorithm, algorithm.is_keyed()));
        assert_eq!(contract.secret_id().is_some(), algorithm.is_keyed());
        let without = if algorithm.is_keyed() { None } else { Some(&secret) };
        let kind = if algorithm.is_keyed() { ErrorKind::Secret } else { ErrorKind::InvalidParameter };
        assert_eq!(Contract::new(algorithm, 0, without).unwrap_err().kind(), kind);
        assert_eq!(Contract::new(algorithm, 1 << 32, with).is_ok(), algorithm == Algorithm::Xxh3);
        assert_eq!(
            Contract::new(algorithm, 5, with).is_ok(),
            matches!(algorithm, Algorithm::Xxh3 | Algorithm::Murmur3)
        );
    }
    assert_eq!(Contract::new(Algorithm::Murmur3, 5, None).unwrap(), Contract::murmur3(5));
}

/// T25: what was persisted opens as the same contract, and as nothing else.
#[test]
fn parts_read_back_and_contradictions_do_not() {
    let (secret, other) = (secret(), Secret::from_bytes([7; 32]));
    let mut all = hashing();
    all.push(Contract::given());
    for contract in all {
        let contract = contract.for_keys::<(u64, &str)>();
        let parts = contract.to_parts();
        let read = Contract::from_parts(&parts, Some(&secret)).unwrap();
        assert_eq!(read, contract);
        assert_eq!(read.digest_bytes(b"key"), contract.digest_bytes(b"key"));
        let without = Contract::from_parts(&parts, None);
        let with_other = Contract::from_parts(&parts, Some(&other));
        let turned = ContractParts { secret: parts.secret.map(|(id, _)| (id, [0; 8])), ..parts.clone() };
        let with_other_check = Contract::from_parts(&turned, Some(&secret));
        if contract.is_keyed() {
            for (refused, names) in [
                (without, vec![secret.id()]),
                (with_other, vec![secret.id(), other.id()]),
                (with_other_check, vec![secret.id()]),
            ] {
                let error = refused.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Secret);
                assert!(names.iter().all(|id| error.to_string().contains(&id.to_string())), "{error}");
            }
        } else {
            assert_eq!(without.unwrap(), contract);
            assert_eq!(with_other.unwrap(), contract);
        }
        let kind = |parts: ContractParts| Contract::from_parts(&parts, Some(&secret)).map_err(|error| error.kind());
        let version = Err(ErrorKind::Version);
        let corrupt = Err(ErrorKind::Corrupt);
        assert_eq!(kind(ContractParts { algorithm: 0, ..parts.clone() }), version);
        assert_eq!(kind(ContractParts { algorithm: 11, ..parts.clone() }), version);
        assert_eq!(kind(ContractParts { version: 0, ..parts.clone() }), version);
        assert_eq!(kind(ContractParts { version: 2, ..parts.clone() }), version);
        assert_eq!(kind(ContractParts { encoding: vec![99, 0], ..parts.clone() }), version);
        assert_eq!(kind(ContractParts { encoding: vec![3], ..parts.clone() }), corrupt);
        let swapped = parts.secret.map_or(Some((secret.id(), secret.check())), |_| None);
        assert_eq!(kind(ContractParts { secret: swapped, ..parts.clone() }), corrupt);
        if contract.algorithm() != Algorithm::Xxh3 {
            assert_eq!(kind(ContractParts { seed: 1 << 32, ..parts.clone() }), corrupt);
        }
    }
}

/// The windows of `bytes` raw, in hexadecimal of both cases, and in base64 at every alignment.
fn traces(bytes: &[u8]) -> Vec<Vec<u8>> {
    const BASE64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut traces: Vec<Vec<u8>> = bytes.windows(4).map(<[u8]>::to_vec).collect();
    for window in bytes.windows(4) {
        traces.push(window.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into_bytes());
        traces.push(window.iter().map(|byte| format!("{byte:02X}")).collect::<String>().into_bytes());
        traces.push(format!("{window:?}").trim_matches(['[', ']']).into());
    }
    for window in bytes.windows(6) {
        let bits = window.iter().fold(0u64, |bits, &byte| bits << 8 | u64::from(byte));
        traces.push((0..8).rev().map(|at| BASE64[(bits >> (6 * at) & 63) as usize]).collect());
    }
    traces
}

#[test]
fn nothing_shown_or_stored_has_a_byte_of_the_secret() {
    let (secret, other) = (secret(), Secret::from_bytes([7; 32]));
    let bytes = SECRET;
    let mut needles = traces(&bytes);
    let mut shown: Vec<Vec<u8>> = vec![format!("{secret:?}{secret:#?}").into()];
    for contract in hashing().into_iter().filter(Contract::is_keyed) {
        for words in secret.key(contract.algorithm()).chunks(2) {
            needles.extend(traces(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>()));
            needles.extend(words.iter().flat_map(|word| [word.to_string().into(), format!("{word:x}").into()]));
        }
        let parts = contract.to_parts();
        shown.push(format!("{contract}{contract:?}{contract:#?}{}{parts:?}", contract.describe()).into());
        let (id, check) = parts.secret.unwrap();
        shown.push([&id.0[..], &check, &parts.encoding, &parts.seed.to_le_bytes()].concat());
        for error in [
            Contract::from_parts(&parts, None).unwrap_err(),
            Contract::from_parts(&parts, Some(&other)).unwrap_err(),
            contract.ensure_same(&Contract::xxh3()).unwrap_err(),
            contract.ensure_same(&Contract::new(contract.algorithm(), 0, Some(&other)).unwrap()).unwrap_err(),
            contract.digest(&1u8).unwrap_err(),
            contract.clone().for_keys::<u64>().digest("x").unwrap_err(),
            Contract::new(contract.algorithm(), 9, Some(&secret)).unwrap_err(),
        ] {
            shown.push(format!("{error}{error:?}").into());
        }
    }
    for shown in shown {
        for needle in &needles {
            let found = shown.windows(needle.len()).any(|window| window == needle);
            assert!(!found, "{:?} in {:?}", String::from_utf8_lossy(needle), String::from_utf8_lossy(&shown));
        }
    }
    // The test can fail: the same search finds the secret where it is.
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(needles.iter().any(|needle| hex.as_bytes().windows(needle.len()).any(|window| window == needle)));
}
