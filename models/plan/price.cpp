#include "models/plan/price.h"

namespace meshwright {

const std::vector<std::string>& price_kind_names() {
  static const std::vector<std::string> names = {"on_demand",      "savings_1y", "savings_3y",
                                                 "capacity_block", "spot",       "own"};
  return names;
}

}  // namespace meshwright
