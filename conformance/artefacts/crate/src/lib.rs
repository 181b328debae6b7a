//! Golden vectors of the Kafka protocol, a file a message; the README says what is in one.
use std::io::Read;

mod files;

pub const VERSION: &str = "@VERSION@";

/// The names of the files, such as `kafka/VoteRequest`, in order.
pub fn names() -> impl Iterator<Item = &'static str> {
    files::FILES.iter().map(|(name, _)| *name)
}

/// A file as JSON text, or `None` where there is no such name.
pub fn read(name: &str) -> Option<String> {
    let found = files::FILES.binary_search_by(|(other, _)| (*other).cmp(name)).ok()?;
    let mut text = String::new();
    flate2::read::GzDecoder::new(files::FILES[found].1).read_to_string(&mut text).ok()?;
    Some(text)
}
