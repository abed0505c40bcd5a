// Finds which events in the recordings of several ranks are parts of the same message or the same
// collective.
#pragma once

#include <vector>

#include "sim/rehearsal/recording.h"

namespace meshwright::sim {

// Numbers the meetings of ranks. A message from one rank to another is in the recordings of both:
// the first send belongs to the first receive, and so on. A collective is in the recordings of all
// ranks of its group. Ranks that were not recorded are not waited for.
class Meetings {
 public:
  // `ranks` is only used during the call.
  explicit Meetings(const std::vector<const Recording*>& ranks);

  // Returns the meeting that an event of a rank (an index of `ranks`) is part of, or -1.
  int of(std::size_t rank, std::size_t event) const { return of_[rank][event]; }
  // Returns how many ranks take part in a meeting.
  int members(int meeting) const { return members_[static_cast<std::size_t>(meeting)]; }
  int count() const { return static_cast<int>(members_.size()); }
  // Returns a copy without any meeting.
  Meetings none() const;
  // Returns whether all messages and collectives between two or more of the ranks are meetings.
  // Events between the same ranks are no meetings if their number, kind or size differs between the
  // recordings.
  bool complete() const { return complete_; }

 private:
  std::vector<std::vector<int>> of_;  // number of the meeting, by rank and event
  std::vector<int> members_;          // number of ranks, by meeting
  bool complete_ = true;
};

}  // namespace meshwright::sim
