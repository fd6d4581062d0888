// Door of layer 3: the pool file, its superblock, and the pools open in this process.
#pragma once

#include "pool/base_history.hpp"
#include "pool/engines.hpp"
#include "pool/geometry.hpp"
#include "pool/header_read.hpp"
#include "pool/open_pools.hpp"
#include "pool/place.hpp"
#include "pool/pool_file.hpp"
#include "pool/pool_layout.hpp"
#include "pool/superblock.hpp"
#include "pool/tier_record.hpp"
