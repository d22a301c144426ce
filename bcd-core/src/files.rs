//! Files that agents and control planes keep: private, and whole or not there.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use crate::error::{Error, Result};

fn failed(what: &str, path: &Path, error: std::io::Error) -> Error {
    Error::internal(format!("can't {what} {}", path.display())).caused_by(error)
}

/// Makes `dir` (mode 0700) with its parents, or checks that nobody else may write to the one that is there.
///
/// # Errors
/// `INTERNAL` when it can't be made; `INVALID_CONFIG` when others may read or write it.
pub fn private_dir(dir: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|error| failed("make", dir, error))?;
    let mode = fs::metadata(dir).map_err(|error| failed("look at", dir, error))?.mode();
    if mode & 0o077 != 0 {
        return Err(Error::invalid_config(
            "data_dir",
            format!("{} may be read or written by others: chmod 700 {0}", dir.display()),
        ));
    }
    Ok(())
}

/// Writes `bytes` to a temporary name (mode 0600), syncs it, and renames it to `path`.
///
/// # Errors
/// `INTERNAL`; `path` is as before then.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let parent = path.parent().unwrap_or_else(|| Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = parent.join(format!(".{name}.tmp"));
    let write = || -> std::io::Result<()> {
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        File::open(parent)?.sync_all()
    };
    write().map_err(|error| {
        // What is left of the temporary file is of no use; it is overwritten the next time if it stays.
        let _ = fs::remove_file(&temporary);
        failed("write", path, error)
    })
}

/// Reads at most `max` bytes; nothing when there is no such file.
///
/// # Errors
/// `INTERNAL` when it can't be read or is larger.
pub fn read(path: &Path, max: u64) -> Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("open", path, error)),
    };
    let mut bytes = Vec::new();
    file.take(max + 1).read_to_end(&mut bytes).map_err(|error| failed("read", path, error))?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > max {
        return Err(Error::internal(format!("{} is larger than {max} bytes", path.display())));
    }
    Ok(Some(bytes))
}

/// Removes a file; one that is not there is removed.
///
/// # Errors
/// `INTERNAL`.
pub fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed("remove", path, error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        replace(&path, b"one").unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(read(&path, 3).unwrap().unwrap(), b"two");
        assert!(read(&path, 2).is_err());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        remove(&path).unwrap();
        remove(&path).unwrap();
        assert_eq!(read(&path, 2).unwrap(), None);
    }

    #[test]
    fn a_folder_that_others_may_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let private = dir.path().join("a/b");
        private_dir(&private).unwrap();
        private_dir(&private).unwrap();
        fs::set_permissions(&private, fs::Permissions::from_mode(0o750)).unwrap();
        assert_eq!(private_dir(&private).unwrap_err().path(), Some("data_dir"));
    }
}
