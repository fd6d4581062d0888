// Door of layer 0: results, assertions, bits, checksums, checked words.  No system calls, no durability.
#pragma once

#include "base/assert.hpp"
#include "base/bits.hpp"
#include "base/brought_first.hpp"
#include "base/checked_word.hpp"
#include "base/checksum.hpp"
#include "base/plant.hpp"
#include "base/prefetch.hpp"
#include "base/result.hpp"
