//! Passwords are asked for by their SHA-1, of a filter that was built with --hibp.
//!
//! No file says whether its keys are such hashes, and of any other filter every password is "absent": a wrong "no" to
//! the one question that was meant. So the user says it (--hibp), and the commonest passwords are asked for as well:
//! a list of breached ones that has none of them is a list of something else.

use sha1::{Digest as _, Sha1};

use crate::asking::{Answers, Panel};
use crate::failure::Failure;

/// Among the twenty commonest of every year's lists.
const COMMONEST: [&str; 6] = ["123456", "123456789", "password", "qwerty", "12345678", "111111"];

/// What is said when nobody said what the filter holds.
pub const NOT_SAID: &str = "--password asks for the SHA-1 of passwords, and only a filter that was built with `build \
                            --hibp` holds those: any other answers \"absent\" to every password; if this one was, say \
                            so with --hibp as well";

/// The SHA-1 of a password as lists of breached ones write it.
pub fn hash(password: &[u8]) -> Vec<u8> {
    Sha1::digest(password).iter().flat_map(|byte| format!("{byte:02X}").into_bytes()).collect()
}

/// The filters that have none of the commonest passwords, by their paths.
pub fn strangers(panel: &Panel) -> Result<Vec<String>, Failure> {
    let hashes = COMMONEST.map(|password| hash(password.as_bytes()));
    let mut answers = Answers::default();
    panel.ask(&hashes.each_ref().map(Vec::as_slice), &mut answers)?;
    let mut known = vec![false; panel.filters().len()];
    for at in 0..hashes.len() {
        answers.holders(at).for_each(|number| known[number] = true);
    }
    let unknown = panel.filters().iter().zip(known).filter(|(_, known)| !known);
    Ok(unknown.map(|(asked, _)| asked.path.display().to_string()).collect())
}

#[cfg(test)]
mod tests {
    #[test]
    fn passwords_are_hashed_as_the_lists_do() {
        assert_eq!(super::hash(b"password"), b"5BAA61E4C9B93F3F0682250B6CF8331B7EE68FD8");
    }
}
