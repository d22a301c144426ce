//! Records in SQLite.

use async_trait::async_trait;
use bcd_core::sqlite::Database;
use bcd_core::{Error, Result};
use rusqlite::{OptionalExtension as _, Row};

use super::{Expect, MAX_PAGE, Record, RecordStore, Write, check_size, conflict};

const MIGRATIONS: &[&str] = &["
    CREATE TABLE records (
        kind TEXT NOT NULL,
        id TEXT NOT NULL,
        parent TEXT,
        version INTEGER NOT NULL,
        body TEXT NOT NULL CHECK (json_valid(body)),
        PRIMARY KEY (kind, id)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX records_by_parent ON records (kind, parent, id);
"];

/// A store in the process's database.
#[derive(Clone, Debug)]
pub struct SqliteRecords(Database);

impl SqliteRecords {
    /// Brings the tables up to date.
    ///
    /// # Errors
    /// Those of [`Database::migrate`].
    pub fn new(database: Database) -> Result<Self> {
        database.migrate("metal", MIGRATIONS)?;
        Ok(Self(database))
    }
}

fn record(row: &Row<'_>) -> rusqlite::Result<(String, Option<String>, i64, String)> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
}

fn parse((id, parent, version, body): (String, Option<String>, i64, String)) -> Result<Record> {
    let body = serde_json::from_str(&body)
        .map_err(|error| Error::internal(format!("the record {id} does not parse")).caused_by(error))?;
    Ok(Record { id, parent, version: u64::try_from(version).unwrap_or(0), body })
}

#[async_trait]
impl RecordStore for SqliteRecords {
    async fn get(&self, kind: &'static str, id: &str) -> Result<Option<Record>> {
        let id = id.to_owned();
        self.0
            .call(move |tx| {
                let sql = "SELECT id, parent, version, body FROM records WHERE kind = ?1 AND id = ?2";
                tx.query_row(sql, (kind, id), record).optional()?.map(parse).transpose()
            })
            .await
    }

    async fn list(
        &self,
        kind: &'static str,
        parent: Option<&str>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Record>> {
        let (parent, after) = (parent.map(str::to_owned), after.unwrap_or_default().to_owned());
        let limit = i64::try_from(limit.min(MAX_PAGE)).unwrap_or(0);
        self.0
            .call(move |tx| {
                let sql = match parent {
                    Some(_) => "SELECT id, parent, version, body FROM records WHERE kind = ?1 AND parent = ?4 AND id > ?2 ORDER BY id LIMIT ?3",
                    None => "SELECT id, parent, version, body FROM records WHERE kind = ?1 AND id > ?2 AND ?4 IS NULL ORDER BY id LIMIT ?3",
                };
                let mut statement = tx.prepare_cached(sql)?;
                let rows = statement.query_map((kind, after, limit, parent), record)?.collect::<Result<Vec<_>, _>>()?;
                rows.into_iter().map(parse).collect()
            })
            .await
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<()> {
        check_size(&writes)?;
        self.0
            .call(move |tx| {
                for write in writes {
                    let version: Option<i64> = tx
                        .query_row("SELECT version FROM records WHERE kind = ?1 AND id = ?2", (write.kind, &write.id), |row| row.get(0))
                        .optional()?;
                    let holds = match write.expect {
                        Expect::Absent => version.is_none(),
                        Expect::Version(expected) => version.and_then(|version| u64::try_from(version).ok()) == Some(expected),
                        Expect::Any => true,
                    };
                    if !holds {
                        return Err(conflict(&write));
                    }
                    match &write.body {
                        Some(body) => tx.execute(
                            "INSERT INTO records (kind, id, parent, version, body) VALUES (?1, ?2, ?3, ?4, ?5)
                             ON CONFLICT (kind, id) DO UPDATE SET parent = ?3, version = ?4, body = ?5",
                            (write.kind, &write.id, &write.parent, version.unwrap_or(0) + 1, body.to_string()),
                        )?,
                        None => tx.execute("DELETE FROM records WHERE kind = ?1 AND id = ?2", (write.kind, &write.id))?,
                    };
                }
                Ok(())
            })
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn conforms() {
        let store = SqliteRecords::new(Database::in_memory().unwrap()).unwrap();
        super::super::testing::conforms(&store).await;
    }
}
