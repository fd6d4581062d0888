// Door of layer 6, announced stores: transactions, the heap they run on, recovery.
#pragma once

#include "tx/aligned_object.hpp"
#include "tx/heap.hpp"
#include "tx/mnemosyne_engine.hpp"
#include "tx/open_transaction.hpp"
#include "tx/recover.hpp"
#include "tx/transaction.hpp"
