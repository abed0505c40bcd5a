// Partitions a tree of modules from the root down. A list of children that holds several parts is
// cut into segments (exact min-max), and the parts are given to the segments in proportion to cost
// by D'Hondt's method. A segment with several parts is cut again, into its own children if it is a
// single module. The number of segments is the one that promises the least cost per part. A module
// is on the first part of its subtree. Its own cost is charged to its first child, which shares
// that part.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "models/compiler/partition/partition.h"
#include "models/core/error.h"

namespace meshwright::compiler {

namespace {

// Consecutive parts [first, first + count).
struct Parts {
  int first = 0;
  int count = 1;
};

class TreeCut {
 public:
  explicit TreeCut(const ModuleTree& tree)
      : tree_(tree),
        children_(tree.items.size()),
        cost_(tree.items.size()),
        leaves_(tree.items.size()),
        part_(tree.items.size(), 0) {
    for (std::size_t i = tree.items.size(); i-- > 0;) {
      const ModuleTree::Item& item = tree.items[i];
      MESHWRIGHT_CHECK(std::isfinite(item.cost) && item.cost >= 0, "costs are not negative");
      MESHWRIGHT_CHECK(item.parent < static_cast<int>(i), "parents stand before children");
      cost_[i] += item.cost;
      leaves_[i] = std::max(leaves_[i], 1);
      if (item.parent < 0) continue;
      cost_[item.parent] += cost_[i];
      leaves_[item.parent] += leaves_[i];
    }
    for (std::size_t i = 0; i < tree.items.size(); ++i)
      (tree.items[i].parent < 0 ? roots_ : children_[tree.items[i].parent])
          .push_back(static_cast<int>(i));
  }

  int leaves() const {
    int total = 0;
    for (int root : roots_) total += leaves_[root];
    return total;
  }

  std::vector<int> run(int parts) {
    cut_list(roots_, {0, parts}, {});
    return part_;
  }

 private:
  using List = std::vector<int>;

  // Cost from outside a list that the first and the last part of the list carry in addition.
  struct Burden {
    double first = 0, last = 0;
  };

  // Holds one way to cut a list: the segment of each child, the number of parts of each segment
  // (`seats`), and the largest cost of a part that this promises.
  struct Deal {
    std::vector<int> segment_of, seats;
    std::vector<double> cost;  // of each segment
    double promise = 0;
  };

  void cut_list(const List& list, Parts parts, Burden burden) {
    if (parts.count == 1) {
      for (int item : list) give(item, parts.first);
    } else if (list.size() == 1) {
      part_[list[0]] = parts.first;
      burden.first += tree_.items[list[0]].cost;
      cut_list(children_[list[0]], parts, burden);
    } else {
      cut_segments(list, parts, burden);
    }
  }

  void cut_segments(const List& list, Parts parts, Burden burden) {
    const Deal deal = best_deal(list, parts.count, burden);
    const int count = static_cast<int>(deal.seats.size());
    int next = parts.first;
    // Cost that the next part with a seat carries in addition. deal.cost already includes the
    // burden of the first and the last segment.
    double waiting = deal.seats.front() > 0 ? burden.first : 0;
    for (int s = 0; s < count; ++s) {
      List segment;
      for (std::size_t i = 0; i < list.size(); ++i)
        if (deal.segment_of[i] == s) segment.push_back(list[i]);
      const int seats = deal.seats[s];
      if (seats == 0) {  // the segment joins the part before it, or the first part
        cut_list(segment, {std::max(next - 1, parts.first), 1}, {});
        if (next == parts.first) waiting += deal.cost[s];
        continue;
      }
      Burden own{std::exchange(waiting, 0), s == count - 1 ? burden.last : 0};
      for (int t = s + 1; t < count && deal.seats[t] == 0; ++t) own.last += deal.cost[t];
      cut_list(segment, {next, seats}, own);
      next += seats;
    }
  }

  Deal best_deal(const List& list, int parts, Burden burden) const {
    std::vector<double> costs;
    for (int item : list) costs.push_back(cost_[item]);
    costs.front() += burden.first;
    costs.back() += burden.last;
    Deal best;
    for (int count = std::min(parts, static_cast<int>(list.size())); count >= 2; --count)
      for (int least : {1, 0}) {  // 1: each segment has a part; 0: light segments may have none
        Deal deal;
        deal.segment_of = cut_chain(costs, count);
        deal.cost.assign(count, 0);
        std::vector<int> limit(count, 0);  // a leaf cannot be cut
        for (std::size_t i = 0; i < list.size(); ++i) {
          deal.cost[deal.segment_of[i]] += costs[i];
          limit[deal.segment_of[i]] += leaves_[list[i]];
        }
        deal.seats = hondt(deal.cost, limit, least, parts);
        deal.promise = promise(deal);
        if (best.seats.empty() || deal.promise < best.promise) best = deal;
      }
    return best;
  }

  // Returns the number of parts (seats) of each segment by D'Hondt's method: the next seat goes to
  // the largest cost / (seats + 1). Each segment begins with `least` seats and has at most its
  // `limit`.
  static std::vector<int> hondt(const std::vector<double>& cost, const std::vector<int>& limit,
                                int least, int parts) {
    std::vector<int> seats(cost.size(), least);
    for (int dealt = least * static_cast<int>(cost.size()); dealt < parts; ++dealt) {
      std::size_t best = cost.size();
      for (std::size_t s = 0; s < cost.size(); ++s)
        if (seats[s] < limit[s] &&
            (best == cost.size() || cost[s] * (seats[best] + 1) > cost[best] * (seats[s] + 1)))
          best = s;
      MESHWRIGHT_CHECK(best < cost.size(), "as many leaves as parts");
      ++seats[best];
    }
    return seats;
  }

  // Returns the largest cost per part if every segment were cut evenly. A segment without a part
  // counts with the last one before it that has a part, or with the first one that has a part.
  static double promise(const Deal& deal) {
    double largest = 0, cost = 0;
    int seats = 0;
    for (std::size_t s = 0; s < deal.seats.size(); ++s) {
      if (deal.seats[s] > 0 && seats > 0) {
        largest = std::max(largest, cost / seats);
        cost = 0;
      }
      cost += deal.cost[s];
      if (deal.seats[s] > 0) seats = deal.seats[s];
    }
    return std::max(largest, cost / seats);
  }

  void give(int item, int part) {
    part_[item] = part;
    for (int child : children_[item]) give(child, part);
  }

  const ModuleTree& tree_;
  List roots_;
  std::vector<List> children_;
  std::vector<double> cost_;  // of the subtree
  std::vector<int> leaves_;   // of the subtree
  std::vector<int> part_;
};

}  // namespace

std::vector<int> cut_tree(const ModuleTree& tree, int parts) {
  MESHWRIGHT_CHECK(parts >= 1, "at least one part");
  TreeCut cut(tree);
  if (cut.leaves() < parts)
    throw InputError("a module tree with " + std::to_string(cut.leaves()) +
                     " leaves cannot be cut into " + std::to_string(parts) +
                     " parts; use at most " + std::to_string(cut.leaves()));
  return cut.run(parts);
}

}  // namespace meshwright::compiler
