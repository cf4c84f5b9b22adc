//! The headers of requests and answers that carry a meaning of ours, beside those that every message of HTTP has. Handlers read
//! them by what stands here, and the OpenAPI description is made of it.

/// What may stand in a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Any text.
    Text,
    /// A text of this form; what has another is as if the header was not there, or refused.
    Like(&'static str),
    /// This text alone.
    Only(&'static str),
    /// A whole number.
    Whole,
}

/// A header.
#[derive(Debug, Clone, Copy)]
pub struct Header {
    /// Its name, as people write it.
    pub name: &'static str,
    /// What may stand in it.
    pub form: Form,
    /// One line about it.
    pub about: &'static str,
}

const fn header(name: &'static str, form: Form, about: &'static str) -> Header {
    Header { name, form, about }
}

/// One tag or several: `"64 hexadecimal digits"`, or `*`.
const TAGS: Form = Form::Like(r#"^(\*|(W/)?"[0-9a-f]{64}"( *, *(W/)?"[0-9a-f]{64}")*)$"#);
/// One tag.
const TAG: Form = Form::Like(r#"^"[0-9a-f]{64}"$"#);

/// What is fetched only if it is another one than the client has.
pub(super) const UNLESS_SAME: Header =
    header("If-None-Match", TAGS, "Tags of files that you have: 304 if the filter's file is one of them.");
/// What is written only where nothing is.
pub(super) const UNLESS_THERE: Header =
    header("If-None-Match", Form::Only("*"), "412 if there is a filter of this name.");
/// What is done only if the filter is the one that the client thinks it is.
pub(super) const IF_MATCH: Header =
    header("If-Match", TAGS, "Tags, or * for any: 412 if the filter's file is none of them.");
/// A part of a file.
pub(super) const RANGE: Header = header(
    "Range",
    Form::Like("^bytes=([0-9]+-[0-9]*|-[0-9]+)$"),
    "One range of bytes, answered with 206; several ranges and other units are answered with all of it.",
);
/// The file that a range is of.
pub(super) const IF_RANGE: Header = header(
    "If-Range",
    TAG,
    "The tag of the file that the range is of: while that is kept the range is one of it, and all of the file of now is given \
     after that. Without one range it says nothing.",
);
/// The address of a body, for whoever wants it checked.
pub(super) const CONTENT_ADDRESS: Header = header(
    "Content-Address",
    Form::Like(r#"^"?[0-9A-Fa-f]{64}"?$"#),
    "The BLAKE3 of the body: 412 if that is another one. With an Idempotency-Key the body is known by it, and may be longer \
     than 1 MiB.",
);
/// The key of a write.
pub(super) const IDEMPOTENCY_KEY: Header = header(
    "Idempotency-Key",
    Form::Like("^[!-~]{1,128}$"),
    "The same key with the same request of the same user within ten minutes gets the same answer.",
);

/// The tag of a file.
pub(super) const ETAG: Header = header("ETag", TAG, "The content address of the file: the BLAKE3 of its bytes.");
/// Which part of a file it is.
pub(super) const CONTENT_RANGE: Header = header(
    "Content-Range",
    Form::Like("^bytes [0-9]+-[0-9]+/[0-9]+$"),
    "The first byte, the last one, and how many there are in all.",
);
/// Of what there are parts.
pub(super) const NO_RANGE: Header =
    header("Content-Range", Form::Like(r"^bytes \*/[0-9]+$"), "How many bytes there are in all.");
/// That parts are to be had.
pub(super) const ACCEPT_RANGES: Header =
    header("Accept-Ranges", Form::Only("bytes"), "Ranges of bytes may be asked for.");
/// Where what was made is.
pub(super) const LOCATION: Header = header("Location", Form::Like("^/v1/filters/.+$"), "The path of the filter.");
/// When to come again.
pub(super) const RETRY_AFTER: Header =
    header("Retry-After", Form::Whole, "Seconds after which it is worth another try.");
/// That it is the answer of before.
pub(super) const REPLAYED: Header = header(
    "Idempotency-Replayed",
    Form::Only("true"),
    "This is the answer to a request with the same Idempotency-Key, given again; nothing was done.",
);
/// How to log in.
pub(super) const CHALLENGE: Header = header("WWW-Authenticate", Form::Text, "How to log in.");
/// What may be done instead.
pub(super) const ALLOW: Header = header("Allow", Form::Text, "The methods that are allowed here.");

/// A header of the answers with one of these statuses.
#[derive(Debug, Clone, Copy)]
pub struct Sends {
    /// Which.
    pub header: Header,
    /// The statuses.
    pub on: &'static [u16],
}

/// A header that answers with these statuses always have.
pub(super) const fn sends(header: Header, on: &'static [u16]) -> Sends {
    Sends { header, on }
}

/// The headers that an answer of any route has by its status, and whether always.
pub(super) fn of_status(status: u16, is_write: bool) -> Vec<(Header, bool)> {
    let mut headers = match status {
        401 => vec![(CHALLENGE, true)],
        405 => vec![(ALLOW, true)],
        // Of a key whose request is under way, and not of a name that is taken.
        409 if is_write => vec![(RETRY_AFTER, false)],
        429 | 503 => vec![(RETRY_AFTER, true)],
        _ => Vec::new(),
    };
    // Answers that are kept, so not those that say that now is not the time, or that not all of the request arrived.
    if is_write && status < 500 && !matches!(status, 401 | 405 | 408 | 429) {
        headers.push((REPLAYED, false));
    }
    headers
}
