// Door of layer 8: key-value stores, as operations inside barrier transactions.
#pragma once

#include "kv/inspect.hpp"
#include "kv/operations.hpp"
#include "kv/readable.hpp"
#include "kv/salvage.hpp"
#include "kv/scratch.hpp"
#include "kv/store.hpp"
