// Door of layer 1: processor and system.  It hides every #ifdef of the sources.
#pragma once

#include "platform/cancellation.hpp"
#include "platform/clock.hpp"
#include "platform/descriptor.hpp"
#include "platform/file.hpp"
#include "platform/identity.hpp"
#include "platform/isa.hpp"
#include "platform/lost_pages.hpp"
#include "platform/map.hpp"
#include "platform/memory_watch.hpp"
#include "platform/page_access.hpp"
#include "platform/pages.hpp"
#include "platform/pending_name.hpp"
#include "platform/process.hpp"
#include "platform/threads.hpp"
#include "platform/user_faults.hpp"
#include "platform/zeroed_memory.hpp"
