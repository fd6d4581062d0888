// Door of layer 7, store: names of stores, their rights, and the protection of their pages.
#pragma once

#include "store/burst_trie.hpp"
#include "store/burst_trie_change.hpp"
#include "store/burst_trie_check.hpp"
#include "store/catalogue.hpp"
#include "store/catalogue_check.hpp"
#include "store/names_layout.hpp"
#include "store/own_links.hpp"
#include "store/page_guard.hpp"
#include "store/pool_memory.hpp"
#include "store/rights.hpp"
#include "store/trie_memory.hpp"
