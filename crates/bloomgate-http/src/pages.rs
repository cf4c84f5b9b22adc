//! The dashboard: static files inside the binary. No build step, nothing from elsewhere, nothing inline.
//!
//! One page, `index.html`, draws all others with modules of plain JavaScript, so a service that has a dashboard asks
//! [`answer`] for every path that is not its own. What the pages ask of the service is in `dashboard/api.js` and
//! `dashboard/pages/`; `scripts/test-pages` runs them in a browser.
//!
//! Whoever serves them serves strangers too, before any login: there is nothing in them but text that everybody may read.

use std::sync::LazyLock;

use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use ring::digest::{SHA256, digest};

use crate::runbook;

/// What a page may do: load files of its own origin and ask it, nothing else. Text can never become a script: the browser
/// refuses every place where it could.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// What else is nobody's business.
const PERMISSIONS: &str = "camera=(), geolocation=(), microphone=(), payment=(), usb=()";

/// A file, where it is served, and what it is.
struct Page {
    path: &'static str,
    bytes: &'static [u8],
    media_type: &'static str,
    /// Of its bytes: another build that changed nothing in it is not fetched again.
    tag: HeaderValue,
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

/// Names the files once: where each is in the folder is where it is served.
macro_rules! pages {
    ($($name:literal $media_type:expr;)*) => {
        [$(Page::new(concat!("/", $name), include_bytes!(concat!("../dashboard/", $name)), $media_type)),*]
    };
}

static PAGES: LazyLock<Vec<Page>> = LazyLock::new(|| {
    Vec::from(pages! {
        "index.html" HTML;
        "style.css" STYLE;
        "icon.svg" PICTURE;
        "theme.js" SCRIPT;
        "alerts.js" SCRIPT;
        "app.js" SCRIPT;
        "api.js" SCRIPT;
        "chart.js" SCRIPT;
        "curve.js" SCRIPT;
        "dom.js" SCRIPT;
        "forecast.js" SCRIPT;
        "format.js" SCRIPT;
        "funnel.js" SCRIPT;
        "live.js" SCRIPT;
        "parts.js" SCRIPT;
        "plan.js" SCRIPT;
        "promise.js" SCRIPT;
        "scale.js" SCRIPT;
        "sizing.js" SCRIPT;
        "sketch.js" SCRIPT;
        "stream.js" SCRIPT;
        "terminal.js" SCRIPT;
        "words.js" SCRIPT;
        "pages/advice.js" SCRIPT;
        "pages/attack.js" SCRIPT;
        "pages/filter.js" SCRIPT;
        "pages/filters.js" SCRIPT;
        "pages/gate.js" SCRIPT;
        "pages/how.js" SCRIPT;
        "pages/overview.js" SCRIPT;
        "pages/planner.js" SCRIPT;
        "pages/workbench.js" SCRIPT;
    })
});

/// What is to be done about alerts: no file of the folder, and linked to by alerts alone.
static RUNBOOK: LazyLock<Page> = LazyLock::new(|| Page::new(runbook::PATH, runbook::PAGE.as_bytes(), HTML));

impl Page {
    fn new(path: &'static str, bytes: &'static [u8], media_type: &'static str) -> Self {
        let sum = digest(&SHA256, bytes);
        let digits: String = sum.as_ref().iter().take(12).map(|byte| format!("{byte:02x}")).collect();
        let tag = HeaderValue::try_from(format!("\"{digits}\"")).unwrap_or(HeaderValue::from_static("\"\""));
        Self { path, bytes, media_type, tag }
    }
}

/// The file of the dashboard at this path, for GET and HEAD; `/` is its page. Nothing if there is none.
///
/// ```
/// use axum::http::HeaderMap;
/// let page = bloomgate_http::pages::answer("/", &HeaderMap::new()).unwrap();
/// assert_eq!(page.headers()["content-type"], "text/html; charset=utf-8");
/// assert!(bloomgate_http::pages::answer("/v1/filters", &HeaderMap::new()).is_none());
/// ```
#[must_use]
pub fn answer(path: &str, headers: &HeaderMap) -> Option<Response<Body>> {
    let path = if path == "/" { "/index.html" } else { path };
    let page = if path == runbook::PATH { &*RUNBOOK } else { PAGES.iter().find(|page| page.path == path)? };
    let known = headers.get_all(IF_NONE_MATCH).iter().any(|value| matches(value, &page.tag));
    let mut response = Response::new(if known { Body::empty() } else { Body::from(page.bytes) });
    if known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let head = response.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, page.media_type),
        // Kept, and asked about each time: after an upgrade no page speaks to a server it does not know.
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), PERMISSIONS),
    ] {
        head.insert(name, HeaderValue::from_static(value));
    }
    head.insert(ETAG, page.tag.clone());
    Some(response)
}

/// Whether a list of tags names this one. A weak tag is as good: the bytes are the same.
fn matches(list: &HeaderValue, tag: &HeaderValue) -> bool {
    let (Ok(list), Ok(tag)) = (list.to_str(), tag.to_str()) else { return false };
    list.split(',').map(str::trim).any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    fn text(page: &Page) -> &'static str {
        std::str::from_utf8(page.bytes).unwrap()
    }

    fn files_in(folder: &Path, under: &str, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{under}/{}", entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                files_in(&entry.path(), &name, found);
            } else {
                found.insert(name);
            }
        }
    }

    #[test]
    fn every_file_of_the_folder_is_served_and_nothing_else() {
        let mut there = BTreeSet::new();
        files_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("dashboard"), "", &mut there);
        let served: BTreeSet<String> = PAGES.iter().map(|page| page.path.to_owned()).collect();
        assert_eq!(there, served);
        for path in ["", "index.html", "/pages", "/pages/", "/../Cargo.toml", "/INDEX.HTML", "/app.js/", "//app.js"] {
            assert!(answer(path, &HeaderMap::new()).is_none(), "{path}");
        }
    }

    /// What a file names of the others: `src="app.js"`, `from "../dom.js"`, `import("./pages/how.js")`.
    fn named_by(page: &Page) -> BTreeSet<String> {
        let folder = page.path.rsplit_once('/').unwrap().0;
        let mut named = BTreeSet::new();
        for quoted in text(page).split('"').skip(1).step_by(2) {
            let is_file = [".js", ".css", ".svg"].iter().any(|end| quoted.ends_with(end));
            if !is_file || quoted.contains(char::is_whitespace) {
                continue;
            }
            named.insert(match quoted.strip_prefix("../") {
                Some(above) => format!("/{above}"),
                None => format!("{folder}/{}", quoted.trim_start_matches("./")),
            });
        }
        named
    }

    #[test]
    fn every_file_is_reached_from_the_page_and_every_name_is_a_file() {
        let mut reached = BTreeSet::from(["/index.html".to_owned()]);
        let mut left: Vec<String> = reached.iter().cloned().collect();
        while let Some(path) = left.pop() {
            let page =
                PAGES.iter().find(|page| page.path == path).unwrap_or_else(|| panic!("{path} is named, and not there"));
            left.extend(named_by(page).into_iter().filter(|name| reached.insert(name.clone())));
        }
        let served: BTreeSet<String> = PAGES.iter().map(|page| page.path.to_owned()).collect();
        assert_eq!(reached, served);
    }

    #[test]
    fn nothing_comes_from_elsewhere_and_nothing_is_inline() {
        for page in PAGES.iter() {
            // The names of XML are no addresses that anybody fetches.
            let text = text(page).replace("http://www.w3.org/2000/svg", "");
            for outside in ["http://", "https://", "//cdn", "@import", "url(\"", "url('", "integrity="] {
                assert!(!text.contains(outside), "{} has {outside}", page.path);
            }
            for unsafe_way in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "new Function",
                "srcdoc",
                "javascript:",
                "setAttribute(\"style\"",
                "setAttribute('style'",
                "unsafe-",
            ] {
                assert!(!text.contains(unsafe_way), "{} has {unsafe_way}", page.path);
            }
            if page.media_type == HTML {
                assert!(
                    !text.contains("<style") && !text.contains(" style=") && !text.contains(" on"),
                    "{}",
                    page.path
                );
                for script in text.split("<script").skip(1) {
                    assert!(script.contains("src=") && script.contains("></script>"), "{}: inline script", page.path);
                }
            }
        }
    }

    #[test]
    fn pages_are_small() {
        let all: usize = PAGES.iter().map(|page| page.bytes.len()).sum();
        assert!(all < 250_000, "{all} bytes");
    }

    #[test]
    fn every_answer_is_guarded() {
        for page in PAGES.iter().chain([&*RUNBOOK]) {
            let response = answer(page.path, &HeaderMap::new()).unwrap();
            let head = response.headers();
            assert_eq!(response.status(), StatusCode::OK);
            assert_eq!(head[CONTENT_TYPE], page.media_type);
            let policy = head[CONTENT_SECURITY_POLICY].to_str().unwrap();
            assert!(policy.starts_with("default-src 'none'; script-src 'self';") && !policy.contains("unsafe-"));
            assert!(!policy.contains('*') && policy.contains("frame-ancestors 'none'"));
            assert_eq!(head[X_CONTENT_TYPE_OPTIONS], "nosniff");
            assert_eq!(head[REFERRER_POLICY], "no-referrer");
            assert_eq!(head[CACHE_CONTROL], "no-cache");
        }
    }

    #[test]
    fn what_is_known_is_not_sent_again() {
        let first = answer("/app.js", &HeaderMap::new()).unwrap();
        let tag = first.headers()[ETAG].to_str().unwrap().to_owned();
        assert_eq!(tag.len(), 26);
        assert_ne!(tag, answer("/api.js", &HeaderMap::new()).unwrap().headers()[ETAG].to_str().unwrap());
        let asked = |value: &str| {
            let headers = HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::try_from(value).unwrap())]);
            answer("/app.js", &headers).unwrap().status()
        };
        for known in [tag.clone(), format!("W/{tag}"), format!("\"a\", {tag}"), "*".to_owned()] {
            assert_eq!(asked(&known), StatusCode::NOT_MODIFIED, "{known}");
        }
        for other in ["\"a\"", "", "a", &tag[1..]] {
            assert_eq!(asked(other), StatusCode::OK, "{other}");
        }
    }
}
