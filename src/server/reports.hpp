// Reports of the server about itself: the statistics of memcached, under its names, and our own. Each report gives
// pairs of name and value to its caller: a text client or the metrics page.
#pragma once

#include <functional>
#include <string_view>

#include "server/environment.hpp"

namespace nvm::server {

using report_line = std::function<void(std::string_view name, std::string_view value)>;

void report_general(environment& shared, const report_line& tell);
void report_settings(environment& shared, const report_line& tell);
void report_connections(environment& shared, std::uint32_t now, const report_line& tell);
// The next three read every item.
void report_items(environment& shared, item_session& session, std::uint32_t now, const report_line& tell);
void report_slabs(environment& shared, item_session& session, const report_line& tell);
void report_sizes(environment& shared, item_session& session, const report_line& tell);
// Not memcached's: the store and the rounds.
void report_holdfast(environment& shared, const report_line& tell);

// The page for Prometheus.
std::string metrics_page(environment& shared);

}  // namespace nvm::server
