//! Every store passes the contract kit.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use tempfile::TempDir;
use tunesmith_contract::store::{Medium, check};
use tunesmith_store::MemoryStore;
use tunesmith_store::{OpenMode, SledStore, SqliteStore, Store};

struct Memory(Arc<MemoryStore>);

#[async_trait]
impl Medium for Memory {
    async fn open(&self) -> Arc<dyn Store> {
        self.0.clone()
    }
}

struct Folder {
    folder: TempDir,
    open: fn(PathBuf) -> Arc<dyn Store>,
}

impl Folder {
    fn new(open: fn(PathBuf) -> Arc<dyn Store>) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), open }
    }
}

#[async_trait]
impl Medium for Folder {
    async fn open(&self) -> Arc<dyn Store> {
        (self.open)(self.folder.path().join("store"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn memory_passes_the_contract_kit() {
    check(|| Memory(Arc::new(MemoryStore::new()))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sqlite_passes_the_contract_kit() {
    check(|| Folder::new(|path| Arc::new(SqliteStore::open(&path, OpenMode::Create).unwrap()))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sled_passes_the_contract_kit() {
    check(|| Folder::new(|path| Arc::new(SledStore::open(&path, OpenMode::Create).unwrap()))).await;
}
