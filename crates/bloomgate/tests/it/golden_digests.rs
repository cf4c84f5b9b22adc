//! Digests that must never change, computed by other implementations (`tests/golden/digests.py`): the
//! same on every machine, of either byte order and any width.

use bloomgate::{Algorithm, Contract, Encoding, Key, Secret, Uuid};

const GOLDEN: &str = include_str!("../golden/digests.tsv");

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn digests_are_those_of_other_implementations() {
    let mut lines = 0;
    for line in GOLDEN.lines().filter(|line| !line.starts_with('#')) {
        let [algorithm, key, encoding, text, canonical, digest] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("not six fields: {line}");
        };
        let algorithm: Algorithm = algorithm.parse().unwrap();
        let contract = if algorithm.is_keyed() {
            Contract::new(algorithm, 0, Some(&Secret::from_hex(key).unwrap())).unwrap()
        } else {
            Contract::new(algorithm, key.parse().unwrap(), None).unwrap()
        };
        let encoding: Encoding = encoding.parse().unwrap();
        let contract = contract.with_encoding(encoding);
        let text = text.replace("\\t", "\t");
        let mut scratch = Vec::new();
        let bytes = encoding.parse_text(&text, &mut scratch).unwrap();
        assert_eq!(hex(bytes), canonical, "{line}");
        assert_eq!(hex(&contract.digest_bytes(bytes).to_bytes()), digest, "{line}");
        assert_eq!(hex(&contract.digest_text(&text).unwrap().to_bytes()), digest, "{line}");
        assert_eq!(hex(&contract.digest(text.as_str()).unwrap().to_bytes()), digest, "{line}");
        if let Some(typed) = digest_of_typed(&contract, encoding, &text) {
            assert_eq!(hex(&typed.to_bytes()), digest, "typed: {line}");
        }
        lines += 1;
    }
    assert_eq!(lines, 765);
}

/// The digest of the same key as a value of its own type.
fn digest_of_typed(contract: &Contract, encoding: Encoding, text: &str) -> Option<bloomgate::Digest> {
    let digest = match encoding {
        Encoding::Bytes => contract.digest(text.as_bytes()),
        Encoding::Unsigned => contract.digest(&text.parse::<u64>().ok()?),
        Encoding::Signed => contract.digest(&text.parse::<i64>().ok()?),
        Encoding::Unsigned128 => contract.digest(&text.parse::<u128>().ok()?),
        Encoding::Signed128 => contract.digest(&text.parse::<i128>().ok()?),
        Encoding::Uuid => contract.digest(&text.parse::<Uuid>().ok()?),
        _ if encoding == <(u64, &str)>::ENCODING => {
            let (number, name) = text.split_once('\t')?;
            contract.digest(&(number.parse::<u64>().ok()?, name))
        }
        _ => return None,
    };
    Some(digest.unwrap())
}

/// The public values of the secret 00 01 .. 1f and of the one derived from it for `orders`, computed
/// with the Python package blake3.
#[test]
fn secrets_have_the_values_of_another_implementation() {
    let secret = Secret::from_bytes(std::array::from_fn(|at| at as u8));
    assert_eq!(secret.id().to_string(), "0a677492b28b1007");
    assert_eq!(hex(&secret.check()), "ff534e92bf0c0d4d");
    let derived = Secret::from_hex("7a60cb70e0bae81eb872036d657f12644cc15fed2cb21cbda57b09cef45c6627").unwrap();
    assert_eq!(secret.derive("orders").id(), derived.id());
    assert_eq!(secret.derive("orders").check(), derived.check());
}
