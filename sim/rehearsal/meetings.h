// Finds which events of several ranks are one message or one collective.
#pragma once

#include <vector>

#include "sim/rehearsal/recording.h"

namespace meshwright::sim {

// A message from one rank to another is in the recordings of both: the first send is received by
// the first receive, and so on. A collective is in those of all ranks of its group. Ranks whose
// recordings are not there do the same as one that is, and are not waited for.
class Meetings {
 public:
  // `ranks` must outlive the call alone.
  explicit Meetings(const std::vector<const Recording*>& ranks);

  // Returns the meeting that an event of a rank (an index of `ranks`) is part of, or -1.
  int of(std::size_t rank, std::size_t event) const { return of_[rank][event]; }
  // Returns how many ranks take part in a meeting.
  int members(int meeting) const { return members_[static_cast<std::size_t>(meeting)]; }
  int count() const { return static_cast<int>(members_.size()); }
  // Returns the same without any meeting.
  Meetings none() const;
  // Says whether every message and collective of two ranks or more is a meeting. Those that differ
  // in number, kind or size are none.
  bool complete() const { return complete_; }

 private:
  std::vector<std::vector<int>> of_;  // by rank and event
  std::vector<int> members_;          // by meeting
  bool complete_ = true;
};

}  // namespace meshwright::sim
