// RocksDB with synced writes: threads that commit at the same time share a sync of its log, as ours do.
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/version.h>

#include <memory>
#include <stdexcept>

#include "harness/mapped_file.hpp"
#include "systems/store.hpp"

namespace nvm::bench {
namespace {

void check(const rocksdb::Status& s, const char* call) {
  if (!s.ok()) throw std::runtime_error(std::string("rocksdb: ") + call + ": " + s.ToString());
}

rocksdb::Slice slice_of(const std::uint64_t& key) { return {reinterpret_cast<const char*>(&key), sizeof key}; }

class rocks final : public store {
 public:
  rocks(const std::string& directory, unsigned threads) : path_(directory, "rocksdb") {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.IncreaseParallelism(static_cast<int>(threads));
    options.compression = rocksdb::kNoCompression;  // nobody else compresses
    rocksdb::DB* made = nullptr;
    check(rocksdb::DB::Open(options, path_.string(), &made), "open");
    db_.reset(made);
    synced_.sync = true;
  }

  void load(const std::vector<std::uint64_t>& keys, std::string_view value) override {
    for (const std::uint64_t key : keys)
      check(db_->Put(rocksdb::WriteOptions(), slice_of(key), {value.data(), value.size()}), "put");
    check(db_->Flush(rocksdb::FlushOptions()), "flush");
  }
  void put(unsigned, std::uint64_t key, std::string_view value) override {
    check(db_->Put(synced_, slice_of(key), {value.data(), value.size()}), "put");
  }
  std::string get(std::uint64_t key) override {
    std::string value;
    check(db_->Get(rocksdb::ReadOptions(), slice_of(key), &value), "get");
    return value;
  }

 private:
  temporary_path path_;
  std::unique_ptr<rocksdb::DB> db_;
  rocksdb::WriteOptions synced_;
};

}  // namespace

store_kind rocksdb_store() {
  return {"rocksdb",
          role::peer,
          [](const std::string& directory, unsigned threads) { return std::make_unique<rocks>(directory, threads); },
          {{"version", rocksdb::GetRocksVersionAsString()}, {"sync", true}, {"compression", "none"}}};
}

}  // namespace nvm::bench
