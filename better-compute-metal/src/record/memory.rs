//! Records in memory: the specification of what a store does.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use bcd_core::Result;

use super::{Expect, MAX_PAGE, Record, RecordStore, Write, check_size, conflict};

/// A store that ends with the process.
#[derive(Debug, Default)]
pub struct MemoryRecords(Mutex<BTreeMap<(&'static str, String), Record>>);

impl MemoryRecords {
    /// With nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl RecordStore for MemoryRecords {
    async fn get(&self, kind: &'static str, id: &str) -> Result<Option<Record>> {
        let records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(records.get(&(kind, id.to_owned())).cloned())
    }

    async fn list(
        &self,
        kind: &'static str,
        parent: Option<&str>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Record>> {
        let records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let from = match after {
            Some(after) => Bound::Excluded((kind, after.to_owned())),
            None => Bound::Included((kind, String::new())),
        };
        Ok(records
            .range((from, Bound::Unbounded))
            .take_while(|((of, _), _)| *of == kind)
            .map(|(_, record)| record)
            .filter(|record| parent.is_none_or(|parent| record.parent.as_deref() == Some(parent)))
            .take(limit.min(MAX_PAGE))
            .cloned()
            .collect())
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<()> {
        check_size(&writes)?;
        let mut records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Writes see those before them, and none is kept unless all are.
        let mut next = records.clone();
        for write in writes {
            let key = (write.kind, write.id.clone());
            let version = next.get(&key).map(|record| record.version);
            let holds = match write.expect {
                Expect::Absent => version.is_none(),
                Expect::Version(expected) => version == Some(expected),
                Expect::Any => true,
            };
            if !holds {
                return Err(conflict(&write));
            }
            match write.body {
                Some(body) => {
                    let version = version.unwrap_or(0) + 1;
                    next.insert(key, Record { id: write.id, parent: write.parent, version, body });
                }
                None => {
                    next.remove(&key);
                }
            }
        }
        *records = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn conforms() {
        super::super::testing::conforms(&MemoryRecords::new()).await;
    }
}
