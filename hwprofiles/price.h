// Lists the kinds of prices at which a cluster is paid for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace meshwright::hwprofiles {

// on_demand: by the hour. savings_1y, savings_3y: the hourly rate of a commitment for years.
// capacity_block: booked for whole days, and paid in advance. spot: may be taken back by the
// provider. own: bought.
enum class PriceKind : std::uint8_t {
  on_demand,
  savings_1y,
  savings_3y,
  capacity_block,
  spot,
  own
};
const std::vector<std::string>& price_kind_names();
inline const std::string& name_of(PriceKind kind) {
  return price_kind_names()[static_cast<std::size_t>(kind)];
}

struct PriceChoice {
  PriceKind kind = PriceKind::on_demand;
  std::string region;  // "": the first region in the price list
};

}  // namespace meshwright::hwprofiles
