// Divides the segments of a captured model into the units from which pipeline stages are made.
#include <algorithm>
#include <cctype>
#include <set>

#include "models/architectures/captured/captured_model.h"

namespace meshwright::architectures {

namespace {

// As many FLOPs take the time of one byte. Only ratios of work matter here, so any GPU's value will
// do.
constexpr double flops_per_byte = 75;
constexpr double largest_share = 1.0 / 20;
// A unit is divided so that at least this share of its work is on each side, if that is possible.
constexpr double smaller_side = 0.25;

double work_of(const std::vector<CapturedKernel>& kernels, int micro_batch) {
  double work = 0;
  for (const CapturedKernel& each : kernels)
    work += std::max(each.flops.of(micro_batch) / flops_per_byte, each.bytes.of(micro_batch));
  return work;
}

// Returns the path up to its first part that is a number: `h.3` for `h.3.attn.q`. Returns "" if it
// has none.
std::string block_of(const std::string& module) {
  for (std::size_t begin = 0; begin < module.size();) {
    const std::size_t end = std::min(module.find('.', begin), module.size());
    const std::string name = module.substr(begin, end - begin);
    const bool is_number = !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
      return std::isdigit(c) != 0;
    });
    if (is_number) return module.substr(0, end);
    begin = end + 1;
  }
  return "";
}

class UnitMaker {
 public:
  explicit UnitMaker(const CapturedModel& model) : model_(model), sums_(1, 0.0) {
    for (const CapturedSegment& segment : model.segments) {
      sums_.push_back(sums_.back() + work_of(segment));
    }
    last_reader_.assign(model.tensors.size(), -1);
    for (int i = 0; i < segments(); ++i)
      for (const int tensor : segment(i).reads) last_reader_[static_cast<std::size_t>(tensor)] = i;
  }

  std::vector<CapturedUnit> run() {
    for (int begin = 0; begin < segments();) {
      const std::string block = block_of(segment(begin).module);
      int end = begin + 1;
      while (end < segments() && belongs(end, block)) ++end;
      divide({block, begin, end, !block.empty()});
      begin = end;
    }
    name();
    return std::move(units_);
  }

 private:
  double work_of(const CapturedSegment& segment) const {
    if (segment.exchange) return 0;
    const CapturedWork& work = model_.kinds[static_cast<std::size_t>(segment.kind)].eager;
    return architectures::work_of(work.forward, model_.micro_batch) +
           architectures::work_of(work.backward, model_.micro_batch);
  }
  int segments() const { return static_cast<int>(model_.segments.size()); }
  const CapturedSegment& segment(int i) const {
    return model_.segments[static_cast<std::size_t>(i)];
  }
  double work(int begin, int end) const {
    return sums_[static_cast<std::size_t>(end)] - sums_[static_cast<std::size_t>(begin)];
  }

  // Returns whether the segment belongs to the block, or has no block of its own and is between
  // segments of this block. An addition in a function of the model is such a segment.
  bool belongs(int i, const std::string& block) const {
    if (!may_begin(i)) return true;
    const std::string own = block_of(segment(i).module);
    if (own == block) return true;
    if (block.empty() || !own.empty()) return false;
    for (int next = i + 1; next < segments(); ++next) {
      const std::string other = block_of(segment(next).module);
      if (!other.empty()) return other == block;
    }
    return false;
  }

  // Returns whether a unit may begin with the segment. A reduction overwrites its input, so a unit
  // that is recomputed would not find it. A copy is a view, so it stays with its reader.
  bool may_begin(int i) const {
    return segment(i).exchange != Op::tensor_reduce &&
           (i == 0 || segment(i - 1).exchange != Op::tensor_copy);
  }

  // Returns the bytes of the tensors that segments before `place` make and segments from `place` on
  // read.
  double crossing(int place) const {
    double bytes = 0;
    for (std::size_t t = 0; t < model_.tensors.size(); ++t)
      if (model_.tensors[t].maker < place && last_reader_[t] >= place)
        bytes += model_.tensors[t].bytes.of(model_.micro_batch);
    return bytes;
  }

  // Returns the segment before which a unit is divided: the one where the fewest bytes cross. If no
  // place has enough work on each side, the sides differ least. Returns -1 if a unit may begin
  // nowhere.
  int place_to_divide(int begin, int end) const {
    const double all = work(begin, end);
    int best = -1, most_even = -1;
    double least = 0;
    const auto larger_side = [&](int place) {
      return std::max(work(begin, place), work(place, end));
    };
    for (int place = begin + 1; place < end; ++place) {
      if (!may_begin(place)) continue;
      if (most_even < 0 || larger_side(place) < larger_side(most_even)) most_even = place;
      if (larger_side(place) > (1 - smaller_side) * all) continue;
      const double bytes = crossing(place);
      if (best >= 0 && bytes >= least) continue;
      best = place;
      least = bytes;
    }
    return best >= 0 ? best : most_even;
  }

  void divide(const CapturedUnit& unit) {
    if (unit.end - unit.begin < 2 || work(unit.begin, unit.end) <= largest_share * sums_.back()) {
      units_.push_back(unit);
      return;
    }
    const int place = place_to_divide(unit.begin, unit.end);
    if (place < 0) return units_.push_back(unit);
    divide({unit.path, unit.begin, place, unit.is_block});
    divide({unit.path, place, unit.end, unit.is_block});
  }

  // Names units by their block, or else by the first of their segments that has a module's name. A
  // number makes each name unique.
  void name() {
    std::set<std::string> taken;
    for (CapturedUnit& unit : units_) {
      std::string path = unit.path;
      if (taken.contains(path) || path.empty())
        for (int i = unit.begin; i < unit.end; ++i)
          if (const std::string& module = segment(i).module; !module.empty()) {
            path = module;
            break;
          }
      if (path.empty()) path = "model";
      unit.path = path;
      for (int number = 2; !taken.insert(unit.path).second; ++number)
        unit.path = path + "#" + std::to_string(number);
    }
  }

  const CapturedModel& model_;
  std::vector<double> sums_;  // entry i: work of the segments before i
  std::vector<int> last_reader_;
  std::vector<CapturedUnit> units_;
};

}  // namespace

std::vector<CapturedUnit> units_of(const CapturedModel& model) { return UnitMaker(model).run(); }

}  // namespace meshwright::architectures
