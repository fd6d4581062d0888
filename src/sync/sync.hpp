// Door of layer 2, volatile concurrency: locks and the per-thread identity.  Knows nothing durable.
#pragma once

#include "sync/biased_lock.hpp"
#include "sync/spin_lock.hpp"
#include "sync/thread_token.hpp"
