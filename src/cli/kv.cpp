// holdfast kv: the key-value stores of a pool, from the command line.  This file holds the data for the parser, the
// help and the manual page, and the table of actions.
#include <string_view>

#include "cli/actions.hpp"
#include "cli/arguments.hpp"
#include "cli/kv_actions.hpp"

namespace nvm::cli {
namespace kv_verb {
namespace {

constexpr action<kv_actions::call> table[] = {
    {"put", 3, 4, kv_actions::put},
    {"get", 3, 3, kv_actions::get},
    {"del", 3, 3, kv_actions::del},
    {"scan", 2, 2, kv_actions::scan},
    {"load", 2, 3, kv_actions::load},
    {"export", 2, 3, kv_actions::export_entries},
    {"stores", 2, 2, kv_actions::list_stores},
    {"stat", 2, 2, kv_actions::show_statistics},
    {"drop", 2, 2, kv_actions::drop},
};
constexpr auto actions = names_of(table);
constexpr std::string_view index_names[] = {"list", "hash", "btree", "rbtree", "regions"};
constexpr std::string_view formats[] = {"csv", "jsonl"};
constexpr operand operands[] = {
    {"ACTION", operand_kind::choice, true,
     "put, get, del (an entry), scan (entries in order), load, export (CSV or JSON lines), stores (list them), stat "
     "(count and check), drop (a store)",
     actions},
    {"PATH", operand_kind::pool_file, true, "the pool; no other process may have it open for writing"},
    {"WHAT", operand_kind::pool_file, false,
     "put, get, del: the key. load, export: the file; left out or -: standard input or output"},
    {"VALUE", operand_kind::text, false, "put: the value; left out or -: standard input to its end"},
};
constexpr option options[] = {
    {"store", value_kind::text, "NAME", "which store of the pool; default \"main\""},
    {"in", value_kind::text, "NAME",
     "the object store that they lie in (holdfast store), which is there; without it they are the pool's own"},
    {"index", value_kind::choice, "INDEX",
     "put, load: index of the store if it has to be made; default btree. An existing one must have it", index_names},
    {"no-checksums", value_kind::flag, "",
     "put, load: a store that has to be made gets no checksums; an existing one is as it was made"},
    {"format", value_kind::choice, "FORMAT", "load, export: default from the end of the file's name, else csv",
     formats},
    {"no-header", value_kind::flag, "", "load: a first CSV record key,value is an entry; export: write none"},
    {"keep-going", value_kind::flag, "",
     "load: take the entries that are good, one batch after the other, report the rest"},
    {"salvage", value_kind::flag, "",
     "export: everything that can be read of a damaged pool, which is not opened; what is lost is listed"},
    {"base64", value_kind::flag, "", "put, get, del, scan: keys and values are given and printed in base64"},
    {"from", value_kind::text, "KEY", "scan: begin there; of trees only"},
    {"to", value_kind::text, "KEY", "scan: end before it"},
    {"limit", value_kind::count, "N", "scan: at most N entries"},
    {"backward", value_kind::flag, "", "scan: from larger to smaller keys"},
};
constexpr json_field fields[] = {
    {"path", "as given"},
    {"action", "as given"},
    {"object_store", "as --in has it; only with that"},
    {"store", "its name; not with stores"},
    {"index", "as --index has it"},
    {"found", "get, del: whether there was such an entry; put: whether it replaced one"},
    {"value", "get: the value"},
    {"value_base64", "in its place if it is no UTF-8, or with --base64"},
    {"entries[].key", "scan, export without a file: in order"},
    {"entries[].key_base64", "in its place, as for values"},
    {"entries[].value", "of the entry"},
    {"entries[].value_base64", "in its place"},
    {"count", "entries scanned, loaded, exported; of stat and drop: in the store"},
    {"file", "load, export: as given, null: standard input or output"},
    {"format", "load, export: csv or jsonl"},
    {"led_to_count", "export --salvage: entries that links lead to and whose checksum holds"},
    {"swept_count", "export --salvage: entries that no sound link leads to, and whose checksum holds"},
    {"unproved_count", "export --salvage: entries that links lead to, without a checksum to compare with"},
    {"is_copy",
     "export --salvage: whether the file is a copy of a pool that was in use, or whose owner had died; it may be torn"},
    {"lost[].offset", "export --salvage: where something is damaged or missing"},
    {"lost[].key", "of the entry, as far as it can be read"},
    {"lost[].key_base64", "in its place, as for values"},
    {"lost[].problem", "sentence"},
    {"rejected_count", "load --keep-going: records that were not taken"},
    {"rejected[].line", "of the first hundred: line that it begins on"},
    {"rejected[].problem", "sentence"},
    {"stores[].name", "stores: in the order of names"},
    {"stores[].index", "of the store"},
    {"key_bytes", "stat: sum over all entries"},
    {"value_bytes", "stat: sum over all entries"},
    {"checksums", "stat: whether entries have them"},
    {"depth", "stat: of trees, nodes to an entry; of hash tables the level"},
    {"buckets", "stat: of a hash table"},
    {"overflow_buckets", "stat: of a hash table"},
    {"longest_chain", "stat: buckets"},
    {"leaves", "stat: of a B+tree"},
    {"inner_nodes", "stat: of a B+tree"},
    {"load", "stat: entries a slot of the index"},
};
constexpr std::string_view examples[] = {"holdfast kv put shop.nvm apple 17 --index hash",
                                         "holdfast kv get shop.nvm apple",
                                         "holdfast kv load shop.nvm prices.csv --store prices",
                                         "holdfast kv scan shop.nvm --store prices --from a --limit 10",
                                         "holdfast kv export shop.nvm prices.jsonl --store prices",
                                         "holdfast kv get shop.nvm apple --in tenant/17 --store prices"};

exit_code run(const arguments& given, console& out) {
  kv_actions::call c{given, out};
  return run_action(table, c, "the key is missing");
}

}  // namespace
}  // namespace kv_verb

extern const command kv_command;
const command kv_command{
    .name = "kv",
    .summary = "read and write the key-value stores of a pool",
    .description =
        "Reads and writes the named key-value stores that lie in a pool (see docs/kv.md), or with --in in an object "
        "store of it (see docs/stores.md). A store is made when "
        "something is put into it; the pool is made by create.\n\n"
        "load reads CSV as RFC 4180 has it, two fields a record, or JSON lines, {\"key\": ..., \"value\": ...}, where "
        "bytes that are no UTF-8 are \"key_base64\" or \"value_base64\"; export writes the same. Nothing is loaded "
        "when "
        "anything in the file is wrong, unless --keep-going says so; what is wrong is reported with its line.\n\n"
        "export --salvage follows links as far as they are sound, then looks through all records of the pool for those "
        "whose checksum says that they are of the store; the pool is not changed.\n\n"
        "The exit code is 1 when export --salvage has found something damaged, when get or del find no such entry, and "
        "when load --keep-going has rejected something. "
        "scan escapes what cannot be printed; get prints the bytes as they are.",
    .operands = kv_verb::operands,
    .options = kv_verb::options,
    .fields = kv_verb::fields,
    .examples = kv_verb::examples,
    .run = kv_verb::run,
};

}  // namespace nvm::cli
