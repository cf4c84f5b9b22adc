//! The table of routes: what stands under which path, who may ask for it, and what goes in and comes out. The router and the
//! OpenAPI description are made of it.

use std::pin::Pin;
use std::sync::Arc;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{Method, Response};

use bloomgate_http::problem::Problem;

use super::headers::{
    ACCEPT_RANGES, CONTENT_ADDRESS, CONTENT_RANGE, ETAG, Header, IF_MATCH, IF_RANGE, LOCATION, NO_RANGE, RANGE, Sends,
    UNLESS_SAME, UNLESS_THERE, sends,
};
use super::serving::House;
use super::visit::{self, Visit};
use super::{
    Answer, advice, bringing, bulk, events, files, filters, inside, items, overview, plan, sets, tenants, workbench,
};
use crate::session::tolls;

/// Who may ask.
pub enum Who {
    /// Anybody, also without a login: this tells it.
    Anybody(fn(&Arc<House>, &Parts) -> Response<Body>),
    /// Whoever has this role, in words; the commands behind it decide.
    User(&'static str),
}

/// Something in the query: handlers read it as it stands here, and are given nothing else.
#[derive(Debug, Clone, Copy)]
pub struct Asks {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub takes: Takes,
    /// What it is unless somebody says another.
    pub usual: Option<&'static str>,
    /// Whether it must be there.
    pub is_needed: bool,
    /// One line about it.
    pub about: &'static str,
}

/// What something in the query is.
#[derive(Debug, Clone, Copy)]
pub enum Takes {
    /// Any text.
    Text,
    /// The address of a file.
    Address,
    /// A whole number from the first to the second.
    Whole(u64, u64),
    /// Any number.
    Number,
    /// Yes or no.
    Truth,
    /// One of these words.
    Words(&'static [&'static str]),
}

/// What goes in, or comes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Nothing.
    Nothing,
    /// JSON of this name among the schemas.
    Json(&'static str),
    /// Keys in any form, or their answers as JSON of this name, in lines, or a bitmap.
    Keys(&'static str),
    /// A file of this type.
    File(&'static str),
    /// Lines of text.
    Text,
}

/// A handler that is running.
pub(super) type Running<'v> = Pin<Box<dyn Future<Output = Answer> + Send + 'v>>;

/// One route.
pub struct Route {
    /// The method; where it is GET, HEAD is answered too.
    pub method: &'static Method,
    /// The path, with `{name}` for what may stand there.
    pub path: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// Who may ask.
    pub who: Who,
    /// What may stand in the query.
    pub query: &'static [Asks],
    /// The headers that it reads, beside those that every route does.
    pub reads: &'static [Header],
    /// The headers that its answers have, beside those that every answer has.
    pub sends: &'static [Sends],
    /// The body of the request.
    pub takes: Shape,
    /// The status and body of the answer when all is well.
    pub gives: (u16, Shape),
    /// Problems beside those that every route has.
    pub problems: &'static [u16],
    /// What it costs a bound user beside the commands behind it, in items.
    pub(super) costs: u64,
    pub(super) run: for<'v> fn(&'v mut Visit) -> Running<'v>,
}

impl Route {
    /// A route that anybody may ask for.
    const fn open(
        path: &'static str,
        tell: fn(&Arc<House>, &Parts) -> Response<Body>,
        gives: Shape,
        about: &'static str,
    ) -> Self {
        // Never called: it is told without a login.
        let run: for<'v> fn(&'v mut Visit) -> Running<'v> =
            |_| Box::pin(std::future::ready(Err(Problem::internal("this is told to anybody"))));
        let route = Self::new(&Method::GET, path, "", run, (Shape::Nothing, (200, gives)), about);
        Self { who: Who::Anybody(tell), ..route }
    }

    /// A route for users with a role.
    const fn new(
        method: &'static Method,
        path: &'static str,
        role: &'static str,
        run: for<'v> fn(&'v mut Visit) -> Running<'v>,
        (takes, gives): (Shape, (u16, Shape)),
        about: &'static str,
    ) -> Self {
        let who = Who::User(role);
        let costs = tolls::TELLING;
        Self { method, path, about, who, query: &[], reads: &[], sends: &[], takes, gives, problems: &[], costs, run }
    }

    /// What it does is done by commands, which are paid for as they are.
    const fn by_commands(self) -> Self {
        self.costs(0)
    }

    /// What it costs beside them; unless it says so, as much as a command about no filter.
    const fn costs(mut self, items: u64) -> Self {
        self.costs = items;
        self
    }

    /// The headers that it reads.
    const fn reads(mut self, reads: &'static [Header]) -> Self {
        self.reads = reads;
        self
    }

    /// The headers that its answers have.
    const fn sends(mut self, sends: &'static [Sends]) -> Self {
        self.sends = sends;
        self
    }

    /// What may stand in its query.
    const fn query(mut self, query: &'static [Asks]) -> Self {
        self.query = query;
        self
    }

    /// Problems beside those that every route has.
    const fn problems(mut self, problems: &'static [u16]) -> Self {
        self.problems = problems;
        self
    }
}

const fn asks(name: &'static str, takes: Takes, about: &'static str) -> Asks {
    Asks { name, takes, usual: None, is_needed: false, about }
}

/// The same, with what it is unless somebody says another.
const fn usually(name: &'static str, takes: Takes, usual: &'static str, about: &'static str) -> Asks {
    Asks { usual: Some(usual), ..asks(name, takes, about) }
}

/// The same of something that must be there.
const fn needs(name: &'static str, takes: Takes, about: &'static str) -> Asks {
    Asks { is_needed: true, ..asks(name, takes, about) }
}

/// What the answers with a file have.
const FILE: [Sends; 4] = [
    sends(ETAG, &[200, 206, 304]),
    sends(ACCEPT_RANGES, &[200, 206]),
    sends(CONTENT_RANGE, &[206]),
    sends(NO_RANGE, &[416]),
];
/// Any whole number.
const ANY: Takes = Takes::Whole(0, u64::MAX);

use Shape::{Json, Keys, Nothing, Text};
use Takes::{Address, Number, Truth, Whole, Words};

/// Every route.
pub static ROUTES: &[Route] = &[
    Route::open("/healthz", visit::healthz, Text, "Whether the process is alive."),
    Route::open("/readyz", visit::readyz, Text, "Whether it may be sent traffic: loaded, not stopping, the store writable."),
    Route::open("/about.json", overview::about, Json("About"), "Which process this is."),
    Route::new(&Method::GET, "/metrics", "read", |visit| Box::pin(overview::metrics(visit)), (Nothing, (200, Text)), "Metrics for Prometheus, in its text form or as OpenMetrics."),
    Route::open("/openapi.json", visit::openapi, Shape::File("application/json"), "This description."),
    Route::new(&Method::GET, "/v1/filters", "read", |visit| Box::pin(filters::list(visit)), (Nothing, (200, Json("FilterList"))),
        "The filters there are, with their figures, by pages.").query(&[
            asks("match", Takes::Text, "Only names that match this pattern (`shop:*`), of at most 256 bytes."),
            asks("kind", Takes::Text, "Only filters of this kind."),
            usually("sort", Words(filters::SORTS), "name", "What the list is sorted by. `asked`, `rate` and `measured` are the promised, the expected and the measured rate; `bits` is what an item costs that it has room for, once it is half full one that is in it."),
            usually("order", Words(&["asc", "desc"]), "asc", "Rising or falling."),
            usually("offset", ANY, "0", "How many to leave out."),
            usually("limit", Whole(1, filters::LONGEST_PAGE), "100", "How many to tell."),
        ]).costs(tolls::LONG),
    Route::new(&Method::POST, "/v1/filters", "write", |visit| Box::pin(filters::create(visit)), (Json("NewFilter"), (201, Json("Written"))),
        "Makes an empty filter, as BG.CREATE does.").sends(&[sends(LOCATION, &[201])]).problems(&[404, 409, 422]).by_commands(),
    Route::new(&Method::GET, "/v1/filters/{name}", "read", |visit| Box::pin(filters::describe(visit)), (Nothing, (200, Json("Filter"))),
        "Everything about a filter; its bits are counted and probed now.").problems(&[404, 422]),
    Route::new(&Method::DELETE, "/v1/filters/{name}", "delete", |visit| Box::pin(filters::delete(visit)), (Nothing, (204, Nothing)),
        "Deletes a filter.").problems(&[404, 422]).by_commands(),
    Route::new(&Method::PATCH, "/v1/filters/{name}", "delete", |visit| Box::pin(filters::change(visit)), (Json("FilterChange"), (200, Json("Written"))),
        "Gives a filter another name, or another end. An end in the past deletes it (204).").problems(&[204, 404, 409, 422]).by_commands(),
    Route::new(&Method::GET, "/v1/filters/{name}/keys/{key}", "read", |visit| Box::pin(items::check(visit)), (Nothing, (200, Json("KeyAnswer"))),
        "Whether a key is definitely not in the filter, or maybe. 404 is said of the filter alone.").problems(&[404, 422]).by_commands(),
    Route::new(&Method::PUT, "/v1/filters/{name}/keys/{key}", "write", |visit| Box::pin(items::add(visit)), (Nothing, (200, Json("KeyAdded"))),
        "Adds a key.").problems(&[404, 422]).by_commands(),
    Route::new(&Method::DELETE, "/v1/filters/{name}/keys/{key}", "delete", |visit| Box::pin(items::remove(visit)), (Nothing, (200, Json("KeyRemoved"))),
        "Takes one copy of a key out (counting, cuckoo and quotient filters).").problems(&[404, 422]).by_commands(),
    Route::new(&Method::GET, "/v1/filters/{name}/keys/{key}/count", "read", |visit| Box::pin(items::count(visit)), (Nothing, (200, Json("KeyCount"))),
        "How often a key may have been added, never less than it was (counting, cuckoo and quotient filters).").problems(&[404, 422]).by_commands(),
    Route::new(&Method::POST, "/v1/filters/{name}/check", "read", |visit| Box::pin(bulk::check(visit)), (Keys("Keys"), (200, Keys("Checked"))),
        "Asks for many keys.").problems(&[404, 422]).by_commands(),
    Route::new(&Method::POST, "/v1/filters/{name}/add", "write", |visit| Box::pin(bulk::add(visit)), (Keys("Keys"), (200, Keys("Added"))),
        "Adds many keys. Those that the filter has no room for are refused, the others are added: as a bitmap, which cannot say which, that is 422.").problems(&[404, 422]).by_commands(),
    Route::new(&Method::POST, "/v1/filters/{name}/remove", "delete", |visit| Box::pin(bulk::remove(visit)), (Keys("Keys"), (200, Keys("Removed"))),
        "Takes one copy of each of many keys out.").problems(&[404, 422]).by_commands(),
    Route::new(&Method::POST, "/v1/filters/{name}/feedback", "delete", |visit| Box::pin(bulk::feedback(visit)), (Keys("Keys"), (200, Json("Reported"))),
        "Reports keys that the filter takes for present and that a look at the data has just proved absent (BG.FEEDBACK).").problems(&[404, 422]).by_commands(),
    Route::new(&Method::POST, "/v1/filters/{name}/merge", "write", |visit| Box::pin(sets::merge(visit)), (Json("Merge"), (200, Json("Written"))), "Adds all items of other filters of the same shape and contract; makes the filter if there is none.").problems(&[404, 422]).by_commands(),
    Route::new(&Method::POST, "/v1/filters/{name}/intersect", "delete", |visit| Box::pin(sets::intersect(visit)), (Json("Intersect"), (200, Json("Written"))), "Makes the filter of what two others both have.").problems(&[404, 422]).by_commands(),
    Route::new(&Method::POST, "/v1/filters/{name}/copy", "write", |visit| Box::pin(sets::copy(visit)), (Json("Copy"), (200, Json("Written"))), "Copies the filter as it is at one instant; tells of the copy.").problems(&[404, 409, 422]).by_commands(),
    Route::new(&Method::POST, "/v1/filters/{name}/swap", "delete", |visit| Box::pin(sets::swap(visit)), (Json("Swap"), (200, Json("Written"))), "Exchanges the names of two filters at one instant.").problems(&[404, 422]).by_commands(),
    Route::new(&Method::POST, "/v1/filters/{name}/fold", "write", |visit| Box::pin(sets::fold(visit)), (Json("Fold"), (200, Json("Written"))), "Makes the filter smaller, by a factor or as far as a rate allows.").problems(&[404, 422]).by_commands(),
    Route::new(&Method::GET, "/v1/filters/{name}/heat", "read", |visit| Box::pin(inside::heat(visit)), (Nothing, (200, Json("Heat"))), "How full stretches of the filter's bits are.").query(&[usually("cells", Whole(1, 4_096), "256", "How many stretches.")]).problems(&[404, 422]).costs(tolls::LONG),
    Route::new(&Method::GET, "/v1/filters/{name}/explain", "read", |visit| Box::pin(inside::explain(visit)), (Nothing, (200, Json("Explanation"))), "What a key finds in the filter: its digest, lines and bits.").query(&[asks("key", Takes::Text, "The key. This or key_base64 must be there, and not both."), asks("key_base64", Takes::Text, "The key in base64, where it is no text.")]).problems(&[404, 422]).costs(tolls::LONG),
    Route::new(&Method::GET, "/v1/filters/{name}/audit", "read", |visit| Box::pin(sets::audit(visit)), (Nothing, (200, Json("Counters"))), "What was asked and answered.").problems(&[404, 422]).by_commands(),
    Route::new(&Method::POST, "/v1/filters/{name}/audit/reset", "admin", |visit| Box::pin(sets::reset(visit)), (Nothing, (200, Json("Counters"))), "The same, and from zero again; needs the role read too.").problems(&[404, 422]).by_commands(),
    Route::new(&Method::GET, "/v1/filters/{name}/snapshot", "read", |visit| Box::pin(files::snapshot(visit)), (Nothing, (200, Shape::File(files::FILTER))), "The filter as its file; its tag is its content address.").reads(&[UNLESS_SAME, IF_MATCH, RANGE, IF_RANGE]).sends(&FILE).problems(&[206, 304, 404, 412, 416, 422, 507]).costs(tolls::LONG),
    Route::new(&Method::PUT, "/v1/filters/{name}/snapshot", "write", |visit| Box::pin(bringing::bring(visit)), (Shape::File(files::FILTER), (201, Json("Written"))), "Makes the filter from a file, or replaces it (200; needs the role delete), when all of it is there and right.").reads(&[UNLESS_THERE, IF_MATCH, CONTENT_ADDRESS]).sends(&[sends(ETAG, &[200, 201])]).problems(&[200, 412, 422, 507]).costs(tolls::LONG),
    Route::new(&Method::GET, "/v1/filters/{name}/snapshot/{address}", "read", |visit| Box::pin(files::by_address(visit)), (Nothing, (200, Shape::File(files::FILTER))), "A file that was given out, by its address, for an hour.").reads(&[RANGE]).sends(&FILE).problems(&[206, 404, 416, 422]).costs(tolls::LONG),
    Route::new(&Method::GET, "/v1/filters/{name}/delta", "read", |visit| Box::pin(files::delta(visit)), (Nothing, (200, Shape::File(files::DELTA))), "What makes a file that was given out into the one of now; its tag is the address it leads to.").query(&[needs("since", Address, "The address of the file that you have: 64 hexadecimal digits, as ETag of a snapshot has it.")]).sends(&[sends(ETAG, &[200])]).problems(&[404, 422, 507]).costs(tolls::LONG),
    Route::new(&Method::GET, "/v1/overview", "read", |visit| Box::pin(overview::overview(visit)), (Nothing, (200, Json("Overview"))), "The server at a glance; of a bound user the namespace."),
    Route::new(&Method::GET, "/v1/alerts", "read", |visit| Box::pin(overview::alerts(visit)), (Nothing, (200, Json("Alerts"))), "What is wrong now; docs/runbook.md has a section for each."),
    Route::new(&Method::GET, "/v1/advice", "read", |visit| Box::pin(advice::advise(visit)), (Nothing, (200, Json("Advices"))), "What could be better, why, and the command that does it.").costs(tolls::LONG),
    Route::new(&Method::GET, "/v1/whoami", "", |visit| Box::pin(overview::whoami(visit)), (Nothing, (200, Json("User"))), "Who asks."),
    Route::new(&Method::GET, "/v1/plan", "", |visit| Box::pin(plan::plan(visit)), (Nothing, (200, Json("Plan"))), "Which filter, how large, and the lines that make it: the planner of the library.").query(&[
        asks("items", ANY, "Keys in the set today."),
        asks("rate", Number, "False positives wanted, between 0 and 1; 0.01 unless said."),
        asks("memory", ANY, "Bytes that it may take."),
        usually("growth", Takes::Text, "fixed", "fixed, some, unknown, or a factor."),
        asks("deletes", Truth, "Keys must be removed one by one."),
        asks("window", Truth, "Only the recent past counts."),
        asks("static", Truth, "All keys are known before it is built."),
        asks("dense_integers", Truth, "Keys are integers close together."),
        asks("untrusted", Truth, "Keys come from people who might choose them to do harm."),
        asks("must_be_right", Truth, "A decision hangs on the answer."),
        asks("smallest_first", Truth, "Fewer bits matter more than speed."),
        usually("wants", Words(&["membership", "distinct-count", "listing", "exact-counts"]), "membership", "What you want to know."),
        asks("absent_share", Number, "Share of the lookups whose key is not there."),
        asks("lookups_per_second", Number, "Lookups a second."),
        asks("lookup_cost_seconds", Number, "What a lookup costs that a no saves."),
        asks("false_positive_cost_seconds", Number, "What a false positive costs on top."),
    ]).problems(&[422]).costs(tolls::LONG),
    Route::new(&Method::GET, "/v1/namespaces", "admin", |visit| Box::pin(tenants::namespaces(visit)), (Nothing, (200, Json("Namespaces"))), "The declared namespaces; a bound user sees its own.").problems(&[422]).by_commands(),
    Route::new(&Method::GET, "/v1/namespaces/{name}", "admin", |visit| Box::pin(tenants::one_namespace(visit)), (Nothing, (200, Json("Namespace"))), "A namespace.").problems(&[404, 422]).by_commands(),
    Route::new(&Method::PUT, "/v1/namespaces/{name}", "admin", |visit| Box::pin(tenants::set_namespace(visit)), (Json("NamespaceChange"), (200, Json("Namespace"))), "Declares a namespace or changes it: what is left out stays.").problems(&[404, 422]).by_commands(),
    Route::new(&Method::DELETE, "/v1/namespaces/{name}", "admin", |visit| Box::pin(tenants::delete_namespace(visit)), (Nothing, (204, Nothing)), "A namespace is no more; its filters stay.").problems(&[404, 422]).by_commands(),
    Route::new(&Method::GET, "/v1/users", "admin", |visit| Box::pin(tenants::users(visit)), (Nothing, (200, Json("Users"))), "The users.").problems(&[422]).by_commands(),
    Route::new(&Method::GET, "/v1/users/{name}", "admin", |visit| Box::pin(tenants::user(visit)), (Nothing, (200, Json("User"))), "A user.").problems(&[404, 422]).by_commands(),
    Route::new(&Method::PUT, "/v1/users/{name}", "admin", |visit| Box::pin(tenants::set_user(visit)), (Json("UserChange"), (200, Json("User"))), "Makes a user or changes one: what is left out stays.").problems(&[404, 422]).by_commands(),
    Route::new(&Method::DELETE, "/v1/users/{name}", "admin", |visit| Box::pin(tenants::delete_user(visit)), (Nothing, (204, Nothing)), "Deletes a user.").problems(&[404, 422]).by_commands(),
    Route::new(&Method::GET, "/v1/config", "admin", |visit| Box::pin(tenants::config(visit)), (Nothing, (200, Json("Settings"))), "The settings as the server sees them.").problems(&[422]),
    Route::new(&Method::POST, "/v1/command", "", |visit| Box::pin(workbench::command(visit)), (Json("Command"), (200, Json("CommandReply"))), "Any command of the Redis protocol but those about conversations, with its own role; its reply as JSON.").problems(&[422]).by_commands(),
    Route::new(&Method::GET, "/v1/commands", "", |visit| Box::pin(workbench::commands(visit)), (Nothing, (200, Json("Commands"))), "The commands there are."),
    Route::new(&Method::GET, "/v1/slowlog", "admin", |visit| Box::pin(workbench::slow(visit)), (Nothing, (200, Json("Slow"))), "Commands that took long, newest first.").query(&[usually("limit", Whole(1, 128), "32", "How many.")]).problems(&[422]).by_commands(),
    Route::new(&Method::GET, "/v1/events", "read", |visit| Box::pin(events::events(visit)), (Nothing, (200, Shape::File("text/event-stream"))), "Figures once a second, and what happens when it does, as server-sent events.").costs(tolls::LONG),
];
