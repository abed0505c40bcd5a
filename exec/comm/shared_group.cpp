#include "exec/comm/shared_group.h"

#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <set>
#include <string>

#include "exec/comm/communicator.h"

namespace meshwright::exec {

SharedPlace SharedSegments::find(int rank, const void* data, std::int64_t bytes) const {
  const char* wanted = static_cast<const char*>(data);
  for (std::size_t i = 0; i < sets_.size(); ++i) {
    const SharedSegment& segment = sets_[i][rank];
    if (segment.base() == nullptr) continue;
    if (wanted >= segment.base() && wanted + bytes <= segment.base() + segment.bytes())
      return {static_cast<std::int64_t>(i), wanted - segment.base()};
  }
  return {};
}

char* SharedSegments::address(int rank, const SharedPlace& place) const {
  if (place.segment < 0) return nullptr;
  char* base = sets_[place.segment][rank].base();
  return base == nullptr ? nullptr : base + place.offset;
}

// Reads /proc/self/smaps, which has a line "begin-end ..." for every mapping, and later "Rss: N
// kB".
std::int64_t SharedSegments::resident_bytes_of_others(int rank) const {
  std::set<std::uintptr_t> foreign;
  for (const std::vector<SharedSegment>& set : sets_)
    for (std::size_t i = 0; i < set.size(); ++i)
      if (static_cast<int>(i) != rank)
        foreign.insert(reinterpret_cast<std::uintptr_t>(set[i].base()));
  std::int64_t kilobytes = 0;
  bool counts = false;
  std::ifstream mappings("/proc/self/smaps");
  for (std::string line; std::getline(mappings, line);) {
    std::uintptr_t begin = 0, end = 0;
    std::int64_t size = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR, &begin, &end) == 2)
      counts = foreign.contains(begin);
    else if (counts && std::sscanf(line.c_str(), "Rss: %" SCNd64, &size) == 1)
      kilobytes += size;
  }
  return kilobytes * 1024;
}

SharedGroup::SharedGroup(std::vector<SharedSlot*> slots, std::span<const int> ranks, int own,
                         const SharedSegments& segments, const double& deadline_s)
    : slots_(std::move(slots)),
      ranks_(ranks.begin(), ranks.end()),
      own_(own),
      segments_(segments),
      deadline_s_(deadline_s) {}

void SharedGroup::barrier(const std::function<void()>& progress) {
  ++barriers_;
  slots_[own_]->arrived.store(barriers_, std::memory_order_release);
  for (const SharedSlot* slot : slots_) {
    Backoff backoff(progress, deadline_s_);
    while (slot->arrived.load(std::memory_order_acquire) < barriers_)
      if (!backoff.pause()) give_up();
  }
}

void SharedGroup::give_up() const {
  std::vector<int> missing;
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i]->arrived.load(std::memory_order_acquire) < barriers_)
      missing.push_back(ranks_[i]);
  throw WaitedTooLong(deadline_s_, missing);
}

std::span<char* const> SharedGroup::meet(const void* data, std::int64_t bytes,
                                         const std::function<void()>& progress) {
  slots_[own_]->place = segments_.find(ranks_[own_], data, bytes);
  barrier(progress);
  addresses_.clear();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    char* address = segments_.address(ranks_[i], slots_[i]->place);
    if (address == nullptr) return {};
    addresses_.push_back(address);
  }
  return addresses_;
}

}  // namespace meshwright::exec
