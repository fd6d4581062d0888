// Door of layer 2: the only way to durable bytes.
//
//   concept.hpp        promises of a medium: flush, fence, durable, batches
//   direct_media.hpp   mapped memory that is durable itself: shm, dax, auto
//   image_media.hpp    private image and log over a block device: ssd
//   checkpointer.hpp   the thread that empties its log; replay.hpp: what a crash left in it
//   ordered_media.hpp  order only, at no cost: for the recorder, and tests of logic
//   synced_media.hpp   a file mapped shared: a fence is a sync for all waiting threads
//   latency_media.hpp  decorator: emulated non-volatile memory
//   meter_media.hpp    decorator: fences, lines, bytes, writes per block
//   recorder.hpp       decorator: tells a sink of everything that passes
//   any_media.hpp      any of them, chosen at run time: one type for all that count, delay, record or sync
#pragma once

#include "media/any_media.hpp"
#include "media/checkpointer.hpp"
#include "media/concept.hpp"
#include "media/direct_media.hpp"
#include "media/image_media.hpp"
#include "media/latency_media.hpp"
#include "media/meter_media.hpp"
#include "media/ordered_media.hpp"
#include "media/recorder.hpp"
#include "media/started_image.hpp"
#include "media/synced_media.hpp"
