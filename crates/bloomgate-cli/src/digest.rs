//! From the bytes of a key to the digest that a filter knows it by, under the filter's contract.

use bloomgate::hash::Algorithm;
use bloomgate::{Contract, Digest, Encoding};

use crate::failure::Failure;

/// Whether keys are taken as they are: then whole batches are hashed side by side, and no key is wrong.
pub fn takes_bytes(contract: &Contract) -> bool {
    contract.encoding().accepts(Encoding::Bytes)
}

/// Refuses a filter of digests made elsewhere: the lines of a file are no digests.
pub fn refuse_given(contract: &Contract) -> Result<(), Failure> {
    if contract.algorithm() == Algorithm::Given {
        return Err(Failure::Message(
            "the filter holds digests made elsewhere and says not by which hash: it cannot be asked for keys".into(),
        ));
    }
    Ok(())
}

/// The digest of a key that is written as text, or why it is none.
pub fn digest(contract: &Contract, key: &[u8], scratch: &mut Vec<u8>) -> Result<Digest, String> {
    parse(contract, key, scratch).map_err(|error| {
        let hint =
            if key.ends_with(b"\r") { "; it ends in a carriage return: for lines that do, use --crlf" } else { "" };
        error + hint
    })
}

fn parse(contract: &Contract, key: &[u8], scratch: &mut Vec<u8>) -> Result<Digest, String> {
    let text = std::str::from_utf8(key).map_err(|error| {
        format!(
            "the key is not UTF-8 (byte {} is 0x{:02x}), and the filter's keys are {}: repair it, or build with \
             --keys bytes",
            error.valid_up_to() + 1,
            key[error.valid_up_to()],
            contract.encoding()
        )
    })?;
    let canonical = contract.encoding().parse_text(text, scratch).map_err(|error| error.to_string())?;
    Ok(contract.digest_bytes(canonical))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_parsed_and_what_is_not_is_refused() {
        let numbers = Contract::xxh3().with_encoding(Encoding::Unsigned);
        let scratch = &mut Vec::new();
        assert_eq!(digest(&numbers, b"0042", scratch).unwrap(), numbers.digest(&42u64).unwrap());
        assert!(digest(&numbers, b"x", scratch).unwrap_err().contains("decimal"));
        let text = Contract::xxh3().with_encoding(Encoding::Text);
        let error = digest(&text, b"ab\xffc", scratch).unwrap_err();
        assert!(error.contains("byte 3 is 0xff") && error.contains("text"), "{error}");
        assert!(takes_bytes(&Contract::xxh3()) && !takes_bytes(&text) && !takes_bytes(&numbers));
        assert!(refuse_given(&Contract::given()).is_err() && refuse_given(&numbers).is_ok());
    }
}
