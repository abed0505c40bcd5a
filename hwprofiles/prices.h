// Holds prices of hosts from a price list, with one entry per machine, kind and region, each with
// its date and source. Also computes the cost of a run at such a price. docs/prices.md describes
// the file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hwprofiles/price.h"
#include "models/core/fields.h"

namespace meshwright::hwprofiles {

struct Price {
  std::string machine;
  PriceKind kind = PriceKind::on_demand;
  std::string region;
  double usd_per_hour = 0;  // of one machine; for `own`: capital over its years of use, and power
  std::string as_of;        // YYYY-MM-DD
  std::string source;
};
using Prices = std::vector<Price>;

// Reads a price list strictly. Throws an InputError that names the file and the entry with the
// error.
Prices read_prices(const std::string& path);
Prices read_prices(Fields file);

Prices prices_of(const Prices& prices, const std::string& machine);

// Returns the first entry of this kind and region, or null if there is none. An empty region
// matches every entry.
const Price* find_price(const Prices& prices, const PriceChoice& choice);
const Price* find_price(Prices&& prices, const PriceChoice& choice) =
    delete;  // the result would outlive the temporary list

std::string words_of(PriceKind kind);  // "on demand"
// Returns kind, region and date in words: "on demand, us-east-1, 2026-07-20".
std::string describe(const Price& price);

// Returns the days since 1970-01-01, or none if `date` is not a date YYYY-MM-DD.
std::optional<int> day_of(const std::string& date);
// A price is stale if it is older than `days_until_stale`. `today` counts days since 1970-01-01.
constexpr int days_until_stale = 90;
bool is_stale(const Price& price, int today);

// The cost of a run.
struct Bill {
  double usd = 0;
  double idle_usd = 0;  // the part of `usd` for time in capacity blocks that the run does not use
  int block_days = 0;   // days of all capacity blocks together; 0: not paid by blocks
};
Bill bill_of(const Price& price, int hosts, double run_s);
// Returns the longest run, in seconds, that `usd` pays for. It is 0 if `usd` does not even pay for
// the shortest capacity block.
double affordable_s(const Price& price, int hosts, double usd);

// Returns the days of the capacity blocks that a run of `run_s` seconds needs. EC2 sells blocks of
// 1 to 14 days, then of whole weeks up to 26 (182 days), and ends instances 30 minutes before the
// block's end. A longer run takes several blocks one after the other.
int block_days(double run_s);

}  // namespace meshwright::hwprofiles
