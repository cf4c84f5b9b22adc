//! A filter that somebody brings as its file, read as it comes: nobody sees it before all of it is there and right.
//!
//! ```text
//!  head ──▶ secret, memory ──▶ bits, chunk by chunk ──▶ end, address ──▶ its image on the disk ──▶ its name
//!           charged before      each verified            of the whole
//!           it is allocated
//! ```
//!
//! The bits go straight to where they stay: beside the filter itself there is a piece of the stream in memory, and no more.

use std::io::{Cursor, Read};
use std::sync::Arc;

use bloomgate::format::{Addressing, Coming, Limits, MAGIC};
use bloomgate::{Address, AnyFilter, Error, ErrorKind, OpenOptions};
use bloomgate_command::Refusal;

use super::bg::{built, secrets};
use super::call::Call;
use super::desk::Desk;
use super::installing::Ready;
use crate::engine::Engine;
use crate::engine::adding::NotDone;
use crate::engine::bases::MAX_FILE;
use crate::engine::budget::{Limit, Refused};
use crate::engine::recipe::refused;
use crate::engine::structure::{Existing, Reserved};

/// What stands before the bits: the largest is that of a chain of many stages, with a few hundred bytes each.
const LONGEST_HEAD: u64 = 1 << 20;

/// Somebody may bring a filter under a name.
#[derive(Debug)]
pub struct Bringing {
    engine: Arc<Engine>,
    name: Box<[u8]>,
    /// Contracts and epochs of the user's.
    secrets: Vec<(String, u32)>,
}

/// Why there is no filter.
#[derive(Debug)]
pub enum NotBrought {
    /// It is larger than one may be, whatever else there is.
    TooLarge(String),
    /// There is no memory for it now.
    NoRoom(String),
    /// It is another file than the one that was announced: its address.
    Another(Address),
    /// It is no filter's file, or not a whole one, or not one that can be had here.
    Refused(Refusal),
}

impl From<Refusal> for NotBrought {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Refused> for NotBrought {
    fn from(refused: Refused) -> Self {
        let why = refused.to_string().trim_start_matches("ERR ").to_owned();
        match refused.limit() {
            Limit::Each => Self::TooLarge(why),
            Limit::All | Limit::Namespace(_) => Self::NoRoom(why),
        }
    }
}

impl Bringing {
    /// Lets the user of a call bring a filter under a name, given in full.
    pub fn begin(call: &Call<'_, '_, '_>, name: &[u8]) -> Result<Self, Refusal> {
        let engine = call.engine();
        if let Some(log) = engine.journal.log().filter(|log| !log.is_writable()) {
            return Err(Refusal::new(log.failure().to_string()));
        }
        if call.find(name).is_none() {
            engine.check_count(name)?;
        }
        Ok(Self { name: name.into(), secrets: secrets(call), engine })
    }

    /// Refuses a file that announces more than any filter may have, before a byte of it is read.
    pub fn check_length(&self, length: u64) -> Result<(), NotBrought> {
        let most = self.engine.budget.most_each();
        // A file has up to a few hundredths more than its filter.
        match length <= most.saturating_add(most / 32).saturating_add(LONGEST_HEAD) {
            true => Ok(()),
            false => Err(NotBrought::TooLarge(format!(
                "the body has {length} bytes, and a filter {most} at most (max-filter-memory): send a smaller one, or raise it"
            ))),
        }
    }

    /// Reads a file to its end, which may take as long as it takes to come; `length` and `address` are what was said about it.
    pub fn read(
        &self,
        desk: &Desk,
        stream: impl Read,
        length: Option<u64>,
        address: Option<Address>,
    ) -> Result<Brought, NotBrought> {
        let mut stream = Addressing::new(stream);
        let mut start = Vec::new();
        (&mut stream).take(MAGIC.len() as u64).read_to_end(&mut start).map_err(|error| broken(&error))?;
        let (filter, key, reserved) = match start == MAGIC {
            true => self.ours(Cursor::new(start).chain(&mut stream), length)?,
            false => self.of_others(start, &mut stream, length)?,
        };
        let mut more = [0];
        if stream.read(&mut more).map_err(|error| broken(&error))? > 0 {
            return Err(
                Refusal::err("there is something behind the end of the filter's file: send the file alone").into()
            );
        }
        let is = stream.address();
        if address.is_some_and(|said| said != is) {
            return Err(NotBrought::Another(is));
        }
        let built = built(&self.name, filter, key)?;
        let ready = Ready::make_of(&self.engine, desk, built, reserved)?;
        Ok(Brought { engine: self.engine.clone(), ready: Some(ready), address: is })
    }

    /// A file of ours.
    fn ours(&self, stream: impl Read, length: Option<u64>) -> Result<(AnyFilter, (String, u32), Reserved), NotBrought> {
        let most = self.engine.budget.most_each();
        let mut limits = Limits::payload(most);
        limits.max_head_bytes = LONGEST_HEAD;
        let told = |error: Error| match error.kind() {
            ErrorKind::LimitExceeded => NotBrought::TooLarge(format!(
                "the file holds a filter of more than {most} bytes, the most that one may have (max-filter-memory): bring a \
                 smaller one, or raise it"
            )),
            _ => NotBrought::Refused(refused(&error)),
        };
        let coming = Coming::begin(stream, limits).map_err(told)?;
        if let Some(length) = length.filter(|&length| length != coming.file_len()) {
            return Err(NotBrought::Refused(Refusal::err(format_args!(
                "the file has {} bytes by its own head, and {length} are sent: send all of it, and nothing else",
                coming.file_len()
            ))));
        }
        let mut key = (String::new(), 0);
        let mut secret = None;
        if let Err(error) = coming.agrees(&OpenOptions::new()) {
            if error.kind() != ErrorKind::Secret {
                return Err(told(error));
            }
            // Keyed: by one of our own secrets, newest first.
            let found = self.secrets.iter().find_map(|(contract, epoch)| {
                let secret = self.engine.contracts.secret(contract, *epoch)?;
                coming.agrees(&OpenOptions::new().secret(&secret)).is_ok().then(|| ((contract.clone(), *epoch), secret))
            });
            let Some((found, its)) = found else { return Err(told(error)) };
            (key, secret) = (found, Some(its));
        }
        let reserved = Reserved::take(&self.engine, &self.name, coming.size_in_bytes())?;
        let mut options = OpenOptions::new();
        if let Some(secret) = &secret {
            options = options.secret(secret);
        }
        let (filter, _) = coming.finish(&options).map_err(told)?;
        Ok((filter, key, reserved))
    }

    /// A file of another system, which can be recognised as a whole only.
    fn of_others(
        &self,
        mut bytes: Vec<u8>,
        stream: &mut impl Read,
        length: Option<u64>,
    ) -> Result<(AnyFilter, (String, u32), Reserved), NotBrought> {
        let _held = self.engine.budget.hold(length.unwrap_or(MAX_FILE).min(MAX_FILE))?;
        let mut rest = stream.take(MAX_FILE + 1 - bytes.len() as u64);
        rest.read_to_end(&mut bytes).map_err(|error| broken(&error))?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(NotBrought::TooLarge(format!(
                "the body is no file of Bloomgate, and those of other systems are taken up to {MAX_FILE} bytes: turn it into one \
                 with `bloomgate convert`"
            )));
        }
        let limits = Limits::payload(self.engine.budget.most_each());
        let filter = AnyFilter::from_bytes_with(&bytes, &OpenOptions::new().limits(limits));
        let filter = filter.map_err(|error| refused(&error))?;
        let reserved = Reserved::take(&self.engine, &self.name, filter.size_in_bytes())?;
        Ok((filter, (String::new(), 0), reserved))
    }
}

/// The stream ended before its end. Who reads it knows more.
fn broken(error: &std::io::Error) -> Refusal {
    Refusal::err(format_args!("the file broke off: {error}"))
}

/// A filter that is all there, and needs only its name. What gets none is given back.
#[derive(Debug)]
#[must_use]
pub struct Brought {
    engine: Arc<Engine>,
    ready: Option<Ready>,
    /// The address of its file.
    pub address: Address,
}

impl Brought {
    /// Puts it under its name.
    pub fn install(mut self, call: &mut Call<'_, '_, '_>, existing: Existing) -> Result<(), NotDone> {
        match self.ready.take() {
            Some(ready) => ready.install_alone(call, existing).map(drop),
            None => Ok(()),
        }
    }
}

impl Drop for Brought {
    fn drop(&mut self) {
        if let Some(ready) = self.ready.take() {
            ready.abandon(&self.engine);
        }
    }
}
