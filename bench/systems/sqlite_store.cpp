// SQLite in WAL mode with synchronous=FULL: every commit is synced. One connection for each thread.
//
// Writers take a mutex of the program's own: one at a time may write anyway, and waiting in SQLite's busy handler,
// which sleeps for whole milliseconds, would make it look slower than it is.
#include <sqlite3.h>

#include <filesystem>
#include <mutex>
#include <stdexcept>

#include "harness/mapped_file.hpp"
#include "systems/store.hpp"

namespace nvm::bench {
namespace {

class connection {
 public:
  explicit connection(const std::string& path) {
    check(
        sqlite3_open_v2(path.c_str(), &db_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr),
        "sqlite3_open_v2");
    execute("PRAGMA journal_mode=WAL");
    execute("PRAGMA synchronous=FULL");
    execute("CREATE TABLE IF NOT EXISTS kv (k INTEGER PRIMARY KEY, v BLOB NOT NULL)");
    prepare("INSERT INTO kv VALUES (?1, ?2) ON CONFLICT (k) DO UPDATE SET v = excluded.v", &put_);
    prepare("SELECT v FROM kv WHERE k = ?1", &get_);
  }
  ~connection() {
    sqlite3_finalize(put_);
    sqlite3_finalize(get_);
    sqlite3_close(db_);
  }
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;

  void execute(const char* statement) { check(sqlite3_exec(db_, statement, nullptr, nullptr, nullptr), statement); }
  void put(std::uint64_t key, std::string_view value) {
    check(sqlite3_bind_int64(put_, 1, static_cast<sqlite3_int64>(key)), "bind");
    check(sqlite3_bind_blob(put_, 2, value.data(), static_cast<int>(value.size()), SQLITE_STATIC), "bind");
    if (sqlite3_step(put_) != SQLITE_DONE) fail("put");
    check(sqlite3_reset(put_), "reset");
  }
  std::string get(std::uint64_t key) {
    check(sqlite3_bind_int64(get_, 1, static_cast<sqlite3_int64>(key)), "bind");
    if (sqlite3_step(get_) != SQLITE_ROW) fail("get");
    std::string value(static_cast<const char*>(sqlite3_column_blob(get_, 0)),
                      static_cast<std::size_t>(sqlite3_column_bytes(get_, 0)));
    check(sqlite3_reset(get_), "reset");
    return value;
  }

 private:
  void prepare(const char* statement, sqlite3_stmt** out) {
    check(sqlite3_prepare_v3(db_, statement, -1, SQLITE_PREPARE_PERSISTENT, out, nullptr), statement);
  }
  void check(int result, const char* call) {
    if (result != SQLITE_OK) fail(call);
  }
  [[noreturn]] void fail(const char* call) {
    throw std::runtime_error(std::string("sqlite: ") + call + ": " + sqlite3_errmsg(db_));
  }

  sqlite3* db_ = nullptr;
  sqlite3_stmt* put_ = nullptr;
  sqlite3_stmt* get_ = nullptr;
};

class sqlite final : public store {
 public:
  sqlite(const std::string& directory, unsigned threads) : path_(directory, "sqlite") {
    std::filesystem::create_directory(path_.string());
    for (unsigned i = 0; i < threads; ++i) connections_.push_back(std::make_unique<connection>(path_.string() + "/kv"));
  }

  void load(const std::vector<std::uint64_t>& keys, std::string_view value) override {
    connections_[0]->execute("BEGIN");
    for (const std::uint64_t key : keys) connections_[0]->put(key, value);
    connections_[0]->execute("COMMIT");
  }
  void put(unsigned thread, std::uint64_t key, std::string_view value) override {
    const std::lock_guard lock(writer_);
    connections_[thread]->put(key, value);
  }
  std::string get(std::uint64_t key) override { return connections_[0]->get(key); }

 private:
  temporary_path path_;
  std::mutex writer_;
  std::vector<std::unique_ptr<connection>> connections_;
};

}  // namespace

store_kind sqlite_store() {
  return {"sqlite",
          role::peer,
          [](const std::string& directory, unsigned threads) { return std::make_unique<sqlite>(directory, threads); },
          {{"version", SQLITE_VERSION}, {"journal_mode", "WAL"}, {"synchronous", "FULL"}}};
}

}  // namespace nvm::bench
