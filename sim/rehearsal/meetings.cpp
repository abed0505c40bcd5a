#include "sim/rehearsal/meetings.h"

#include <algorithm>
#include <map>
#include <utility>

namespace meshwright::sim {

namespace {

using Events = std::vector<std::size_t>;
// {from, to} for messages from one rank to another, or -1 and the sorted ranks of a group for its
// collectives.
using Key = std::vector<int>;
// The events with one key, by rank (an index of the recordings).
using ByRank = std::map<std::size_t, Events>;

bool is_message(const RecordedEvent& event) { return event.collective >= RecordedCollective::send; }

Key key_of(const Recording& rank, const RecordedEvent& event) {
  const std::vector<int>& group = rank.groups[static_cast<std::size_t>(event.group)];
  if (is_message(event)) {
    const int peer = group[static_cast<std::size_t>(event.peer)];
    return event.collective == RecordedCollective::send ? Key{rank.rank, peer}
                                                        : Key{peer, rank.rank};
  }
  Key key{-1};
  key.insert(key.end(), group.begin(), group.end());
  std::sort(key.begin() + 1, key.end());
  return key;
}

bool takes_part(const Key& key, int rank) { return std::ranges::find(key, rank) != key.end(); }

// Returns whether two events may be parts of one meeting: they have the same bytes and, if they are
// collectives, the same kind.
bool are_alike(const RecordedEvent& one, const RecordedEvent& other) {
  return one.bytes == other.bytes && (is_message(one) || one.collective == other.collective);
}

}  // namespace

Meetings::Meetings(const std::vector<const Recording*>& ranks) {
  std::map<Key, ByRank> found;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::vector<RecordedEvent>& events = ranks[rank]->events;
    of_.emplace_back(events.size(), -1);
    for (std::size_t event = 0; event < events.size(); ++event)
      if (ranks.size() > 1 && events[event].what == Recorded::collective)
        found[key_of(*ranks[rank], events[event])][rank].push_back(event);
  }
  for (const auto& [key, by_rank] : found) {
    const auto expected = std::ranges::count_if(
        ranks, [&](const Recording* each) { return takes_part(key, each->rank); });
    if (expected < 2) continue;
    const auto& [first, events] = *by_rank.begin();
    const bool meet =
        std::cmp_equal(by_rank.size(), expected) &&
        std::ranges::all_of(by_rank, [&](const auto& other) {
          return std::ranges::equal(events, other.second, [&](std::size_t one, std::size_t two) {
            return are_alike(ranks[first]->events[one], ranks[other.first]->events[two]);
          });
        });
    complete_ = complete_ && meet;
    for (std::size_t place = 0; meet && place < events.size(); ++place) {
      for (const auto& [rank, own] : by_rank) of_[rank][own[place]] = count();
      members_.push_back(static_cast<int>(expected));
    }
  }
}

Meetings Meetings::none() const {
  Meetings alone = *this;
  for (std::vector<int>& each : alone.of_) std::ranges::fill(each, -1);
  alone.members_.clear();
  return alone;
}

}  // namespace meshwright::sim
