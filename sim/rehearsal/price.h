// Prices a recording on a cluster: predicts how long each of its events lasts if nothing slows it
// down.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "sim/collectives/select.h"
#include "sim/rehearsal/recording.h"
#include "sim/replay/flights.h"

namespace meshwright::sim {

// The classes of work on a device. Kernels of the optimizer are known by the names of their
// operations (_foreach_*, _fused_adam*). Therefore an optimizer in plain operations counts as
// `others`, and gradient clipping counts as the optimizer. Copies are those from and to the host's
// memory.
enum class RecordedWork : std::uint8_t {
  products,
  attention,
  others,
  optimizer,
  copies,
  communication
};
constexpr std::size_t recorded_work_count = 6;
std::string_view name_of(RecordedWork use);  // such as "matrix products"
constexpr bool computes(RecordedWork use) { return use < RecordedWork::copies; }

// Returns the class of an event that runs on the device.
RecordedWork recorded_work(const Recording& recording, const RecordedEvent& event);

struct PricedEvent {
  SimTime lasts = 0;  // 0 if the event does not run on the device
  RecordedWork use = RecordedWork::others;
  PortLoads loads{};
};

// Returns a priced event for each event of the recording. The times of kernels include the wait for
// the slowest rank. A collective runs at once in all groups of concurrent_groups(), and a message
// between the same two members of each. Throws InputError if the cluster has another number of
// ranks or no GPUs, or if an event would take more than 11 days.
std::vector<PricedEvent> price(const Recording& recording, const Topology& topology);

// Returns the groups that probably run a collective when `group` does: the group shifted to all
// ranks, from the lowest rank on, without those that share a rank with an earlier one. Returns
// `group` alone if it is not among these.
Groups concurrent_groups(const std::vector<int>& group, int ranks);

}  // namespace meshwright::sim
