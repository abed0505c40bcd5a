#include "hwprofiles/price.h"

#include "models/core/enum_words.h"

namespace meshwright::hwprofiles {

const std::vector<std::string>& price_kind_names() {
  static const std::vector<std::string> names = words_up_to<PriceKind::own>(
      {"on_demand", "savings_1y", "savings_3y", "capacity_block", "spot", "own"});
  return names;
}

}  // namespace meshwright::hwprofiles
