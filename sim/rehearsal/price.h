// Prices a recording on a cluster: how long each of its events lasts by itself.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "sim/collectives/select.h"
#include "sim/rehearsal/recording.h"
#include "sim/replay/flights.h"

namespace meshwright::sim {

// The classes of work on a device. The optimizer's kernels are told by the names of operations
// (_foreach_*, _fused_adam*), so those of an optimizer in plain operations count as others, and
// gradient clipping counts as the optimizer's. Copies are those from and to the host's memory.
enum class RecordedWork : std::uint8_t {
  products,
  attention,
  others,
  optimizer,
  copies,
  communication
};
constexpr std::size_t recorded_work_count = 6;
std::string_view name_of(RecordedWork use);  // "matrix products"
constexpr bool computes(RecordedWork use) { return use < RecordedWork::copies; }

// Returns the class of an event that runs on the device.
RecordedWork recorded_work(const Recording& recording, const RecordedEvent& event);

struct PricedEvent {
  SimTime lasts = 0;  // 0 if the event does not run on the device
  RecordedWork use = RecordedWork::others;
  PortLoads loads{};
};

// Returns a priced event for each event of the recording. Kernels last longer by what waiting for
// the slowest rank costs. A collective runs at once in all groups of concurrent_groups(), and a
// message between the same two members of each. Throws InputError if the cluster has another number
// of ranks, is impossible, or has no GPUs.
std::vector<PricedEvent> price(const Recording& recording, const Topology& topology);

// Returns the groups that probably run a collective when `group` does: its shifts, from the lowest
// rank on, that share no rank with earlier ones. Returns `group` alone if it is none of these.
Groups concurrent_groups(const std::vector<int>& group, int ranks);

}  // namespace meshwright::sim
