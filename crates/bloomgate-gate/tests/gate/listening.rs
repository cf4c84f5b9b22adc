//! Somebody who hears what a gate tells, and remembers it.

use std::sync::{Arc, Mutex};

use bloomgate_gate::Event;

/// What was told.
#[derive(Clone, Default)]
pub struct Told(Arc<Mutex<Vec<Event>>>);

/// What was told, and who is to be told.
pub fn listen() -> (Told, impl Fn(Event) + Send + Sync + 'static) {
    let told = Told::default();
    let heard = told.clone();
    (told, move |event| heard.0.lock().unwrap().push(event))
}

impl Told {
    pub fn all(&self) -> Vec<Event> {
        self.0.lock().unwrap().clone()
    }

    pub fn has(&self, what: impl Fn(&Event) -> bool) -> bool {
        self.0.lock().unwrap().iter().any(what)
    }
}
