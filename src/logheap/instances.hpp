// Heaps that are compiled once, over any direct medium; programs that use one of them link it.
#pragma once

#include "logheap/logheap.hpp"
#include "logheap/mapping/leaf_mapping.hpp"
#include "logheap/mapping/skip_list_mapping.hpp"
#include "media/media.hpp"

namespace nvm::logheap {

extern template class heap<any_direct, leaf_mapping>;       // leaves_any.cpp
extern template class heap<any_direct, skip_list_mapping>;  // skip_lists_any.cpp

}  // namespace nvm::logheap
