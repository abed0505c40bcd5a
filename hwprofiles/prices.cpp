#include "hwprofiles/prices.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <set>
#include <tuple>

namespace meshwright::hwprofiles {

namespace {

constexpr double seconds_per_hour = 3600, day_s = 24 * seconds_per_hour, hours_per_year = 8760;
constexpr double ended_before_s = 30 * 60;  // instances end this long before a block does
constexpr int days_of_single = 14, days_of_week = 7, days_of_longest = 182;
constexpr double least_usd = 1e-6, most_usd = 1e12, most_years = 100, most_kw = 1e6;

double number(Fields& row, std::string_view key, double low, double high) {
  const auto value = row.required<double>(key);
  if (!(value >= low && value <= high))
    row.fail(key, fmt::format("{} is out of range; use {} to {}", value, low, high));
  return value;
}

std::string text(Fields& row, std::string_view key, const char* wanted) {
  if (!row.has(key)) row.fail(key, fmt::format("missing; {}", wanted));
  auto value = row.required<std::string>(key);
  if (value.empty()) row.fail(key, fmt::format("is empty; {}", wanted));
  return value;
}

// Returns the hourly cost, in USD, of a machine that was bought: its capital, spread over years of
// constant use, and its power.
double usd_per_hour_of_own(Fields& row) {
  const double capital = number(row, "capital_usd", 0, most_usd);
  const double years = number(row, "years", 0.01, most_years);
  const double power_kw = number(row, "power_kw", 0, most_kw);
  const double usd_per_kwh = number(row, "usd_per_kwh", 0, most_usd);
  return capital / (years * hours_per_year) + power_kw * usd_per_kwh;
}

Price read_price(Fields& row) {
  Price price;
  price.machine = text(row, "machine", "name one of `meshwright list machines`, or your own");
  price.kind = static_cast<PriceKind>(choose(row, "kind", "kind of price",
                                             text(row, "kind", "say which kind of price"),
                                             price_kind_names()));
  const bool own = price.kind == PriceKind::own;
  price.region = own ? row.optional<std::string>("region", "")
                     : text(row, "region", "say where, such as us-east-1");
  price.usd_per_hour =
      own ? usd_per_hour_of_own(row) : number(row, "usd_per_hour", least_usd, most_usd);
  price.as_of = text(row, "as_of", "say of when the price is, YYYY-MM-DD");
  if (!day_of(price.as_of))
    row.fail("as_of", fmt::format("'{}' is not a date; write YYYY-MM-DD", price.as_of));
  price.source = text(row, "source", "say where the price is from");
  row.done();
  return price;
}

constexpr double usable_s(int days) { return days * day_s - ended_before_s; }

// Returns the largest number of days, at most `days`, that EC2 sells as capacity blocks.
int sold_within(double days) {
  const int whole = static_cast<int>(std::floor(std::min(days, 1e6)));
  const int longest = whole / days_of_longest * days_of_longest;
  const int rest = whole - longest;
  return longest + (rest <= days_of_single ? rest : rest / days_of_week * days_of_week);
}

}  // namespace

Prices read_prices(Fields file) {
  if (file.required<int>("format") != 1) file.fail("format", "this program reads format 1");
  Prices prices;
  std::set<std::tuple<std::string, PriceKind, std::string>> seen;
  for (Fields& row : file.objects("prices")) {
    prices.push_back(read_price(row));
    const Price& last = prices.back();
    if (!seen.emplace(last.machine, last.kind, last.region).second)
      row.fail("machine", fmt::format("a second {} price of {} in {}; keep one", name_of(last.kind),
                                      last.machine, last.region));
  }
  file.done();
  return prices;
}

Prices read_prices(const std::string& path) { return read_prices(read_json_file(path)); }

Prices prices_of(const Prices& prices, const std::string& machine) {
  Prices rows;
  std::ranges::copy_if(prices, std::back_inserter(rows),
                       [&](const Price& price) { return price.machine == machine; });
  return rows;
}

const Price* find_price(const Prices& prices, const PriceChoice& choice) {
  const auto found = std::ranges::find_if(prices, [&](const Price& price) {
    return price.kind == choice.kind && (choice.region.empty() || price.region == choice.region);
  });
  return found == prices.end() ? nullptr : &*found;
}

std::string words_of(PriceKind kind) {
  std::string words = name_of(kind);
  std::ranges::replace(words, '_', ' ');
  return words;
}

std::string describe(const Price& price) {
  return fmt::format("{}{}{}, {}", words_of(price.kind), price.region.empty() ? "" : ", ",
                     price.region, price.as_of);
}

std::optional<int> day_of(const std::string& date) {
  const bool shaped = date.size() == 10 && date[4] == '-' && date[7] == '-';
  if (!shaped || date.find_first_not_of("0123456789-") != std::string::npos) return std::nullopt;
  int year = 0, month = 0, day = 0;
  if (std::sscanf(date.c_str(), "%4d-%2d-%2d", &year, &month, &day) != 3) return std::nullopt;
  const std::chrono::year_month_day ymd{std::chrono::year(year),
                                        std::chrono::month(static_cast<unsigned>(month)),
                                        std::chrono::day(static_cast<unsigned>(day))};
  if (!ymd.ok()) return std::nullopt;
  return static_cast<int>(std::chrono::sys_days(ymd).time_since_epoch().count());
}

bool is_stale(const Price& price, int today) {
  return today - day_of(price.as_of).value_or(0) > days_until_stale;
}

int block_days(double run_s) {
  constexpr double least_s = 1e-6;  // a run may exceed a block by rounding errors
  const int full = static_cast<int>(std::min(run_s / usable_s(days_of_longest), 1e6));
  const double rest_s = run_s - full * usable_s(days_of_longest);
  if (rest_s <= least_s) return full * days_of_longest;
  int days = static_cast<int>(std::ceil((rest_s + ended_before_s - least_s) / day_s));
  if (days > days_of_single) days = (days + days_of_week - 1) / days_of_week * days_of_week;
  return full * days_of_longest + days;
}

Bill bill_of(const Price& price, int hosts, double run_s) {
  const double usd_per_s = price.usd_per_hour * hosts / seconds_per_hour;
  if (price.kind != PriceKind::capacity_block) return {usd_per_s * run_s, 0, 0};
  Bill bill;
  bill.block_days = block_days(run_s);
  bill.usd = usd_per_s * day_s * bill.block_days;
  bill.idle_usd = bill.usd - usd_per_s * run_s;
  return bill;
}

double affordable_s(const Price& price, int hosts, double usd) {
  const double seconds = usd / (price.usd_per_hour * hosts) * seconds_per_hour;
  if (price.kind != PriceKind::capacity_block) return seconds;
  const int days = sold_within(seconds / day_s);
  const int blocks = (days + days_of_longest - 1) / days_of_longest;
  return days * day_s - blocks * ended_before_s;
}

}  // namespace meshwright::hwprofiles
