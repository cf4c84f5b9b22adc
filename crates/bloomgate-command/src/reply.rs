//! A reply as a value, for everything that is not hot: built by the engine, written in the client's protocol.

use std::borrow::Cow;

use crate::refusal::Refusal;
use crate::write;

/// The protocol a connection speaks; 2 until `HELLO 3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Protocol {
    /// RESP2.
    #[default]
    Resp2,
    /// RESP3: maps, sets, booleans, doubles and one nil.
    Resp3,
}

/// What a command answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// `+OK`.
    Ok,
    /// A short line.
    Simple(Cow<'static, str>),
    /// An error.
    Error(Refusal),
    /// An integer in both protocols.
    Int(i64),
    /// A yes or no: `:1`/`:0` in RESP2, `#t`/`#f` in RESP3.
    Bool(bool),
    /// Whether `CF.INSERT` stored the item: `:1`/`:-1` in RESP2, `#t`/`#f` in RESP3.
    Stored(bool),
    /// A number with a fraction: bulk in RESP2, `,` in RESP3.
    Double(f64),
    /// Any bytes.
    Bulk(Vec<u8>),
    /// Text, as a bulk string.
    Text(Cow<'static, str>),
    /// Text for people: bulk in RESP2, verbatim in RESP3.
    Verbatim(String),
    /// Nothing.
    Nil,
    /// Nothing where an array would be (`EXEC` after a watched change): `*-1` in RESP2.
    NilArray,
    /// Replies in order.
    Array(Vec<Reply>),
    /// Pairs: a flat array in RESP2.
    Map(Vec<(Reply, Reply)>),
    /// One named value (`BF.INFO key CAPACITY`): an array of the value alone in RESP2, a map of the pair in RESP3.
    Field(&'static str, Box<Reply>),
    /// Replies without order: an array in RESP2.
    Set(Vec<Reply>),
    /// Bytes that are a reply already.
    Raw(Vec<u8>),
}

impl Reply {
    /// About how much memory it takes, for those who keep many before they are written.
    #[must_use]
    pub fn size_in_memory(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Bulk(bytes) | Self::Raw(bytes) => bytes.len(),
                Self::Verbatim(text) => text.len(),
                Self::Simple(text) | Self::Text(text) => text.len(),
                Self::Error(refusal) => refusal.as_str().len(),
                Self::Array(replies) | Self::Set(replies) => replies.iter().map(Self::size_in_memory).sum(),
                Self::Map(pairs) => {
                    pairs.iter().map(|(one, other)| one.size_in_memory() + other.size_in_memory()).sum()
                }
                Self::Field(_, reply) => reply.size_in_memory(),
                Self::Ok | Self::Int(_) | Self::Bool(_) | Self::Stored(_) | Self::Double(_) => 0,
                Self::Nil | Self::NilArray => 0,
            }
    }

    /// Text as a bulk string.
    #[must_use]
    pub fn text(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Text(text.into())
    }

    /// A short line.
    #[must_use]
    pub fn simple(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Simple(text.into())
    }

    /// Appends the reply as it goes over the wire.
    pub fn write(&self, protocol: Protocol, out: &mut Vec<u8>) {
        match self {
            Reply::Ok => write::ok(out),
            Reply::Simple(text) => write::simple(out, text),
            Reply::Error(refusal) => write::error(out, refusal.as_str()),
            Reply::Int(value) => write::int(out, *value),
            Reply::Bool(value) => write::bool(out, *value, protocol),
            Reply::Stored(value) => write::stored(out, *value, protocol),
            Reply::Double(value) => write::double(out, *value, protocol),
            Reply::Bulk(bytes) => write::bulk(out, bytes),
            Reply::Text(text) => write::bulk(out, text.as_bytes()),
            Reply::Verbatim(text) => write::verbatim(out, text, protocol),
            Reply::Nil => write::nil(out, protocol),
            Reply::NilArray => write::nil_array(out, protocol),
            Reply::Array(replies) => {
                write::array_header(out, replies.len());
                replies.iter().for_each(|reply| reply.write(protocol, out));
            }
            Reply::Map(pairs) => {
                write::map_header(out, pairs.len(), protocol);
                for (key, value) in pairs {
                    key.write(protocol, out);
                    value.write(protocol, out);
                }
            }
            Reply::Field(name, value) => {
                match protocol {
                    Protocol::Resp2 => write::array_header(out, 1),
                    Protocol::Resp3 => {
                        write::map_header(out, 1, protocol);
                        write::simple(out, name);
                    }
                }
                value.write(protocol, out);
            }
            Reply::Set(replies) => {
                write::set_header(out, replies.len(), protocol);
                replies.iter().for_each(|reply| reply.write(protocol, out));
            }
            Reply::Raw(bytes) => out.extend_from_slice(bytes),
        }
    }

    /// The reply's bytes.
    #[must_use]
    pub fn to_bytes(&self, protocol: Protocol) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(protocol, &mut out);
        out
    }
}

impl From<Refusal> for Reply {
    fn from(refusal: Refusal) -> Self {
        Reply::Error(refusal)
    }
}

impl From<i64> for Reply {
    fn from(value: i64) -> Self {
        Reply::Int(value)
    }
}

impl From<&'static str> for Reply {
    fn from(text: &'static str) -> Self {
        Reply::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Reply {
    fn from(text: String) -> Self {
        Reply::Text(Cow::Owned(text))
    }
}

impl From<Result<Reply, Refusal>> for Reply {
    fn from(result: Result<Reply, Refusal>) -> Self {
        result.unwrap_or_else(Reply::Error)
    }
}
