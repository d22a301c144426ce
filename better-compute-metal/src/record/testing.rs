//! What every [`RecordStore`] must do; a host runs it against its own.

#![expect(clippy::panic, reason = "a conformance suite fails by panicking, as a test does")]

use bcd_core::Code;
use serde_json::json;

use super::{Expect, MAX_WRITES, RecordStore, Write};

fn put(id: &str, parent: Option<&str>, expect: Expect, n: u32) -> Write {
    Write {
        kind: "thing",
        id: id.to_owned(),
        parent: parent.map(str::to_owned),
        expect,
        body: Some(json!({ "n": n })),
    }
}

/// Runs the whole suite on an empty store.
///
/// # Panics
/// When the store does not conform.
pub async fn conforms(store: &dyn RecordStore) {
    let code = |result: bcd_core::Result<()>| result.err().map(|error| error.code());
    let versions = async || {
        let mut found = Vec::new();
        for id in ["a", "b", "c"] {
            match store.get("thing", id).await {
                Ok(record) => found.push(record.map(|record| record.version)),
                Err(error) => panic!("get failed: {error}"),
            }
        }
        found
    };

    // A record is made once, and every write raises its version.
    assert_eq!(versions().await, [None, None, None]);
    assert_eq!(code(store.commit(vec![put("a", Some("p"), Expect::Absent, 1)]).await), None);
    assert_eq!(code(store.commit(vec![put("a", Some("p"), Expect::Absent, 2)]).await), Some(Code::Conflict));
    assert_eq!(code(store.commit(vec![put("a", Some("p"), Expect::Version(1), 2)]).await), None);
    assert_eq!(
        code(store.commit(vec![put("a", Some("p"), Expect::Version(1), 3)]).await),
        Some(Code::Conflict)
    );
    assert_eq!(code(store.commit(vec![put("a", Some("p"), Expect::Any, 4)]).await), None);
    assert_eq!(versions().await, [Some(3), None, None]);

    // All or nothing.
    let half = vec![put("b", None, Expect::Absent, 1), put("a", None, Expect::Version(1), 9)];
    assert_eq!(code(store.commit(half).await), Some(Code::Conflict));
    assert_eq!(versions().await, [Some(3), None, None]);
    let both = vec![put("b", Some("p"), Expect::Absent, 1), put("c", Some("q"), Expect::Absent, 1)];
    assert_eq!(code(store.commit(both).await), None);

    // Lists are in order, by parent, in pages; another kind is another world.
    let ids = async |parent: Option<&'static str>, after: Option<&'static str>, limit| match store
        .list("thing", parent, after, limit)
        .await
    {
        Ok(page) => page.into_iter().map(|record| record.id).collect::<Vec<_>>(),
        Err(error) => panic!("list failed: {error}"),
    };
    assert_eq!(ids(None, None, 10).await, ["a", "b", "c"]);
    assert_eq!(ids(Some("p"), None, 10).await, ["a", "b"]);
    assert_eq!(ids(None, Some("a"), 1).await, ["b"]);
    assert_eq!(ids(Some("none"), None, 10).await, [""; 0]);
    assert_eq!(store.list("other", None, None, 10).await.ok(), Some(vec![]));

    // Deleting is a write like any other.
    let delete = |expect| Write { body: None, ..put("a", None, expect, 0) };
    assert_eq!(code(store.commit(vec![delete(Expect::Version(1))]).await), Some(Code::Conflict));
    assert_eq!(code(store.commit(vec![delete(Expect::Version(3))]).await), None);
    assert_eq!(versions().await, [None, Some(1), Some(1)]);

    // A commit has a bound.
    let many = |count| (0..count).map(|n| put(&format!("m{n}"), None, Expect::Absent, 1)).collect();
    assert_eq!(code(store.commit(many(MAX_WRITES + 1)).await), Some(Code::InvalidInput));
    assert_eq!(code(store.commit(many(MAX_WRITES)).await), None);
}
