//! The commands of the Bloomgate server as data.
//!
//! One table ([`TABLE`]) has one entry ([`Spec`]) per command: its name, arity, flags, keys, rights, words of help, an
//! example, and the parser that turns its arguments into a typed [`Request`]. Everything that must agree comes from
//! it: the server's dispatch, `COMMAND`'s answers ([`command_reply`]), the documentation ([`markdown_commands`],
//! [`markdown_differences`]) and the tests. There is no I/O here: bytes in, values out.
//!
//! ```
//! use bloomgate_command::{Request, parse};
//!
//! let (spec, request) = parse(&[b"bf.exists", b"seen", b"https://example.org/"])?;
//! assert_eq!(spec.name, "bf.exists");
//! assert!(matches!(request, Request::BfExists { key: b"seen", .. }));
//!
//! let refusal = parse(&[b"BF.ADD", b"seen"]).unwrap_err();
//! assert_eq!(refusal.as_str(), "ERR wrong number of arguments for 'bf.add' command");
//! # Ok::<(), bloomgate_command::Refusal>(())
//! ```

#![forbid(unsafe_code)]

mod acl;
mod arguments;
mod bloom;
mod connection;
mod cuckoo;
mod describe;
mod document;
mod filters;
pub mod glob;
mod hints;
mod names;
mod namespaces;
mod number;
mod options;
mod refusal;
mod reply;
mod request;
mod role;
mod server;
mod spec;
mod table;
pub mod write;

pub use arguments::{Arguments, MAX_ITEM, MAX_NAME};
pub use describe::{acl_cat_reply, command_reply, command_reply_in, help_reply};
pub use document::{help, markdown_commands, markdown_differences};
pub use hints::{Hint, Shape, hints};
pub use number::{decimal, integer, size, unsigned};
pub use options::{Takes, Word};
pub use refusal::Refusal;
pub use reply::{Protocol, Reply};
pub use request::*;
pub use role::{Role, Roles};
pub use spec::{Arity, Flag, Group, Keys, Right, Rights, Spec};
pub use table::{TABLE, every_command, find, named, number_of, parse};
