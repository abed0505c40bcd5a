#include "sim/collectives/nvlink_rings.h"

#include <algorithm>

namespace meshwright::sim {

namespace {

using Ring = std::vector<int>;

// With more GPUs there are too many rings to try. The known machines with direct links have no
// more.
constexpr std::size_t most_gpus = 8;

// Adds to `lines` every way to extend `line` to a line through all GPUs, or only the first way if
// `first_only`.
void extend(const LinkMatrix& links, Ring& line, std::vector<Ring>& lines, bool first_only) {
  if (first_only && !lines.empty()) return;
  if (line.size() == links.size()) {
    lines.push_back(line);
    return;
  }
  for (int next = 0; next < static_cast<int>(links.size()); ++next) {
    if (links[line.back()][next] == 0) continue;
    if (std::ranges::find(line, next) != line.end()) continue;
    line.push_back(next);
    extend(links, line, lines, first_only);
    line.pop_back();
  }
}

// Returns the closed rings through all GPUs that begin at GPU 0, in one direction each.
std::vector<Ring> closed_rings(const LinkMatrix& links) {
  std::vector<Ring> lines;
  Ring line = {0};
  extend(links, line, lines, false);
  std::erase_if(
      lines, [&](const Ring& ring) { return links[ring.back()][0] == 0 || ring[1] > ring.back(); });
  return lines;
}

void add_links(LinkMatrix& links, const Ring& ring, int amount) {
  for (std::size_t i = 0; i < ring.size(); ++i) {
    const std::size_t a = ring[i], b = ring[(i + 1) % ring.size()];
    links[a][b] += amount;
    links[b][a] += amount;
  }
}

bool fits(const LinkMatrix& links, const Ring& ring) {
  for (std::size_t i = 0; i < ring.size(); ++i)
    if (links[ring[i]][ring[(i + 1) % ring.size()]] == 0) return false;
  return true;
}

// Extends `taken` by rings[next] and later ones, in every way that the links in `left` allow, and
// keeps the largest set in `best`. Stops when `best` has `bound` rings. A ring may be taken several
// times while its links last.
void pack(const std::vector<Ring>& rings, std::size_t next, std::size_t bound, LinkMatrix& left,
          std::vector<Ring>& taken, std::vector<Ring>& best) {
  if (taken.size() > best.size()) best = taken;
  for (std::size_t i = next; i < rings.size() && best.size() < bound; ++i) {
    if (!fits(left, rings[i])) continue;
    add_links(left, rings[i], -1);
    taken.push_back(rings[i]);
    pack(rings, i, bound, left, taken, best);
    taken.pop_back();
    add_links(left, rings[i], 1);
  }
}

}  // namespace

std::vector<Ring> nvlink_rings(const LinkMatrix& links) {
  if (links.size() == 2) return std::vector<Ring>(links[0][1], Ring{0, 1});
  if (links.size() < 2 || links.size() > most_gpus) return {};
  int fewest = 64;  // the fewest links of any GPU; a ring takes two of them
  for (const auto& row : links) {
    int sum = 0;
    for (const int count : row) sum += count;
    fewest = std::min(fewest, sum);
  }
  LinkMatrix left = links;
  std::vector<Ring> taken, best;
  pack(closed_rings(links), 0, fewest / 2, left, taken, best);
  std::vector<Ring> both;
  for (const Ring& ring : best) {
    both.push_back(ring);
    both.push_back(ring);
    std::reverse(both.back().begin() + 1, both.back().end());
  }
  return both;
}

std::vector<int> nvlink_line(const LinkMatrix& links) {
  if (links.empty() || links.size() > most_gpus) return {};
  std::vector<Ring> lines;
  for (int first = 0; first < static_cast<int>(links.size()) && lines.empty(); ++first) {
    Ring line = {first};
    extend(links, line, lines, true);
  }
  return lines.empty() ? Ring{} : lines.front();
}

}  // namespace meshwright::sim
