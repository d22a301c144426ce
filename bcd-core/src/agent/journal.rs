//! The journal: what this agent was told to do, and what came of it, before and after any crash.
//!
//! A command is `received` (on disk before it is acknowledged), `running` (before it acts), `done` with its
//! outcome, and `acknowledged` once the control plane has stored that. Nothing that is found `running` after
//! a crash runs again, unless its kind may be repeated: it ends as `interrupted`.

use std::path::Path;
use std::time::Duration;

use rusqlite::OptionalExtension as _;

use super::verify::VerifiedCommand;
use crate::envelope::Signed;
use crate::error::{Code, Error, Result};
use crate::id::CommandId;
use crate::reason;
use crate::sqlite::Database;
use crate::time::Timestamp;
use crate::wire::command::{AttestedResult, Outcome};
use crate::wire::kinds::Kind;

/// Rows the journal may have; a further command is refused.
pub const MAX_ROWS: i64 = 100_000;
/// How long past its `notAfter` an acknowledged row is kept.
const KEPT: Duration = Duration::from_secs(24 * 3600);

const MIGRATIONS: &[&str] = &["
    CREATE TABLE commands (
        id TEXT PRIMARY KEY,
        digest TEXT NOT NULL,
        kind TEXT NOT NULL,
        boot_id TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('received', 'running', 'done', 'acknowledged')),
        outcome TEXT,
        attested TEXT,
        not_after INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX commands_by_state ON commands (state);
"];

/// What to do with a command that came in.
#[derive(Clone, Debug, PartialEq)]
pub enum Receipt {
    /// It is in the journal and has not begun: run it.
    Run,
    /// It runs already.
    Running,
    /// It ended; this is its result, to be sent again.
    Done(Box<Finished>),
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// The command.
    pub id: CommandId,
    /// The outcome.
    pub outcome: Outcome,
    /// The same, vouched for, when it was asked for.
    pub attested: Option<Signed<AttestedResult>>,
}

/// The journal's file.
#[derive(Clone, Debug)]
pub struct Journal {
    db: Database,
}

fn broken(error: serde_json::Error) -> Error {
    Error::internal("the journal has a row that does not parse").caused_by(error)
}

fn finished(id: CommandId, outcome: Option<&str>, attested: Option<&str>) -> Result<Finished> {
    let outcome = serde_json::from_str(outcome.unwrap_or("null")).map_err(broken)?;
    let attested = attested.map(serde_json::from_str).transpose().map_err(broken)?;
    Ok(Finished { id, outcome, attested })
}

impl Journal {
    /// Opens the journal, and ends what a crash left running.
    ///
    /// # Errors
    /// `INTERNAL` when the file can't be used.
    pub async fn open(path: &Path, now: Timestamp) -> Result<Self> {
        Self::start(Database::open(path)?, now).await
    }

    /// A journal that ends with the process.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub async fn in_memory() -> Result<Self> {
        Self::start(Database::in_memory()?, Timestamp::EPOCH).await
    }

    async fn start(db: Database, now: Timestamp) -> Result<Self> {
        db.migrate("journal", MIGRATIONS)?;
        let journal = Self { db };
        journal.recover(now).await?;
        Ok(journal)
    }

    async fn recover(&self, now: Timestamp) -> Result<()> {
        let interrupted = Outcome::failed(reason::INTERRUPTED, "the agent stopped while the command ran");
        let outcome = serde_json::to_string(&interrupted).map_err(broken)?;
        let kept_from = now.saturating_sub(KEPT).as_millis();
        self.db
            .call(move |tx| {
                let mut running = tx.prepare("SELECT id, kind FROM commands WHERE state = 'running'")?;
                let rows: Vec<(String, String)> =
                    running.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
                for (id, kind) in rows {
                    if Kind::find(&kind).is_some_and(|kind| kind.repeatable) {
                        tx.execute("UPDATE commands SET state = 'received' WHERE id = ?1", [&id])?;
                    } else {
                        tx.execute(
                            "UPDATE commands SET state = 'done', outcome = ?2 WHERE id = ?1",
                            (&id, &outcome),
                        )?;
                    }
                }
                tx.execute(
                    "DELETE FROM commands WHERE state = 'acknowledged' AND not_after < ?1",
                    [kept_from],
                )?;
                Ok(())
            })
            .await
    }

    /// Takes a command in, durably; a known one gets its answer.
    ///
    /// # Errors
    /// `CONFLICT` with reason `command-conflict` when the id came with other bytes before; `UNAVAILABLE` with
    /// reason `journal-full`.
    pub async fn receive(&self, command: &VerifiedCommand, boot_id: &str) -> Result<Receipt> {
        let id = command.command().id.clone();
        let row = (
            id.to_string(),
            command.digest().to_string(),
            command.kind().name,
            boot_id.to_owned(),
            command.command().not_after.as_millis(),
        );
        self.db
            .call(move |tx| {
                let known = tx
                    .query_row("SELECT digest, state, outcome, attested FROM commands WHERE id = ?1", [&row.0], |row| {
                        Ok((
                            row.get::<_, String>(0)?,
                            row.get::<_, String>(1)?,
                            row.get::<_, Option<String>>(2)?,
                            row.get::<_, Option<String>>(3)?,
                        ))
                    })
                    .optional()?;
                let Some((digest, state, outcome, attested)) = known else {
                    let rows: i64 = tx.query_row("SELECT count(*) FROM commands", [], |row| row.get(0))?;
                    if rows >= MAX_ROWS {
                        return Err(Error::unavailable("the agent's journal is full").because(reason::JOURNAL_FULL));
                    }
                    tx.execute(
                        "INSERT INTO commands (id, digest, kind, boot_id, not_after, state) VALUES (?1, ?2, ?3, ?4, ?5, 'received')",
                        row,
                    )?;
                    return Ok(Receipt::Run);
                };
                if digest != row.1 {
                    return Err(Error::new(Code::Conflict, "this command id came with another payload before")
                        .because(reason::COMMAND_CONFLICT));
                }
                match state.as_str() {
                    "received" => Ok(Receipt::Run),
                    "running" => Ok(Receipt::Running),
                    _ => Ok(Receipt::Done(Box::new(finished(id, outcome.as_deref(), attested.as_deref())?))),
                }
            })
            .await
    }

    /// Notes that the command acts from now on; returns whether it was this call that began it.
    ///
    /// # Errors
    /// `INTERNAL`.
    pub async fn begin(&self, id: &CommandId) -> Result<bool> {
        let id = id.to_string();
        self.db
            .call(move |tx| {
                Ok(tx.execute(
                    "UPDATE commands SET state = 'running' WHERE id = ?1 AND state = 'received'",
                    [id],
                )? == 1)
            })
            .await
    }

    /// Notes how the command ended.
    ///
    /// # Errors
    /// `INTERNAL`.
    pub async fn finish(&self, finished: &Finished) -> Result<()> {
        let id = finished.id.to_string();
        let outcome = serde_json::to_string(&finished.outcome).map_err(broken)?;
        let attested = finished.attested.as_ref().map(serde_json::to_string).transpose().map_err(broken)?;
        self.db
            .call(move |tx| {
                tx.execute(
                    "UPDATE commands SET state = 'done', outcome = ?2, attested = ?3 WHERE id = ?1 AND state IN ('received', 'running')",
                    (id, outcome, attested),
                )?;
                Ok(())
            })
            .await
    }

    /// Notes that the control plane has stored the result.
    ///
    /// # Errors
    /// `INTERNAL`.
    pub async fn acknowledge(&self, id: &CommandId) -> Result<()> {
        let id = id.to_string();
        self.db
            .call(move |tx| {
                tx.execute(
                    "UPDATE commands SET state = 'acknowledged' WHERE id = ?1 AND state = 'done'",
                    [id],
                )?;
                Ok(())
            })
            .await
    }

    /// Results the control plane has not said it stored, oldest first: sent again at the start of each session.
    ///
    /// # Errors
    /// `INTERNAL`.
    pub async fn unacknowledged(&self) -> Result<Vec<Finished>> {
        self.db
            .call(|tx| {
                let mut done = tx.prepare(
                    "SELECT id, outcome, attested FROM commands WHERE state = 'done' ORDER BY id LIMIT 256",
                )?;
                let rows: Vec<(String, Option<String>, Option<String>)> = done
                    .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
                    .collect::<Result<_, _>>()?;
                rows.into_iter()
                    .map(|(id, outcome, attested)| {
                        let id = id.parse().map_err(|error| {
                            Error::internal("the journal has a wrong id").caused_by(error)
                        })?;
                        finished(id, outcome.as_deref(), attested.as_deref())
                    })
                    .collect()
            })
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::super::verify_tests::verified;
    use super::*;

    fn done(command: &VerifiedCommand) -> Finished {
        Finished {
            id: command.command().id.clone(),
            outcome: Outcome::ok(serde_json::Map::new()),
            attested: None,
        }
    }

    #[tokio::test]
    async fn a_command_runs_once_and_its_answer_stays() {
        let journal = Journal::in_memory().await.unwrap();
        let command = verified(1, "disk.wipe", 1);
        let id = &command.command().id;
        assert_eq!(journal.receive(&command, "b").await.unwrap(), Receipt::Run);
        assert!(journal.begin(id).await.unwrap());
        assert!(!journal.begin(id).await.unwrap());
        assert_eq!(journal.receive(&command, "b").await.unwrap(), Receipt::Running);
        journal.finish(&done(&command)).await.unwrap();
        assert_eq!(journal.unacknowledged().await.unwrap(), [done(&command)]);
        journal.acknowledge(id).await.unwrap();
        assert_eq!(journal.unacknowledged().await.unwrap(), []);
        assert_eq!(journal.receive(&command, "b").await.unwrap(), Receipt::Done(Box::new(done(&command))));
    }

    #[tokio::test]
    async fn a_known_id_with_other_bytes_is_refused() {
        let journal = Journal::in_memory().await.unwrap();
        journal.receive(&verified(1, "disk.wipe", 1), "b").await.unwrap();
        let error = journal.receive(&verified(1, "disk.wipe", 2), "b").await.unwrap_err();
        assert_eq!(error.reason(), Some("command-conflict"));
    }

    #[tokio::test]
    async fn a_crash_interrupts_what_may_not_be_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.db");
        let (wipe, refresh) = (verified(1, "disk.wipe", 1), verified(2, "inventory.refresh", 1));
        let journal = Journal::open(&path, Timestamp::EPOCH).await.unwrap();
        for command in [&wipe, &refresh] {
            journal.receive(command, "b").await.unwrap();
            journal.begin(&command.command().id).await.unwrap();
        }
        drop(journal);
        let journal = Journal::open(&path, Timestamp::EPOCH).await.unwrap();
        let left = journal.unacknowledged().await.unwrap();
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].outcome.reason.as_deref(), Some("interrupted"));
        assert!(matches!(journal.receive(&wipe, "b").await.unwrap(), Receipt::Done(_)));
        assert_eq!(journal.receive(&refresh, "b").await.unwrap(), Receipt::Run);
        // A late result of the run before the crash changes nothing.
        journal.finish(&done(&wipe)).await.unwrap();
        assert_eq!(journal.unacknowledged().await.unwrap(), left);
    }
}
