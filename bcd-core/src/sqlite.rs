//! One SQLite file behind one thread, shared by every store of a process.
//!
//! Each store gives its migrations under a name of its own and runs closures on the connection. Because
//! all stores of a control plane share one [`Database`], one closure can write rows of several of them in
//! one transaction. Futures that are dropped while they wait do not undo what they asked for.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use futures_channel::oneshot;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::error::{Code, Error, Result};

/// Calls that may wait for the thread; a further one waits for room.
const QUEUE: usize = 256;

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// A handle to the database's thread; clones share it, and the thread ends with the last one.
#[derive(Clone)]
pub struct Database {
    jobs: Arc<SyncSender<Job>>,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Database")
    }
}

impl Database {
    /// Opens the file, made with mode 0600 when it is not there.
    ///
    /// # Errors
    /// `INTERNAL` when it can't be opened or is not a database.
    pub fn open(path: &Path) -> Result<Self> {
        use std::os::unix::fs::OpenOptionsExt as _;
        std::fs::OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path).map_err(
            |error| Error::internal(format!("can't open the database {}", path.display())).caused_by(error),
        )?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Self::start(Connection::open_with_flags(path, flags)?)
    }

    /// A database in memory that ends with its last handle.
    ///
    /// # Errors
    /// `INTERNAL` when SQLite can't make one.
    pub fn in_memory() -> Result<Self> {
        Self::start(Connection::open_in_memory()?)
    }

    fn start(connection: Connection) -> Result<Self> {
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA busy_timeout = 5000;
             CREATE TABLE IF NOT EXISTS migrations (store TEXT NOT NULL, version INTEGER NOT NULL, PRIMARY KEY (store, version)) STRICT;",
        )?;
        let (jobs, queue) = sync_channel::<Job>(QUEUE);
        std::thread::Builder::new()
            .name("sqlite".to_owned())
            .spawn(move || {
                let mut connection = connection;
                for job in queue {
                    job(&mut connection);
                }
            })
            .map_err(|error| Error::internal("can't start the database's thread").caused_by(error))?;
        Ok(Self { jobs: Arc::new(jobs) })
    }

    /// Runs `work` in one transaction, which commits when it returns `Ok` and rolls back otherwise.
    ///
    /// # Errors
    /// Those of `work`; `INTERNAL` when the commit fails or the thread has ended.
    pub async fn call<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> Result<T> + Send + 'static,
    {
        self.submit(work)?.await.unwrap_or_else(|oneshot::Canceled| Err(ended()))
    }

    /// As [`Database::call`], for threads that may block.
    ///
    /// # Errors
    /// As [`Database::call`].
    pub fn call_blocking<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> Result<T> + Send + 'static,
    {
        let (done, result) = sync_channel(1);
        let job: Job = Box::new(move |connection| {
            let _ = done.send(transact(connection, work));
        });
        self.jobs.send(job).map_err(|_| ended())?;
        result.recv().unwrap_or_else(|_| Err(ended()))
    }

    fn submit<T, F>(&self, work: F) -> Result<oneshot::Receiver<Result<T>>>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> Result<T> + Send + 'static,
    {
        let (done, result) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            let _ = done.send(transact(connection, work));
        });
        self.jobs.send(job).map_err(|_| ended())?;
        Ok(result)
    }

    /// Brings the tables of `store` up to date: runs each of `steps` once, in order, for ever.
    ///
    /// Steps are only ever added at the end; each runs in one transaction with the others that are due.
    ///
    /// # Errors
    /// `INTERNAL` when a step fails (nothing is changed then); `UNSUPPORTED` when the file was written by
    /// a newer version.
    pub fn migrate(&self, store: &'static str, steps: &'static [&'static str]) -> Result<()> {
        self.call_blocking(move |tx| {
            let done: i64 = tx.query_row("SELECT count(*) FROM migrations WHERE store = ?1", [store], |row| row.get(0))?;
            let done = usize::try_from(done).unwrap_or(usize::MAX);
            if done > steps.len() {
                return Err(Error::new(
                    Code::Unsupported,
                    format!("the database's {store} tables are of version {done}, this program knows {}: run a newer one", steps.len()),
                ));
            }
            for (version, step) in (1_i64..).zip(steps).skip(done) {
                tx.execute_batch(step)?;
                tx.execute("INSERT INTO migrations (store, version) VALUES (?1, ?2)", (store, version))?;
            }
            Ok(())
        })
    }
}

fn transact<T>(connection: &mut Connection, work: impl FnOnce(&Transaction<'_>) -> Result<T>) -> Result<T> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let result = work(&tx)?;
    tx.commit()?;
    Ok(result)
}

fn ended() -> Error {
    Error::internal("the database's thread has ended")
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        let code = match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::ConstraintViolation) => Code::Conflict,
            Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked) => {
                Code::Unavailable
            }
            _ => Code::Internal,
        };
        Self::new(code, "the database refused the request").caused_by(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &[&str] = &["CREATE TABLE t (a INTEGER PRIMARY KEY) STRICT;"];
    const V2: &[&str] = &[
        "CREATE TABLE t (a INTEGER PRIMARY KEY) STRICT;",
        "ALTER TABLE t ADD COLUMN b TEXT NOT NULL DEFAULT 'x';",
    ];

    fn count(db: &Database) -> i64 {
        db.call_blocking(|tx| Ok(tx.query_row("SELECT count(*) FROM t", [], |row| row.get(0))?)).unwrap()
    }

    #[test]
    fn migrations_run_once_and_keep_data() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let db = Database::open(&path).unwrap();
        db.migrate("t", V1).unwrap();
        db.call_blocking(|tx| Ok(tx.execute("INSERT INTO t VALUES (1)", [])?)).unwrap();
        drop(db);
        let db = Database::open(&path).unwrap();
        db.migrate("t", V2).unwrap();
        db.migrate("t", V2).unwrap();
        let b: String =
            db.call_blocking(|tx| Ok(tx.query_row("SELECT b FROM t", [], |row| row.get(0))?)).unwrap();
        assert_eq!(b, "x");
        assert_eq!(db.migrate("t", V1).unwrap_err().code(), Code::Unsupported);
    }

    #[test]
    fn the_file_is_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let _db = Database::open(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_failed_call_changes_nothing() {
        let db = Database::in_memory().unwrap();
        db.migrate("t", V1).unwrap();
        let result = db.call_blocking(|tx| {
            tx.execute("INSERT INTO t VALUES (1)", [])?;
            Err::<(), _>(Error::not_found("on second thoughts"))
        });
        assert_eq!(result.unwrap_err().code(), Code::NotFound);
        assert_eq!(count(&db), 0);
    }

    #[tokio::test]
    async fn a_duplicate_key_is_a_conflict() {
        let db = Database::in_memory().unwrap();
        db.migrate("t", V1).unwrap();
        db.call(|tx| Ok(tx.execute("INSERT INTO t VALUES (1)", [])?)).await.unwrap();
        let error = db.call(|tx| Ok(tx.execute("INSERT INTO t VALUES (1)", [])?)).await.unwrap_err();
        assert_eq!(error.code(), Code::Conflict);
    }
}
