//! A contract taken apart into the frozen fields that a file or a message carries, and put together
//! again: every field is checked, and a keyed contract opens only with its own secret.

use super::{Algorithm, Contract, Secret, SecretId};
use crate::error::{Error, ErrorKind, Result};
use crate::key::Encoding;

/// The fields of a contract as they are written. None of them is secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContractParts {
    /// The number of the [`Algorithm`].
    pub algorithm: u16,
    /// The version of the algorithm's use here: always [`ContractParts::VERSION`] so far.
    pub version: u16,
    /// The seed; 0 for algorithms without one.
    pub seed: u64,
    /// The id and the check value of the secret, for keyed algorithms.
    pub secret: Option<(SecretId, [u8; 8])>,
    /// The encoding of the keys, as [`Encoding::to_wire`] writes it.
    pub encoding: Vec<u8>,
}

impl ContractParts {
    /// The one version there is: how keys are derived and how digests lie in their 16 bytes.
    pub const VERSION: u16 = 1;
}

impl Contract {
    /// The fields of this contract.
    #[must_use]
    pub fn to_parts(&self) -> ContractParts {
        ContractParts {
            algorithm: self.algorithm().number(),
            version: ContractParts::VERSION,
            seed: self.seed(),
            secret: self.secret_id().zip(self.secret_check()),
            encoding: self.encoding().to_wire(),
        }
    }

    /// The contract of these fields.
    ///
    /// Numbers that this version does not know are [`ErrorKind::Version`]; fields that contradict each
    /// other [`ErrorKind::Corrupt`]; a keyed contract without its secret, or with another,
    /// [`ErrorKind::Secret`]. A secret given for a contract that is not keyed is not used.
    pub fn from_parts(parts: &ContractParts, secret: Option<&Secret>) -> Result<Self> {
        let algorithm = Algorithm::from_number(parts.algorithm).ok_or_else(|| {
            Error::new(
                ErrorKind::Version,
                format!("hash number {} is unknown, this version knows 1 to 10: use a newer version", parts.algorithm),
            )
        })?;
        if parts.version != ContractParts::VERSION {
            return Err(Error::new(
                ErrorKind::Version,
                format!(
                    "version {} of the contract is unknown, this version knows {}: use a newer version",
                    parts.version,
                    ContractParts::VERSION
                ),
            ));
        }
        let encoding = Encoding::from_wire(&parts.encoding)?;
        let secret = match (algorithm.is_keyed(), parts.secret) {
            (false, None) => None,
            (true, Some((id, check))) => Some(matching(id, check, secret)?),
            (true, None) => return Err(contradiction(algorithm, "no secret's id")),
            (false, Some(_)) => return Err(contradiction(algorithm, "a secret's id")),
        };
        Self::new(algorithm, parts.seed, secret)
            .map(|contract| contract.with_encoding(encoding))
            .map_err(|_| contradiction(algorithm, "a seed outside what it takes"))
    }
}

/// The secret given, if it is the one wanted.
fn matching(id: SecretId, check: [u8; 8], given: Option<&Secret>) -> Result<&Secret> {
    let message = match given {
        None => format!("the filter is keyed by the secret {id} and no secret was given: give that secret"),
        Some(given) if given.id() != id => {
            format!("the filter is keyed by the secret {id}, and the one given is {}: give {id}", given.id())
        }
        Some(given) if given.check() != check => format!(
            "the secret given has the id {id} that the filter wants, but another check value: it is not the secret that \
             the filter was made with, or the file is damaged"
        ),
        Some(given) => return Ok(given),
    };
    Err(Error::new(ErrorKind::Secret, message))
}

fn contradiction(algorithm: Algorithm, what: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!(
            "the contract has the hash {algorithm} with {what}: the file is damaged, take it from its source again"
        ),
    )
}
