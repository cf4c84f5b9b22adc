//! Which alerts fire, what changed since the last look, and that as a message.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::moment::rfc3339;
use crate::runbook;

/// Alerts in one message; how many more there are is told.
const MOST: usize = 100;
/// Letters of a filter's name and of a sentence.
const NAME: usize = 128;
const SENTENCE: usize = 500;

/// An alert that fires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// Its name, as the rules for Prometheus have it.
    pub name: &'static str,
    /// `warning` or `critical`.
    pub severity: &'static str,
    /// What is wrong, in a sentence.
    pub summary: String,
    /// Its section in the [runbook].
    pub section: &'static str,
    /// The filter it is about.
    pub filter: Option<String>,
}

/// Who tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// `bloomgate-server` or `bloomgate-gate`.
    pub job: &'static str,
    /// Which one.
    pub instance: String,
    /// Where its pages are, if it has any: `http://shop-1:8479`.
    pub pages: Option<String>,
}

impl Origin {
    /// A process by the name of its machine and the port that clients know.
    #[must_use]
    pub fn here(job: &'static str, address: SocketAddr) -> Self {
        Self { job, instance: named(address), pages: None }
    }

    /// The same with pages at this address. What listens everywhere is told by the name of its machine.
    #[must_use]
    pub fn with_pages(self, https: bool, address: SocketAddr) -> Self {
        let host = if address.ip().is_unspecified() { named(address) } else { address.to_string() };
        Self { pages: Some(format!("{}://{host}", if https { "https" } else { "http" })), ..self }
    }

    /// A section of the runbook: on its own pages, or where it stands in the repository.
    fn runbook(&self, section: &str) -> String {
        match &self.pages {
            Some(pages) => format!("{pages}{}", runbook::path(section)),
            None => format!("docs/runbook.md#{section}"),
        }
    }
}

/// An address by the name of this machine.
fn named(address: SocketAddr) -> String {
    // The second for services that are shown nothing of /proc but processes.
    let files = ["/proc/sys/kernel/hostname", "/etc/hostname"];
    let mut names = files.iter().filter_map(|file| std::fs::read_to_string(file).ok());
    let name = names.find_map(|name| Some(name.trim().to_owned()).filter(|name| !name.is_empty()));
    let host = name.unwrap_or_else(|| address.ip().to_string());
    format!("{host}:{}", address.port())
}

/// What makes two alerts one: the name, and the filter.
type Which = (&'static str, Option<String>);

/// The alerts of the last look, and since when each fires.
#[derive(Debug, Default)]
pub(super) struct Firing(BTreeMap<Which, (Alert, Duration)>);

/// What began and what ended; at least one of them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Change {
    began: Vec<Alert>,
    /// With the time at which it began.
    ended: Vec<(Alert, Duration)>,
    at: Duration,
}

impl Firing {
    /// Takes what there is now; what changed, if anything did. Another sentence about the same alert is no change.
    pub(super) fn change(&mut self, now: Vec<Alert>, at: Duration) -> Option<Change> {
        let mut before = std::mem::take(&mut self.0);
        let mut began = Vec::new();
        for alert in now {
            let which = (alert.name, alert.filter.clone());
            let since = before.remove(&which).map(|(_, since)| since);
            let told = self.0.insert(which, (alert.clone(), since.unwrap_or(at)));
            if since.is_none() && told.is_none() {
                began.push(alert);
            }
        }
        let ended: Vec<(Alert, Duration)> = before.into_values().collect();
        (!began.is_empty() || !ended.is_empty()).then_some(Change { began, ended, at })
    }
}

impl Change {
    /// As Alertmanager would write it.
    pub(super) fn message(&self, origin: &Origin) -> Value {
        let status = if self.began.is_empty() { "resolved" } else { "firing" };
        let began = self.began.iter().map(|alert| (alert, self.at, None));
        let ended = self.ended.iter().map(|(alert, since)| (alert, *since, Some(self.at)));
        let alerts: Vec<Value> =
            began.chain(ended).take(MOST).map(|(alert, since, until)| one(alert, origin, since, until)).collect();
        let more = self.began.len() + self.ended.len() - alerts.len();
        json!({
            "version": "4",
            "receiver": "alert-webhook",
            "status": status,
            "groupKey": format!("{}/{}", origin.job, origin.instance),
            "groupLabels": {},
            "commonLabels": {"job": origin.job, "instance": origin.instance},
            "commonAnnotations": {},
            "externalURL": origin.pages.as_deref().unwrap_or_default(),
            "truncatedAlerts": more,
            "alerts": alerts,
        })
    }
}

fn one(alert: &Alert, origin: &Origin, since: Duration, until: Option<Duration>) -> Value {
    let shortened = |text: &str, letters: usize| text.chars().take(letters).collect::<String>();
    let mut labels = Map::new();
    for (name, value) in [
        ("alertname", alert.name.to_owned()),
        ("severity", alert.severity.to_owned()),
        ("job", origin.job.to_owned()),
        ("instance", origin.instance.clone()),
    ] {
        labels.insert(name.to_owned(), value.into());
    }
    if let Some(filter) = &alert.filter {
        labels.insert("filter".to_owned(), label(filter).into());
    }
    let fingerprint = fingerprint(&labels);
    json!({
        "status": if until.is_some() { "resolved" } else { "firing" },
        "labels": labels,
        "annotations": {"summary": shortened(&alert.summary, SENTENCE), "runbook_url": origin.runbook(alert.section)},
        "startsAt": rfc3339(since),
        // What Alertmanager writes of an alert that has not ended.
        "endsAt": until.map_or_else(|| "0001-01-01T00:00:00Z".to_owned(), rfc3339),
        "generatorURL": "",
        "fingerprint": fingerprint,
    })
}

/// A filter's name as a label; of a long one as much as there is room for and, behind `…`, 16 digits of its SHA-256: receivers
/// take two alerts with the same labels for one.
fn label(name: &str) -> String {
    let Some((end, _)) = name.char_indices().nth(NAME) else { return name.to_owned() };
    let sum = ring::digest::digest(&ring::digest::SHA256, name.as_bytes());
    let digits: String = sum.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{}…{digits}", &name[..end])
}

/// The same text for the same labels, other ones for others: FNV-1a (Fowler, Noll and Vo, 1991) of the labels in their order.
fn fingerprint(labels: &Map<String, Value>) -> String {
    let mut sorted: Vec<(&String, &Value)> = labels.iter().collect();
    sorted.sort_by_key(|(name, _)| *name);
    let text: String = sorted.iter().map(|(name, value)| format!("{name}\0{value}\0")).collect();
    let number = text
        .bytes()
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3));
    format!("{number:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alert(name: &'static str, filter: Option<&str>, summary: &str) -> Alert {
        Alert {
            name,
            severity: "warning",
            summary: summary.to_owned(),
            section: "over-capacity",
            filter: filter.map(str::to_owned),
        }
    }

    fn origin() -> Origin {
        Origin { job: "bloomgate-server", instance: "shop-1:8479".to_owned(), pages: None }
    }

    #[test]
    fn only_what_begins_or_ends_is_a_change() {
        let mut firing = Firing::default();
        let at = Duration::from_secs;
        assert_eq!(firing.change(Vec::new(), at(1)), None);
        let (one, two) = (alert("Full", Some("a"), "101 of 100"), alert("Full", Some("b"), "7 of 5"));
        let began = firing.change(vec![one.clone(), two.clone()], at(10)).unwrap();
        assert_eq!((began.began.len(), began.ended.len()), (2, 0));
        let worse = alert("Full", Some("a"), "150 of 100");
        assert_eq!(firing.change(vec![worse.clone(), two.clone()], at(20)), None, "another sentence is no change");
        let swapped = firing.change(vec![two, alert("Old", None, "a day")], at(30)).unwrap();
        assert_eq!(swapped.began, [alert("Old", None, "a day")]);
        assert_eq!(swapped.ended, [(worse, at(10))], "with its last sentence and its first moment");
        let all = firing.change(Vec::new(), at(40)).unwrap();
        assert_eq!((all.began.len(), all.ended.len()), (0, 2));
        assert_eq!(firing.change(Vec::new(), at(50)), None);
        // Told twice in one look, it is one.
        let twice = firing.change(vec![one.clone(), one], at(60)).unwrap();
        assert_eq!(twice.began.len(), 1);
    }

    #[test]
    fn a_message_is_one_of_alertmanager() {
        let mut firing = Firing::default();
        let one = alert("BloomgateOverCapacity", Some("seen"), "it holds 101 items and was made for 100");
        let began = firing.change(vec![one], Duration::from_secs(1_767_225_599)).unwrap().message(&origin());
        assert_eq!((&began["version"], &began["status"]), (&json!("4"), &json!("firing")));
        let told = &began["alerts"][0];
        assert_eq!(
            told["labels"],
            json!({
                "alertname": "BloomgateOverCapacity", "severity": "warning", "filter": "seen",
                "job": "bloomgate-server", "instance": "shop-1:8479",
            })
        );
        assert_eq!(told["annotations"]["summary"], "it holds 101 items and was made for 100");
        assert_eq!(told["annotations"]["runbook_url"], "docs/runbook.md#over-capacity", "it has no pages");
        assert_eq!(told["startsAt"], "2025-12-31T23:59:59.000Z");
        assert_eq!(told["endsAt"], "0001-01-01T00:00:00Z");
        let ended = firing.change(Vec::new(), Duration::from_secs(1_767_225_609)).unwrap().message(&origin());
        assert_eq!((&ended["status"], &ended["alerts"][0]["status"]), (&json!("resolved"), &json!("resolved")));
        assert_eq!(ended["alerts"][0]["startsAt"], told["startsAt"]);
        assert_eq!(ended["alerts"][0]["endsAt"], "2026-01-01T00:00:09.000Z");
        assert_eq!(ended["alerts"][0]["fingerprint"], told["fingerprint"], "who hears both knows that they are one");
    }

    #[test]
    fn a_message_links_to_the_runbook_where_it_is_served() {
        let told = |https: bool, address: &str| {
            let origin = origin().with_pages(https, address.parse().unwrap());
            let change = Firing::default().change(vec![alert("Full", None, "it is")], Duration::ZERO).unwrap();
            let message = change.message(&origin);
            let link = message["alerts"][0]["annotations"]["runbook_url"].as_str().unwrap().to_owned();
            (message["externalURL"].as_str().unwrap().to_owned(), link)
        };
        assert_eq!(
            told(false, "127.0.0.1:8479"),
            ("http://127.0.0.1:8479".to_owned(), "http://127.0.0.1:8479/runbook#over-capacity".to_owned())
        );
        assert_eq!(told(true, "[2001:db8::1]:8443").1, "https://[2001:db8::1]:8443/runbook#over-capacity");
        let everywhere = told(false, "0.0.0.0:8479").1;
        assert!(everywhere.ends_with(":8479/runbook#over-capacity") && !everywhere.contains("0.0.0.0"), "{everywhere}");
    }

    #[test]
    fn long_names_that_begin_alike_are_two_alerts_to_receivers_too() {
        let name = |last: &str| format!("{}{last}", "é".repeat(NAME));
        let alerts = ["", "a", "b"].map(|last| alert("Full", Some(&name(last)), "it is"));
        let message = Firing::default().change(alerts.to_vec(), Duration::ZERO).unwrap().message(&origin());
        let told: std::collections::BTreeSet<String> = message["alerts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| {
                let filter = one["labels"]["filter"].as_str().unwrap();
                assert!(filter.starts_with(&name("")) && filter.chars().count() <= NAME + 17, "{filter}");
                one["fingerprint"].to_string()
            })
            .collect();
        assert_eq!((told.len(), &message["alerts"][0]["labels"]["filter"]), (3, &json!(name(""))));
    }

    #[test]
    fn a_message_has_a_largest_size() {
        let long = "é".repeat(5_000);
        let many: Vec<Alert> = (0..250).map(|number| alert("Full", Some(&format!("{number}{long}")), &long)).collect();
        let message = Firing::default().change(many, Duration::ZERO).unwrap().message(&origin());
        assert_eq!(message["alerts"].as_array().unwrap().len(), MOST);
        assert_eq!(message["truncatedAlerts"], 150);
        assert!(message.to_string().len() < 200_000);
    }
}
