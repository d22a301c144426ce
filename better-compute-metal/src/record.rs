//! The store of everything metal keeps: records with versions, changed several at a time or not at all.
//!
//! A [`RecordStore`] has three methods and knows nothing of machines; [`Entity`] puts types on it. A record
//! has a kind, an id, an optional parent to list it by, and a version that every write raises: compare and
//! swap is [`Expect`]. What a method changes in several records it gives to one [`RecordStore::commit`].

pub mod memory;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

use async_trait::async_trait;
use bcd_core::{Code, Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Records one page has at most.
pub const MAX_PAGE: usize = 200;
/// Writes one commit has at most.
pub const MAX_WRITES: usize = 64;

/// One stored record.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its id, unique in its kind.
    pub id: String,
    /// What it is listed by.
    pub parent: Option<String>,
    /// From 1, raised by every write.
    pub version: u64,
    /// Its content.
    pub body: Value,
}

/// What a record must be for a write to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Not there.
    Absent,
    /// There, with this version.
    Version(u64),
    /// Anything.
    Any,
}

/// One write of a commit.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// The kind.
    pub kind: &'static str,
    /// The id.
    pub id: String,
    /// What it is listed by.
    pub parent: Option<String>,
    /// What it must be now.
    pub expect: Expect,
    /// Its new content; none deletes it.
    pub body: Option<Value>,
}

/// Where records are kept.
#[async_trait]
pub trait RecordStore: Send + Sync + 'static {
    /// One record.
    ///
    /// # Errors
    /// `UNAVAILABLE` or `INTERNAL` when the store fails.
    async fn get(&self, kind: &'static str, id: &str) -> Result<Option<Record>>;

    /// Records of a kind (with this parent, when given) in the order of their ids, after `after`, at most
    /// `limit` of them and [`MAX_PAGE`].
    ///
    /// # Errors
    /// As [`RecordStore::get`].
    async fn list(
        &self,
        kind: &'static str,
        parent: Option<&str>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Record>>;

    /// Makes all of the writes, or none.
    ///
    /// # Errors
    /// `CONFLICT` with the record's kind and id in `details` when one is not what the write expects;
    /// `INVALID_INPUT` for more than [`MAX_WRITES`].
    async fn commit(&self, writes: Vec<Write>) -> Result<()>;
}

/// The error of a write whose expectation does not hold.
pub(crate) fn conflict(write: &Write) -> Error {
    let message = match write.expect {
        Expect::Absent => format!("there is a {} {} already", write.kind, write.id),
        _ => format!("the {} {} has changed since it was read: read it again", write.kind, write.id),
    };
    Error::new(Code::Conflict, message).detail("kind", write.kind).detail("id", write.id.clone())
}

pub(crate) fn check_size(writes: &[Write]) -> Result<()> {
    if writes.len() > MAX_WRITES {
        return Err(Error::new(Code::InvalidInput, format!("a commit has at most {MAX_WRITES} writes")));
    }
    Ok(())
}

/// A type that is kept as a record.
pub trait Entity: Serialize + DeserializeOwned + Send + Sync {
    /// The record's kind.
    const KIND: &'static str;

    /// The record's id.
    fn record_id(&self) -> String;

    /// What it is listed by.
    fn record_parent(&self) -> Option<String> {
        None
    }
}

/// An entity with the version it was read at.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored<T> {
    /// The entity.
    pub value: T,
    /// Its version.
    pub version: u64,
}

impl<T: Entity> Stored<T> {
    /// Reads the entity out of its record.
    ///
    /// # Errors
    /// `INTERNAL` when the record is not one of this type.
    pub fn from_record(record: Record) -> Result<Self> {
        let value = serde_json::from_value(record.body).map_err(|error| {
            Error::internal(format!("the {} {} does not parse", T::KIND, record.id)).caused_by(error)
        })?;
        Ok(Self { value, version: record.version })
    }

    /// A write that replaces it, if it is still what was read.
    ///
    /// # Errors
    /// `INTERNAL` when it has no JSON form.
    pub fn update(&self) -> Result<Write> {
        write(&self.value, Expect::Version(self.version))
    }

    /// A write that deletes it, if it is still what was read.
    #[must_use]
    pub fn delete(&self) -> Write {
        let (id, parent) = (self.value.record_id(), self.value.record_parent());
        Write { kind: T::KIND, id, parent, expect: Expect::Version(self.version), body: None }
    }
}

fn write<T: Entity>(entity: &T, expect: Expect) -> Result<Write> {
    let body = serde_json::to_value(entity)
        .map_err(|error| Error::internal(format!("the {} has no JSON form", T::KIND)).caused_by(error))?;
    Ok(Write {
        kind: T::KIND,
        id: entity.record_id(),
        parent: entity.record_parent(),
        expect,
        body: Some(body),
    })
}

/// A write that makes a new record.
///
/// # Errors
/// `INTERNAL` when it has no JSON form.
pub fn insert<T: Entity>(entity: &T) -> Result<Write> {
    write(entity, Expect::Absent)
}

/// A write that makes or replaces a record, whatever is there.
///
/// # Errors
/// `INTERNAL` when it has no JSON form.
pub fn replace<T: Entity>(entity: &T) -> Result<Write> {
    write(entity, Expect::Any)
}

/// Reads one entity.
///
/// # Errors
/// Those of the store.
pub async fn get<T: Entity>(store: &dyn RecordStore, id: &str) -> Result<Option<Stored<T>>> {
    store.get(T::KIND, id).await?.map(Stored::from_record).transpose()
}

/// Reads one entity that must be there.
///
/// # Errors
/// `NOT_FOUND`; those of the store.
pub async fn require<T: Entity>(store: &dyn RecordStore, id: &str) -> Result<Stored<T>> {
    get(store, id).await?.ok_or_else(|| Error::not_found(format!("there is no {} {id:.80}", T::KIND)))
}

/// Reads all entities of a kind, page by page, up to `max`.
///
/// # Errors
/// Those of the store.
pub async fn all<T: Entity>(
    store: &dyn RecordStore,
    parent: Option<&str>,
    max: usize,
) -> Result<Vec<Stored<T>>> {
    let mut found = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let page = store.list(T::KIND, parent, after.as_deref(), MAX_PAGE.min(max - found.len())).await?;
        let Some(last) = page.last() else { return Ok(found) };
        after = Some(last.id.clone());
        for record in page {
            found.push(Stored::from_record(record)?);
        }
        if found.len() >= max {
            return Ok(found);
        }
    }
}
