// Door of layer 7, tier: pages of a pool are in a second file while they are cold.
#pragma once

#include "tier/page_file.hpp"
#include "tier/page_file_layout.hpp"
#include "tier/policy.hpp"
#include "tier/pool_tier.hpp"
#include "tier/swapper.hpp"
