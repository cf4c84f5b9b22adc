//! Any HTTP service as the source: a row is what it answers under a URL of the key.
//!
//! ```text
//!  get     GET     200 → the row   404, 410 → none              everything else → an error with the status
//!  put     PUT     200, 201, 204   4xx, redirects → an error    202, 5xx, no answer → nobody knows
//!  delete  DELETE  200, 204 → was there   404, 410 → was not    the rest as for put
//!  scan    a list of keys, in a file or under a URL; without one the gate can only watch
//! ```
//!
//! HTTP/1.1 with connections kept alive, plain or over TLS, a deadline over each exchange, a limit on the size of rows.
//! Redirects are not followed: a source that has moved is a setting that is wrong.

mod key_list;
mod template;
mod written;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::http::uri::Scheme;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio_rustls::TlsConnector;

pub use key_list::KeyList;
use key_list::Spelling;
use template::Template;
use written::Journal;

use super::{KeyBatch, Scan, Source};
use crate::Pending;
use crate::dial::{self, Dial};
use crate::error::{Error, ErrorKind, Result};
use crate::key::{Key, KeyType};
use crate::rebuild::unless_silent;

/// An answer that is no row is read up to here, so that its connection can be used again.
const REST: usize = 64 << 10;

/// An HTTP service as the source.
///
/// ```
/// use bloomgate_gate::sources::{KeyList, Upstream};
/// use std::time::Duration;
///
/// let list = KeyList::Url("http://catalog:8080/products/all-keys".into());
/// let products = Upstream::new("http://catalog:8080/products/{key}", list)?
///     .deadline(Duration::from_millis(500))
///     .header("authorization", "Bearer of-the-gate")?;
/// # Ok::<(), bloomgate_gate::Error>(())
/// ```
///
/// Rows are JSON; an answer that is not is an error. What has no URL (an empty key, `.` and `..` in a path) is refused.
#[derive(Clone)]
pub struct Upstream {
    client: Client<Dial, Full<Bytes>>,
    /// What checks those that are asked over https.
    tls: Option<TlsConnector>,
    template: Template,
    keys: KeyList,
    /// That of the list, if it has one.
    list: Option<Uri>,
    /// What was written past a list in a file.
    written: Option<Arc<Journal>>,
    key_type: KeyType,
    /// Keys of the list are what its lines are, blanks and control characters included.
    as_listed: bool,
    headers: HeaderMap,
    deadline: Duration,
    longest_row: usize,
    at_once: usize,
    /// Rows are nobody's concern: an answer says whether there is one.
    existence: bool,
}

/// Making one.
impl Upstream {
    /// The service whose rows are under a URL with a place for the key, `http://catalog:8080/products/{key}`, and where all
    /// keys are listed. Keys are text, the deadline is 2 s, rows have at most 1 MiB, 16 of many are asked for at once.
    ///
    /// Over `https` the service must show a certificate for its host by an authority that the system knows.
    ///
    /// # Errors
    ///
    /// A URL that is neither `http` nor `https`, has no `{key}` behind its host, or has a password in it; for `https` a system
    /// without a file of authorities.
    pub fn new(url: &str, keys: KeyList) -> Result<Self> {
        Self::made(url, keys, None)
    }

    /// [`new`](Self::new), for services whose certificates are by an authority of this PEM file, and not by the system's.
    ///
    /// # Errors
    ///
    /// Those of `new`, a file without certificates, and URLs of which none is `https`: nothing would be checked.
    pub fn checked_by(authorities: &Path, url: &str, keys: KeyList) -> Result<Self> {
        Self::made(url, keys, Some(authorities))
    }

    fn made(url: &str, keys: KeyList, authorities: Option<&Path>) -> Result<Self> {
        let list = match &keys {
            KeyList::Url(url) => Some(template::plain(url)?),
            KeyList::None | KeyList::File(_) => None,
        };
        let written = match &keys {
            KeyList::File(path) => Some(Journal::beside(path)),
            KeyList::None | KeyList::Url(_) => None,
        };
        let template = Template::new(url)?;
        let asked = [Some(template.fill("a")?), list.clone()].into_iter().flatten();
        let secured: Vec<Uri> = asked.filter(|uri| uri.scheme() == Some(&Scheme::HTTPS)).collect();
        secured.iter().try_for_each(|uri| dial::name(uri.host().unwrap_or_default()).map(drop))?;
        let tls = match (secured.is_empty(), authorities) {
            (false, authorities) => Some(dial::tls(authorities, "source-ca")?),
            (true, None) => None,
            (true, Some(_)) => {
                let message =
                    "authorities are given, and nothing is asked over https: write https://, or leave them out";
                return Err(Error::new(ErrorKind::Invalid, message));
            }
        };
        let upstream = Self {
            written,
            client: client(tls.clone(), DEADLINE, AT_ONCE),
            tls,
            template,
            keys,
            list,
            key_type: KeyType::Text,
            as_listed: false,
            headers: HeaderMap::new(),
            deadline: DEADLINE,
            longest_row: 1 << 20,
            at_once: AT_ONCE,
            existence: false,
        };
        Ok(upstream)
    }

    /// The type of the keys: text unless it is said.
    #[must_use]
    pub fn keys_are(mut self, key_type: KeyType) -> Self {
        self.key_type = key_type;
        self
    }

    /// Takes the keys of the list as they are, also such with blanks at their ends or control characters in them. Unless this is
    /// said, a list with one is refused: it comes of how the list was made more often than of the keys, and the key that was
    /// meant would be told to be absent.
    #[must_use]
    pub fn keys_as_listed(mut self) -> Self {
        self.as_listed = true;
        self
    }

    fn spelling(&self) -> Spelling {
        Spelling { key_type: self.key_type, as_listed: self.as_listed }
    }

    /// How long an exchange may take in all, and a list may be silent.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline.max(Duration::from_millis(1));
        self.client = client(self.tls.clone(), self.deadline, self.at_once);
        self
    }

    /// The most bytes a row may have.
    #[must_use]
    pub fn longest_row(mut self, bytes: usize) -> Self {
        self.longest_row = bytes;
        self
    }

    /// Asks only whether a row is there, whatever it is: every answer of success says so, and its body is not read. For a gate
    /// whose lookups somebody else answers, as a proxy.
    #[must_use]
    pub fn only_existence(mut self) -> Self {
        self.existence = true;
        self
    }

    /// How many of many rows are asked for at once, and how many connections are kept; at least 1.
    #[must_use]
    pub fn at_once(mut self, requests: usize) -> Self {
        self.at_once = requests.max(1);
        self.client = client(self.tls.clone(), self.deadline, self.at_once);
        self
    }

    /// A header that goes with every request, as one that says who the gate is. Never shown.
    ///
    /// # Errors
    ///
    /// What cannot be a header.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self> {
        let refused =
            |what: &str| Error::new(ErrorKind::Invalid, format!("{what} of the header {name:?} is not allowed"));
        let parsed = HeaderName::try_from(name).map_err(|_| refused("the name"))?;
        let mut value = HeaderValue::try_from(value).map_err(|_| refused("the value"))?;
        value.set_sensitive(true);
        self.headers.insert(parsed, value);
        Ok(self)
    }
}

const DEADLINE: Duration = Duration::from_secs(2);
const AT_ONCE: usize = 16;

fn client(tls: Option<TlsConnector>, deadline: Duration, idle: usize) -> Client<Dial, Full<Bytes>> {
    // Sooner than the exchange: who could not connect has certainly sent nothing.
    let dial = Dial::new(tls, deadline / 2);
    Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).pool_max_idle_per_host(idle).build(dial)
}

impl fmt::Debug for Upstream {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Upstream")
            .field("template", &self.template.shown())
            .field("keys", &self.keys)
            .field("key_type", &self.key_type)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// An error and what caused it, in one line.
fn causes(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        line = format!("{line}: {cause}");
        next = cause.source();
    }
    line
}

/// Why there was no answer.
struct NoAnswer {
    /// Whether the request may have got there.
    sent: bool,
    message: String,
}

impl NoAnswer {
    /// To a question: nothing was changed.
    fn of_read(self) -> Error {
        Error::new(ErrorKind::Source, self.message)
    }

    /// To a write: if it was sent, nobody knows.
    fn of_write(self) -> Error {
        match self.sent {
            false => Error::new(ErrorKind::Source, self.message),
            true => Error::new(ErrorKind::Unknown, format!("{}; the write may have been done", self.message)),
        }
    }
}

impl Upstream {
    fn request(&self, method: Method, uri: Uri, body: Bytes) -> Request<Full<Bytes>> {
        let has_body = method == Method::PUT;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        let headers = request.headers_mut();
        headers.clone_from(&self.headers);
        // What is stored and served must be the row itself, not one coding of it.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if has_body {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        request
    }

    /// Sends a request and waits for the head of its answer.
    async fn head(&self, request: Request<Full<Bytes>>) -> std::result::Result<Response<Incoming>, NoAnswer> {
        self.client.request(request).await.map_err(|error| NoAnswer {
            sent: !error.is_connect(),
            message: format!("{}: {}", self.describe(), causes(&error)),
        })
    }

    /// One exchange within the deadline: the status, and the body if it is that of a row.
    async fn exchange(
        &self,
        method: Method,
        key: &Key,
        body: Bytes,
    ) -> std::result::Result<(StatusCode, Bytes), Failed> {
        let uri = self.template.fill(&self.key_type.show(key)).map_err(Failed::Refused)?;
        let row_wanted = method == Method::GET && !self.existence;
        let mut request = self.request(method, uri, body);
        if row_wanted {
            request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        }
        let whole = async {
            let answer = self.head(request).await?;
            let status = answer.status();
            if row_wanted && status == StatusCode::OK {
                return Ok((status, self.row(answer.into_body()).await?));
            }
            // The status is the answer; the rest is read for the sake of the connection alone.
            let rest = Limited::new(answer.into_body(), REST).collect();
            let _ = tokio::time::timeout(self.deadline / 2, rest).await;
            Ok((status, Bytes::new()))
        };
        match tokio::time::timeout(self.deadline, whole).await {
            Ok(done) => done.map_err(Failed::NoAnswer),
            Err(_) => Err(Failed::NoAnswer(NoAnswer {
                sent: true,
                message: format!("{}: no whole answer in {} ms", self.describe(), self.deadline.as_millis()),
            })),
        }
    }

    /// The row in an answer, up to the longest allowed.
    async fn row(&self, body: Incoming) -> std::result::Result<Bytes, NoAnswer> {
        let failed = |why: String| NoAnswer { sent: true, message: format!("{}: {why}", self.describe()) };
        let row = match Limited::new(body, self.longest_row).collect().await {
            Ok(row) => row.to_bytes(),
            Err(error) if error.is::<http_body_util::LengthLimitError>() => {
                return Err(failed(format!("a row of more than {} bytes: raise longest_row", self.longest_row)));
            }
            Err(error) => return Err(failed(format!("the row was cut off: {}", causes(&*error)))),
        };
        match serde_json::from_slice::<serde::de::IgnoredAny>(&row) {
            Ok(_) => Ok(row),
            Err(error) => Err(failed(format!("a row that is no JSON ({error}): answer rows as JSON"))),
        }
    }

    fn unexpected(&self, status: StatusCode) -> String {
        let advice = match status {
            status if status.is_redirection() => "redirects are not followed: set the URL that it leads to",
            StatusCode::TOO_MANY_REQUESTS => "the source asks for fewer requests",
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "give the header that it asks for",
            _ => "a row is answered with 200, its absence with 404 or 410",
        };
        format!("{} answered {status}: {advice}", self.describe())
    }

    fn takes_writes(&self) -> Result<()> {
        let KeyList::File(path) = &self.keys else { return Ok(()) };
        Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "the keys of this source are listed in the file {}, which would not have the change: nothing is written \
                 through the gate; list the keys by a URL instead",
                path.display()
            ),
        ))
    }

    /// An exchange that changes something; whether the row is or was there.
    async fn write(&self, method: Method, key: &Key, row: Bytes) -> Result<bool> {
        self.takes_writes()?;
        let deleting = method == Method::DELETE;
        let (status, _) = self.exchange(method, key, row).await.map_err(|failed| match failed {
            Failed::Refused(error) => error,
            Failed::NoAnswer(no_answer) => no_answer.of_write(),
        })?;
        match status {
            StatusCode::OK | StatusCode::NO_CONTENT => Ok(true),
            StatusCode::CREATED if !deleting => Ok(true),
            StatusCode::NOT_FOUND | StatusCode::GONE if deleting => Ok(false),
            // Accepted and not done yet; or it failed, and who knows where.
            status if status == StatusCode::ACCEPTED || status.is_server_error() => {
                let message =
                    format!("{} answered {status}: the write may have been done, or still be", self.describe());
                Err(Error::new(ErrorKind::Unknown, message))
            }
            status => Err(Error::new(ErrorKind::Source, self.unexpected(status))),
        }
    }

    /// What was written past the list.
    async fn past(&self) -> Result<Vec<Box<[u8]>>> {
        let Some(journal) = self.written.clone() else { return Ok(Vec::new()) };
        off_the_reactor(move || journal.keys()).await
    }

    async fn begin_scan(&self) -> Result<Box<dyn Scan>> {
        match (&self.keys, &self.list) {
            (KeyList::File(path), _) => {
                // Before the list: what is written from now on goes into the filter that is being built.
                let past = self.past().await?;
                Ok(Box::new(Both { list: key_list::scan_file(path.clone(), self.spelling()).await?, past }))
            }
            (KeyList::Url(url), Some(uri)) => {
                let mut request = self.request(Method::GET, uri.clone(), Bytes::new());
                // No cache on the way may answer in the service's place.
                request.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
                let shown = template::without_secrets(url);
                let answer = match tokio::time::timeout(self.deadline, self.head(request)).await {
                    Ok(answer) => answer.map_err(NoAnswer::of_read)?,
                    Err(_) => {
                        let waited = self.deadline.as_millis();
                        let message = format!("the list of keys {shown}: no answer in {waited} ms");
                        return Err(Error::new(ErrorKind::Source, message));
                    }
                };
                key_list::scan_answer(answer, &shown, self.spelling(), self.deadline)
            }
            (KeyList::None | KeyList::Url(_), _) => Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "{} has no list of its keys, and without one the gate can only watch: give it a file or a URL with one \
                     key a line",
                    self.describe()
                ),
            )),
        }
    }
}

/// A list, and what was written past it.
struct Both {
    list: Box<dyn Scan>,
    past: Vec<Box<[u8]>>,
}

impl Scan for Both {
    fn next<'a>(&'a mut self, batch: &'a mut KeyBatch) -> Pending<'a, Result<bool>> {
        Box::pin(async move {
            if self.list.next(batch).await? {
                return Ok(true);
            }
            batch.clear();
            self.past.drain(..).for_each(|key| batch.push(&key));
            Ok(!batch.is_empty())
        })
    }
}

/// Runs what waits for a disk where it holds nobody up.
async fn off_the_reactor<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(crate::gate::died)?
}

/// Why an exchange did not end with a status.
enum Failed {
    /// Before it began.
    Refused(Error),
    NoAnswer(NoAnswer),
}

impl Source for Upstream {
    fn describe(&self) -> String {
        format!("upstream {}", self.template.shown())
    }

    fn key_type(&self) -> KeyType {
        self.key_type
    }

    fn get<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<Option<Bytes>>> {
        Box::pin(async move {
            let (status, row) = self.exchange(Method::GET, key, Bytes::new()).await.map_err(|failed| match failed {
                Failed::Refused(error) => error,
                Failed::NoAnswer(no_answer) => no_answer.of_read(),
            })?;
            match status {
                StatusCode::OK => Ok(Some(row)),
                status if self.existence && status.is_success() => Ok(Some(row)),
                StatusCode::NOT_FOUND | StatusCode::GONE => Ok(None),
                status => Err(Error::new(ErrorKind::Source, self.unexpected(status))),
            }
        })
    }

    fn get_many<'a>(&'a self, keys: &'a [Key]) -> Pending<'a, Result<Vec<Option<Bytes>>>> {
        Box::pin(stream::iter(keys).map(|key| self.get(key)).buffered(self.at_once).try_collect())
    }

    fn lists_keys(&self) -> bool {
        !matches!(self.keys, KeyList::None)
    }

    fn keys_are_listed(&self) -> bool {
        self.lists_keys()
    }

    fn check_rows<'a>(&'a self, rows: &'a [(Key, Bytes)]) -> Pending<'a, Result<()>> {
        let check = || {
            self.takes_writes()?;
            for (key, row) in rows {
                self.template.fill(&self.key_type.show(key))?;
                serde_json::from_slice::<serde::de::IgnoredAny>(row)
                    .map_err(|error| Error::new(ErrorKind::Invalid, format!("the row is no JSON: {error}")))?;
            }
            Ok(())
        };
        Box::pin(std::future::ready(check()))
    }

    /// Each key is a request of its own.
    fn weight(&self, keys: usize) -> usize {
        keys.min(self.at_once)
    }

    /// One row: HTTP has no way to write several, all or none, and so several are refused.
    fn put_many<'a>(&'a self, rows: &'a [(Key, Bytes)]) -> Pending<'a, Result<()>> {
        Box::pin(async move {
            match rows {
                [] => Ok(()),
                [(key, row)] => self.write(Method::PUT, key, row.clone()).await.map(drop),
                several => Err(Error::new(
                    ErrorKind::Unsupported,
                    format!(
                        "{} rows at once: an HTTP source cannot write several, all or none; put them one by one",
                        several.len()
                    ),
                )),
            }
        })
    }

    fn delete<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<bool>> {
        Box::pin(self.write(Method::DELETE, key, Bytes::new()))
    }

    /// Reads the whole list.
    fn count(&self) -> Pending<'_, Result<u64>> {
        Box::pin(async move {
            let mut scan = unless_silent(self.begin_scan()).await?;
            let (mut batch, mut count) = (KeyBatch::default(), 0);
            while unless_silent(scan.next(&mut batch)).await? {
                count += batch.len() as u64;
            }
            Ok(count)
        })
    }

    fn scan(&self) -> Pending<'_, Result<Box<dyn Scan>>> {
        Box::pin(self.begin_scan())
    }

    fn announced<'a>(&'a self, keys: &'a [Key]) -> Pending<'a, Result<()>> {
        let Some(journal) = self.written.clone() else { return Box::pin(std::future::ready(Ok(()))) };
        let keys = keys.to_vec();
        Box::pin(off_the_reactor(move || journal.note(&keys)))
    }

    fn ended<'a>(&'a self, keys: &'a [Key], refused: bool) -> Pending<'a, Result<()>> {
        let Some(journal) = self.written.clone() else { return Box::pin(std::future::ready(Ok(()))) };
        let keys = keys.to_vec();
        Box::pin(off_the_reactor(move || journal.ended(&keys, refused)))
    }

    fn announced_unnamed(&self) -> Pending<'_, Result<Option<u64>>> {
        let Some(journal) = self.written.clone() else { return Box::pin(std::future::ready(Ok(None))) };
        Box::pin(off_the_reactor(move || journal.begin_unnamed().map(Some)))
    }

    fn ended_unnamed(&self, mark: u64) -> Pending<'_, Result<()>> {
        let Some(journal) = self.written.clone() else { return Box::pin(std::future::ready(Ok(()))) };
        Box::pin(off_the_reactor(move || journal.end_unnamed(mark)))
    }

    fn missed_write(&self) -> Pending<'_, Result<()>> {
        let Some(journal) = self.written.clone() else { return Box::pin(std::future::ready(Ok(()))) };
        Box::pin(off_the_reactor(move || journal.note_missed()))
    }
}
