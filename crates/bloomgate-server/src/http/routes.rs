//! The table of routes: what stands under which path, who may ask for it, and what goes in and comes out. The router and the
//! OpenAPI description are made of it.

use std::pin::Pin;
use std::sync::Arc;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{Method, Response};

use bloomgate_http::problem::Problem;

use super::serving::House;
use super::visit::{self, Visit};
use super::{Answer, bulk, filters, items};

/// Who may ask.
pub enum Who {
    /// Anybody, also without a login: this tells it.
    Anybody(fn(&Arc<House>, &Parts) -> Response<Body>),
    /// Whoever has this role, in words; the commands behind it decide.
    User(&'static str),
}

/// Something in the query.
#[derive(Debug, Clone, Copy)]
pub struct Asks {
    /// Its name.
    pub name: &'static str,
    /// What it is: `string`, `integer`, `number` or `boolean`, or words separated by `|`.
    pub takes: &'static str,
    /// One line about it.
    pub about: &'static str,
}

/// What goes in, or comes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Nothing.
    Nothing,
    /// JSON of this name among the schemas.
    Json(&'static str),
    /// Keys in any form, or their answers as JSON of this name, digits in lines, or a bitmap.
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
    /// The body of the request.
    pub takes: Shape,
    /// The status and body of the answer when all is well.
    pub gives: (u16, Shape),
    /// Problems beside those that every route has.
    pub problems: &'static [u16],
    /// The longest body where it is not the usual one, also with an Idempotency-Key.
    pub(super) longest: Option<usize>,
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
        Self { method, path, about, who, query: &[], takes, gives, problems: &[], longest: None, run }
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

const fn asks(name: &'static str, takes: &'static str, about: &'static str) -> Asks {
    Asks { name, takes, about }
}

use Shape::{Json, Keys, Nothing, Text};

/// Every route.
pub static ROUTES: &[Route] = &[
    Route::open("/healthz", visit::healthz, Text, "Whether the process is alive."),
    Route::open("/readyz", visit::readyz, Text, "Whether it may be sent traffic: loaded, not stopping, the store writable."),
    Route::open("/openapi.json", visit::openapi, Shape::File("application/json"), "This description."),
    Route::new(&Method::GET, "/v1/filters", "read", |visit| Box::pin(filters::list(visit)), (Nothing, (200, Json("FilterList"))),
        "The filters there are, with their figures, by pages.").query(&[
            asks("match", "string", "Only names that match this pattern (`shop:*`)."),
            asks("kind", "string", "Only filters of this kind."),
            asks("sort", "name|items|capacity|bytes|used|rate|age|lookups|growth", "What the list is sorted by; `name` unless said."),
            asks("order", "asc|desc", "Rising or falling; `asc` unless said."),
            asks("offset", "integer", "How many to leave out; 0 unless said."),
            asks("limit", "integer", "How many to tell: 1 to 1000, 100 unless said."),
        ]),
    Route::new(&Method::POST, "/v1/filters", "write", |visit| Box::pin(filters::create(visit)), (Json("NewFilter"), (201, Json("Filter"))),
        "Makes an empty filter, as BG.CREATE does.").problems(&[409, 422]),
    Route::new(&Method::GET, "/v1/filters/{name}", "read", |visit| Box::pin(filters::describe(visit)), (Nothing, (200, Json("Filter"))),
        "Everything about a filter; its bits are counted and probed now.").problems(&[404, 422]),
    Route::new(&Method::DELETE, "/v1/filters/{name}", "delete", |visit| Box::pin(filters::delete(visit)), (Nothing, (204, Nothing)),
        "Deletes a filter.").problems(&[404, 422]),
    Route::new(&Method::PATCH, "/v1/filters/{name}", "delete", |visit| Box::pin(filters::change(visit)), (Json("FilterChange"), (200, Json("Filter"))),
        "Gives a filter another name, or another end. An end in the past deletes it (204).").problems(&[204, 404, 409, 422]),
    Route::new(&Method::GET, "/v1/filters/{name}/keys/{key}", "read", |visit| Box::pin(items::check(visit)), (Nothing, (200, Json("KeyAnswer"))),
        "Whether a key is definitely not in the filter, or maybe. 404 is said of the filter alone.").problems(&[404, 422]),
    Route::new(&Method::PUT, "/v1/filters/{name}/keys/{key}", "write", |visit| Box::pin(items::add(visit)), (Nothing, (200, Json("KeyAdded"))),
        "Adds a key.").problems(&[404, 422]),
    Route::new(&Method::DELETE, "/v1/filters/{name}/keys/{key}", "delete", |visit| Box::pin(items::remove(visit)), (Nothing, (200, Json("KeyRemoved"))),
        "Takes one copy of a key out (counting, cuckoo and quotient filters).").problems(&[404, 422]),
    Route::new(&Method::GET, "/v1/filters/{name}/keys/{key}/count", "read", |visit| Box::pin(items::count(visit)), (Nothing, (200, Json("KeyCount"))),
        "How often a key may have been added, never less than it was (counting, cuckoo and quotient filters).").problems(&[404, 422]),
    Route::new(&Method::POST, "/v1/filters/{name}/check", "read", |visit| Box::pin(bulk::check(visit)), (Keys("Keys"), (200, Keys("Checked"))),
        "Asks for many keys.").problems(&[404, 422]),
    Route::new(&Method::POST, "/v1/filters/{name}/add", "write", |visit| Box::pin(bulk::add(visit)), (Keys("Keys"), (200, Keys("Added"))),
        "Adds many keys.").problems(&[404, 422]),
    Route::new(&Method::POST, "/v1/filters/{name}/remove", "delete", |visit| Box::pin(bulk::remove(visit)), (Keys("Keys"), (200, Keys("Removed"))),
        "Takes one copy of each of many keys out.").problems(&[404, 422]),
    Route::new(&Method::POST, "/v1/filters/{name}/feedback", "delete", |visit| Box::pin(bulk::feedback(visit)), (Keys("Keys"), (200, Json("Reported"))),
        "Reports keys that the filter takes for present and that a look at the data has just proved absent (BG.FEEDBACK).").problems(&[404, 422]),
];
