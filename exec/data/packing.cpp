#include "exec/data/packing.h"

#include <algorithm>
#include <numeric>

#include "models/core/error.h"
#include "models/program/graph/attributes.h"

namespace meshwright::exec {

void PackedRow::append(std::span<const std::int32_t> document, std::span<const char> counts) {
  const auto begin = static_cast<std::int32_t>(tokens.size());
  for (std::size_t i = 0; i + 1 < document.size(); ++i) {
    tokens.push_back(document[i]);
    targets.push_back(counts[i + 1] != 0 ? document[i + 1] : ignored_target);
    documents.push_back(begin);
  }
}

void PackedRow::pad(std::int64_t length) {
  MESHWRIGHT_CHECK(std::ssize(tokens) <= length, "documents were packed where there is room");
  for (auto place = static_cast<std::int32_t>(tokens.size()); place < length; ++place)
    documents.push_back(place);
  tokens.resize(length, 0);
  targets.resize(length, ignored_target);
}

void PackedRow::split(std::span<const std::int32_t> window, std::int32_t end) {
  std::vector<std::int32_t> begins;
  for (std::size_t i = 0; i + 1 < window.size(); ++i)
    if (window[i] == end) begins.push_back(static_cast<std::int32_t>(i + 1));
  split_at(window, begins);
}

void PackedRow::split_at(std::span<const std::int32_t> window,
                         std::span<const std::int32_t> begins) {
  tokens.assign(window.begin(), window.end() - 1);
  targets.assign(window.begin() + 1, window.end());
  documents.assign(tokens.size(), 0);
  for (const std::int32_t begin : begins) {
    const auto place = static_cast<std::size_t>(begin);
    targets[place - 1] = ignored_target;
    if (place < documents.size()) documents[place] = begin;
  }
  std::partial_sum(documents.begin(), documents.end(), documents.begin(),
                   [](std::int32_t before, std::int32_t own) { return std::max(before, own); });
}

std::int64_t PackedRow::counted() const {
  return std::ssize(targets) - std::ranges::count(targets, ignored_target);
}

std::int64_t PackedRow::work() const {
  std::int64_t sum = 0;
  const std::int64_t end = std::ssize(documents);
  for (std::int64_t place = 0; place < end; ++place) {
    const std::int64_t begin = documents[place];
    const bool last = place + 1 == end || documents[place + 1] > begin;
    if (last) sum += (place + 1 - begin) * (place + 1 - begin);
  }
  return sum;
}

std::vector<std::vector<std::int64_t>> pack_rows(std::span<const std::int64_t> places,
                                                 std::int64_t length, std::int64_t window) {
  std::vector<std::vector<std::int64_t>> rows;
  for (std::int64_t first = 0; first < std::ssize(places); first += window) {
    std::vector<std::int64_t> order(std::min(window, std::ssize(places) - first));
    std::iota(order.begin(), order.end(), first);
    const auto of = [&](std::int64_t document) { return places[document]; };
    std::ranges::stable_sort(order, std::ranges::greater{}, of);
    const auto first_row = std::ssize(rows);
    std::vector<std::int64_t> room;
    for (const std::int64_t document : order) {
      MESHWRIGHT_CHECK(of(document) <= length, "a document fits into a row");
      const auto found =
          std::ranges::find_if(room, [&](std::int64_t left) { return left >= of(document); });
      const auto row = static_cast<std::size_t>(found - room.begin());
      if (found == room.end()) room.push_back(length), rows.emplace_back();
      room[row] -= of(document);
      rows[static_cast<std::size_t>(first_row) + row].push_back(document);
    }
  }
  return rows;
}

namespace {

std::size_t smallest_factor(std::size_t number) {
  for (std::size_t p = 2; p * p <= number; ++p)
    if (number % p == 0) return p;
  return number;
}

// Appends `rows`, which are sorted by decreasing work, to `order` so that blocks of neighbours have
// even work.
void spread_rows(std::span<const std::int64_t> work, const std::vector<std::int64_t>& rows,
                 std::vector<std::int64_t>& order) {
  if (rows.size() < 2) {
    order.insert(order.end(), rows.begin(), rows.end());
    return;
  }
  struct Group {
    std::int64_t work = 0;
    std::vector<std::int64_t> rows;
  };
  std::vector<Group> groups(smallest_factor(rows.size()));
  const std::size_t room = rows.size() / groups.size();
  for (const std::int64_t row : rows) {
    Group* least = nullptr;
    for (Group& group : groups)
      if (group.rows.size() < room && (least == nullptr || group.work < least->work))
        least = &group;
    least->work += work[row];
    least->rows.push_back(row);
  }
  if (room == 1) {  // the heaviest stays the first
    order.insert(order.end(), rows.begin(), rows.end());
    return;
  }
  for (const Group& group : groups) spread_rows(work, group.rows, order);
}

}  // namespace

std::vector<std::int64_t> balanced_order(std::span<const std::int64_t> work) {
  std::vector<std::int64_t> rows(work.size()), order;
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  std::ranges::stable_sort(rows, std::ranges::greater{},
                           [&](std::int64_t row) { return work[row]; });
  spread_rows(work, rows, order);
  return order;
}

}  // namespace meshwright::exec
