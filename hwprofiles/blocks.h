// Lists the fields of a profile's blocks, with their keys, their variables in a Machine and their
// bounds. load.cpp reads these entries, write.cpp writes them, schema.cpp describes them, and
// rewrite.cpp puts fitted values into a text. A new field needs only its variable and one entry
// here. Fields that are not plain values (kinds, matrices, PCIe switches, peaks, threads, prices)
// are in load.cpp and schema.cpp and, except for prices, in write.cpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "hwprofiles/machine.h"

namespace meshwright::hwprofiles {

enum class Bound : std::uint8_t {
  positive,          // above 0; if the key ends in _per_s, at least 1000 per second
  rate,              // at least 1000 per second
  not_negative,      // 0 has no effect; times (keys in _s) at most 1000 s
  share,             // above 0 and at most 1
  below_one,         // at least 0 and less than 1
  constant,          // at least 1e-6: a share or a factor, mostly fitted
  constant_or_zero,  // 0 has no effect, otherwise as `constant`
  gbit_per_s,
  at_least_one,  // for whole numbers
  at_least_zero
};

struct NumberRange {
  double low = 0, high = 0;
};
// The widest limits of numbers. They are far beyond any hardware, but keep the time of a step
// finite.
constexpr double least_number = 1e-12, most_number = 1e21;
// Returns the limits of a number whose key is `key`. In addition, the reader requires that a share
// is at most 1, and that a number with bound `below_one` is below 1.
NumberRange limits_of(Bound bound, std::string_view key);
constexpr int most_of_a_count = 1'000'000;
// The most GPUs of one machine, which is the largest NVLink domain that was announced (NVL576).
constexpr int most_gpus = 576;

struct BlockField {
  std::string_view key;
  // For several doubles, the key holds a list of the same number of values.
  std::variant<double*, int*, bool*, std::string*, EfficiencyCurve*, std::optional<double>*,
               std::vector<double*>>
      place;
  Bound bound = Bound::positive;
  bool fitted = false;  // tools/fit may change it
  // The field is read only if this key is present, and written only if the field of this key is
  // set. Empty means always. A field that names its own key here is optional.
  std::string_view only_with = {};

  // Returns whether the field is set: a double or a flag is not 0, an optional number has a value,
  // a text is not empty, or a curve has points. A whole number or a list always counts as set.
  bool is_set() const;
};
using BlockFields = std::vector<BlockField>;

BlockFields gpu_fields(Gpu& gpu);
BlockFields efficiency_fields(Gpu& gpu);                  // the curves, and kernel_latency_s
BlockFields constant_fields(KernelConstants& constants);  // the rest of the efficiency block
BlockFields nvlink_fields(Nvlink& nvlink);                // for all kinds but `none`
BlockFields network_fields(Network& network);
BlockFields pcie_fields(Pcie& pcie);
BlockFields shared_memory_fields(SharedMemory& memory);
BlockFields collectives_fields(Machine& machine);
BlockFields host_fields(Host& host);
BlockFields overheads_fields(LibraryOverheads& overheads);
BlockFields framework_fields(FrameworkMemory& framework);
BlockFields interval_fields(Residuals::Interval& interval);

}  // namespace meshwright::hwprofiles
