//! The CONTRACT and SENTINELS of a file: how its keys were hashed, and the proof that this reader hashes them alike.

use std::cell::RefCell;

use super::fields::{FieldReader, FieldWriter, Tag};
use super::frame::corrupt;
use super::load::OpenOptions;
use super::read::Head;
use super::sections::SectionType;
use super::sentinels::{self, Form};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::{Algorithm, Contract, ContractParts, SecretId};
use crate::key::Encoding;

const ALGORITHM: Tag = Tag::critical(1);
const VERSION: Tag = Tag::critical(2);
const ENCODING: Tag = Tag::critical(3);
const SEED: Tag = Tag::critical(4);
const SECRET_ID: Tag = Tag::critical(5);
const SECRET_CHECK: Tag = Tag::critical(6);

/// The body of the CONTRACT section.
pub(crate) fn contract_body(contract: &Contract) -> Result<Vec<u8>> {
    let parts = contract.to_parts();
    let mut fields = FieldWriter::new();
    fields.u16(ALGORITHM, parts.algorithm).u16(VERSION, parts.version);
    fields.bytes(ENCODING, &parts.encoding).u64(SEED, parts.seed);
    if let Some((id, check)) = parts.secret {
        fields.bytes(SECRET_ID, &id.0).bytes(SECRET_CHECK, &check);
    }
    fields.finish()
}

/// The contract of a file as far as it can be known without a secret.
pub(crate) fn read_contract(head: &Head) -> Result<ContractParts> {
    let body = head.body(SectionType::CONTRACT, 0)?;
    let known = [ALGORITHM, VERSION, ENCODING, SEED, SECRET_ID, SECRET_CHECK];
    let fields = FieldReader::parse(SectionType::CONTRACT, body, &known)?;
    let id = fields.optional(SECRET_ID, FieldReader::array)?;
    let check = fields.optional(SECRET_CHECK, FieldReader::array)?;
    if id.is_some() != check.is_some() {
        return Err(corrupt("CONTRACT: of a secret's id and check value (fields 5 and 6) one alone is there".into()));
    }
    let parts = ContractParts {
        algorithm: fields.u16(ALGORITHM)?,
        version: fields.u16(VERSION)?,
        seed: fields.u64(SEED)?,
        secret: id.map(SecretId).zip(check),
        encoding: fields.bytes(ENCODING)?.to_vec(),
    };
    // Everything is checked here but the secret, which may be at hand later.
    match Contract::from_parts(&parts, None) {
        Err(refusal) if refusal.kind() != ErrorKind::Secret => Err(refusal),
        Err(_) if parts.seed != 0 => {
            Err(corrupt(format!("CONTRACT: a keyed hash with the seed {} (field 4); 0 expected", parts.seed)))
        }
        _ => Ok(parts),
    }
}

/// The contract under which the file may be asked: the expected one, or that of its fields.
pub(crate) fn open_contract(parts: &ContractParts, options: &OpenOptions<'_>) -> Result<Contract> {
    match options.contract {
        Some(expected) if expected.to_parts() == *parts => Ok(expected.clone()),
        Some(expected) => Err(differs(&expected.to_parts(), parts)),
        None => Contract::from_parts(parts, options.secret),
    }
}

#[cold]
fn differs(expected: &ContractParts, found: &ContractParts) -> Error {
    let encoding = |parts: &ContractParts| match Encoding::from_wire(&parts.encoding) {
        Ok(encoding) => encoding.to_string(),
        Err(_) => "one that is unknown here".into(),
    };
    let hash = |parts: &ContractParts| match Algorithm::from_number(parts.algorithm) {
        Some(algorithm) => algorithm.to_string(),
        None => format!("number {}", parts.algorithm),
    };
    let (part, here, there) = if expected.encoding != found.encoding {
        ("key encoding", encoding(expected), encoding(found))
    } else if expected.algorithm != found.algorithm {
        ("hash", hash(expected), hash(found))
    } else if expected.seed != found.seed {
        ("seed", expected.seed.to_string(), found.seed.to_string())
    } else {
        let id = |parts: &ContractParts| parts.secret.map_or("none".into(), |(id, _)| id.to_string());
        ("secret", id(expected), id(found))
    };
    let message = format!(
        "the file was made under another contract than the expected one: the {part} is {there} in the file and {here} was \
         expected; the same key has different digests in them. Open it under its own contract, or build it again"
    );
    Error::new(ErrorKind::Contract, message)
}

thread_local! {
    /// The last contract and its sentinels. Of a million small filters that are saved or loaded one after the other, all
    /// under one contract, hashing these 2,400 bytes would be half the work.
    static LAST: RefCell<Option<(ContractParts, Vec<u8>)>> = const { RefCell::new(None) };
}

/// The sentinels of a contract, if it is the last one. Contracts with equal parts hash alike: a secret is told by its id
/// and its check value.
fn last_sentinels<T>(parts: &ContractParts, take: impl FnOnce(&Vec<u8>) -> T) -> Option<T> {
    LAST.with_borrow(|last| last.as_ref().filter(|(of, _)| of == parts).map(|(_, body)| take(body)))
}

/// The body of the SENTINELS section.
pub(crate) fn sentinels_body(contract: &Contract) -> Result<Vec<u8>> {
    let parts = contract.to_parts();
    if let Some(body) = last_sentinels(&parts, Vec::clone) {
        return Ok(body);
    }
    let body = make_sentinels(contract)?;
    LAST.set(Some((parts, body.clone())));
    Ok(body)
}

fn make_sentinels(contract: &Contract) -> Result<Vec<u8>> {
    let texts = texts_for(contract);
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    sentinels::write(&texts, |form, bytes| digest(contract, form, bytes))
}

/// Refuses a file whose sentinels hash otherwise under this contract.
pub(crate) fn verify_sentinels(head: &Head, contract: &Contract) -> Result<()> {
    let body = head.body(SectionType::SENTINELS, 0)?;
    if last_sentinels(&contract.to_parts(), |last| last == body) == Some(true) {
        return Ok(());
    }
    if sentinels_body(contract).is_ok_and(|expected| expected == body) {
        return Ok(());
    }
    // Those of another version of this library may be others, and say as much.
    sentinels::verify(body, |form, bytes| digest(contract, form, bytes)).map(drop)
}

fn digest(contract: &Contract, form: Form, bytes: &[u8]) -> Result<[u8; 16]> {
    let digest = match form {
        Form::Canonical => contract.digest_bytes(bytes),
        Form::Text => {
            let text = std::str::from_utf8(bytes)
                .map_err(|_| Error::new(ErrorKind::Encoding, "its bytes are not UTF-8, and so no text"))?;
            contract.digest_text(text)?
        }
    };
    Ok(digest.to_bytes())
}

/// Texts that suit the encoding; a tuple takes the i-th of each part. Digests made elsewhere have no text.
fn texts_for(contract: &Contract) -> Vec<String> {
    let scalar = |encoding: Encoding| match encoding {
        Encoding::Unsigned | Encoding::Unsigned128 => sentinels::UNSIGNED,
        Encoding::Signed | Encoding::Signed128 => sentinels::SIGNED,
        Encoding::Uuid => sentinels::UUID,
        _ => sentinels::TEXT,
    };
    match contract.encoding() {
        _ if contract.algorithm() == Algorithm::Given => Vec::new(),
        Encoding::Tuple(parts) => (0..6)
            .map(|i| {
                let texts: Vec<&str> = parts.iter().map(|part| scalar(part)[i % scalar(part).len()]).collect();
                texts.join("\t")
            })
            .collect(),
        encoding => scalar(encoding).iter().map(|&text| text.into()).collect(),
    }
}
