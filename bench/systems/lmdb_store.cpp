// LMDB with its default, durable settings: no MDB_NOSYNC, no MDB_NOMETASYNC, no MDB_WRITEMAP.
#include <lmdb.h>

#include <filesystem>
#include <stdexcept>

#include "harness/mapped_file.hpp"
#include "systems/store.hpp"

namespace nvm::bench {
namespace {

constexpr std::size_t map_bytes = 4ULL << 30;

void check(int result, const char* call) {
  if (result != MDB_SUCCESS) throw std::runtime_error(std::string(call) + ": " + mdb_strerror(result));
}

class lmdb final : public store {
 public:
  explicit lmdb(const std::string& directory) : path_(directory, "lmdb") {
    std::filesystem::create_directory(path_.string());
    check(mdb_env_create(&environment_), "mdb_env_create");
    check(mdb_env_set_mapsize(environment_, map_bytes), "mdb_env_set_mapsize");
    check(mdb_env_open(environment_, path_.c_str(), 0, 0600), "mdb_env_open");
    MDB_txn* transaction = begin(0);
    check(mdb_dbi_open(transaction, nullptr, MDB_INTEGERKEY, &table_), "mdb_dbi_open");
    check(mdb_txn_commit(transaction), "mdb_txn_commit");
  }
  ~lmdb() override { mdb_env_close(environment_); }

  void load(const std::vector<std::uint64_t>& keys, std::string_view value) override {
    MDB_txn* transaction = begin(0);
    for (const std::uint64_t key : keys) put_in(transaction, key, value);
    check(mdb_txn_commit(transaction), "mdb_txn_commit");
  }
  void put(unsigned, std::uint64_t key, std::string_view value) override {
    MDB_txn* transaction = begin(0);
    put_in(transaction, key, value);
    check(mdb_txn_commit(transaction), "mdb_txn_commit");
  }
  std::string get(std::uint64_t key) override {
    MDB_txn* transaction = begin(MDB_RDONLY);
    MDB_val k{sizeof key, &key};
    MDB_val v{};
    check(mdb_get(transaction, table_, &k, &v), "mdb_get");
    std::string value(static_cast<const char*>(v.mv_data), v.mv_size);
    mdb_txn_abort(transaction);
    return value;
  }

 private:
  MDB_txn* begin(unsigned flags) {
    MDB_txn* transaction = nullptr;
    check(mdb_txn_begin(environment_, nullptr, flags, &transaction), "mdb_txn_begin");
    return transaction;
  }
  void put_in(MDB_txn* transaction, std::uint64_t key, std::string_view value) {
    MDB_val k{sizeof key, &key};
    MDB_val v{value.size(), const_cast<char*>(value.data())};  // only read: the interface has no const
    check(mdb_put(transaction, table_, &k, &v, 0), "mdb_put");
  }

  temporary_path path_;
  MDB_env* environment_ = nullptr;
  MDB_dbi table_ = 0;
};

}  // namespace

store_kind lmdb_store() {
  return {"lmdb",
          role::peer,
          [](const std::string& directory, unsigned) { return std::make_unique<lmdb>(directory); },
          {{"version", MDB_VERSION_STRING}, {"flags", "default (durable)"}}};
}

}  // namespace nvm::bench
