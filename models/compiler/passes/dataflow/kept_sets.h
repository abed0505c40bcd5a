// Finds which tensors one unit of the chain can save for the backward pass, and what each choice
// costs: the trade-off of memory against recomputation, without knowledge of the graph around the
// unit. All choices are considered if the unit has at most 20 options (number_options()). If it has
// more groups of operations than that, those that cost most per byte are never recomputed.
#pragma once

#include <cstdint>
#include <vector>

namespace meshwright::compiler {

// Describes a unit's forward operations, and the order in which its backward phase reads their
// results.
struct KeptProblem {
  struct Item {  // a tensor
    std::int64_t bytes = 0;
    bool needed = false;  // read in the backward phase
    bool operator==(const Item&) const = default;
  };
  struct Step {  // an operation, in forward order
    double cost = 0;
    std::vector<int> reads, makes;  // items; one that no step makes comes from outside the unit
    bool always = false;            // it is repeated in any case, so its cost is not counted
    bool operator==(const Step&) const = default;
  };
  std::vector<Item> items;
  std::vector<Step> steps;
  // The items that each node of the backward phase reads, in the order of the nodes.
  std::vector<std::vector<int>> backward;
  bool operator==(const KeptProblem&) const = default;
};

// Describes one choice. A repeated step runs just before the first backward read of an item that it
// recomputes (rematerialize_tensors.h).
struct KeptSet {
  std::int64_t kept = 0;     // bytes kept from forward to backward
  std::int64_t working = 0;  // most bytes of recomputed items that are live at one time
  double cost = 0;           // of the repeated steps, in FLOPs
  std::uint32_t options = 0;
};

class KeptSets {
 public:
  explicit KeptSets(const KeptProblem& problem);

  // Returns the choices that no other choice equals or beats in kept, working and cost together,
  // sorted by cost.
  const std::vector<KeptSet>& frontier() const { return frontier_; }
  KeptSet unlimited() const;  // repeats only steps that are always repeated
  // Returns for each item whether this choice recomputes it.
  std::vector<char> made_again(const KeptSet& set) const;

 private:
  struct Charge {  // what an item adds to the kept bytes, by the options that are set
    std::int64_t bytes = 0;
    std::uint32_t maker = 0, kept_anyway = 0, readers = 0;
    bool needed = false;
  };
  void join_steps();
  void number_options();
  void limit_options();
  void find_frontier();
  int group_of(int step) const;
  void list_sets(int first, int undecided, const KeptSet& set, std::vector<KeptSet>& all) const;
  bool is_again(int item, std::uint32_t options) const;
  std::int64_t kept_bytes(std::uint32_t options) const;
  double cost_of(std::uint32_t options) const;
  std::int64_t working_bytes(std::uint32_t options) const;

  const KeptProblem& problem_;
  std::vector<int> maker_;                 // per item: the step that makes it, or -1
  std::vector<std::vector<int>> readers_;  // per item: the steps that read it
  std::vector<int> joined_;                // per step: a step that it is repeated with, or itself
  std::vector<int> groups_;                // steps that stand for their group, in order
  std::vector<std::uint32_t> bit_;         // per step: the bit of its group
  std::vector<double> group_cost_;
  std::vector<Charge> charges_;  // per item
  // Per group: the items that it makes, and the items from outside all groups that it reads.
  std::vector<std::vector<Charge>> made_by_, taken_by_;
  std::uint32_t always_ = 0;
  int options_ = 0;
  std::vector<KeptSet> frontier_;
};

}  // namespace meshwright::compiler
