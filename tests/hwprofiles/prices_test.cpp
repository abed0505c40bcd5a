// Tests the program's price list, price lists of users, and what runs cost.
#include "hwprofiles/prices.h"

#include <nlohmann/json.hpp>
#include <set>

#include "hwprofiles/load.h"
#include "tests/catch.h"
#include "tests/message_of.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

constexpr double hour = 3600, day = 24 * hour;

Prices read(const std::vector<json>& rows) {
  return read_prices(Fields(json{{"format", 1}, {"prices", rows}}, "mine.json"));
}

json row(const json& changes = json::object()) {
  json value = {{"machine", "p5.48xlarge"}, {"kind", "on_demand"},   {"region", "eu-north-1"},
                {"usd_per_hour", 50},       {"as_of", "2026-11-01"}, {"source", "an offer"}};
  value.merge_patch(changes);
  return value;
}

Price priced(PriceKind kind, double usd_per_hour) {
  return {"m", kind, "us-east-1", usd_per_hour, "2026-11-01", "test"};
}

}  // namespace

TEST_CASE("every row of the price list is of a known machine and has a date and a source",
          "[prices]") {
  const std::vector<std::string> machines = list_machines();
  const Prices known = known_prices();
  CHECK(known.size() > 60);
  std::set<PriceKind> kinds;
  for (const Price& price : known) {
    INFO(price.machine << " " << describe(price));
    CHECK(std::ranges::count(machines, price.machine) == 1);
    CHECK(day_of(price.as_of).has_value());
    CHECK(price.source.size() > 20);
    kinds.insert(price.kind);
    // All other kinds of price are below the on-demand price, if the machine has both.
    const Prices of_machine = prices_of(known, price.machine);
    const Price* on_demand = find_price(of_machine, {});
    if (on_demand != nullptr && price.kind != PriceKind::on_demand)
      CHECK(price.usd_per_hour < on_demand->usd_per_hour);
  }
  CHECK(kinds.size() == 5);  // all but `own`, which only users' lists have
  CHECK(load_machine("p5en.48xlarge").prices.size() == 3);
  CHECK(load_machine("dgx-h100").prices.empty());
}

TEST_CASE("prices of a profile go before those of the list", "[prices]") {
  json profile = json::parse(text_of(load_machine("p4d.24xlarge")));
  profile["prices"] = {{"source", "our contract"},
                       {"on_demand_usd_per_hour", 9},
                       {"spot_usd_per_hour", 4},
                       {"as_of", "2026-07-20"}};
  const Machine machine = machine_of_text(profile.dump(), "mine.json");
  CHECK(find_price(machine.prices, {})->usd_per_hour == 9);
  CHECK(find_price(machine.prices, {PriceKind::spot, ""})->usd_per_hour == 4);
  CHECK(find_price(machine.prices, {})->source == "our contract");
  CHECK(find_price(machine.prices, {PriceKind::on_demand, "us-east-1"})->usd_per_hour > 9);
  profile["prices"]["as_of"] = "July";
  CHECK(message_of([&] { machine_of_text(profile.dump(), "mine.json"); }) ==
        "mine.json: /prices/as_of: 'July' is not a date; write YYYY-MM-DD");
}

TEST_CASE("a price list is read strictly", "[prices]") {
  CHECK(read({row()}).front().usd_per_hour == 50);
  const auto refused = [](const std::vector<json>& rows) {
    return message_of([&] { read(rows); });
  };
  CHECK(
      refused({row({{"kind", "reserved"}})}) ==
      "mine.json: /prices/0/kind: unknown kind of price 'reserved'; known: on_demand, savings_1y, "
      "savings_3y, capacity_block, spot and own");
  CHECK(refused({row({{"as_of", "November"}})}) ==
        "mine.json: /prices/0/as_of: 'November' is not a date; write YYYY-MM-DD");
  CHECK(refused({row({{"as_of", "2026-02-30"}})}) ==
        "mine.json: /prices/0/as_of: '2026-02-30' is not a date; write YYYY-MM-DD");
  CHECK(refused({row(), row({{"source", nullptr}})}) ==
        "mine.json: /prices/1/source: missing; say where the price is from");
  CHECK(refused({row({{"region", nullptr}})}) ==
        "mine.json: /prices/0/region: missing; say where, such as us-east-1");
  CHECK(refused({row({{"usd_per_hour", -3}})}) ==
        "mine.json: /prices/0/usd_per_hour: -3 is out of range; use 1e-06 to "
        "1000000000000");
  CHECK(refused({row({{"price", 3}})}).starts_with("mine.json: /prices/0/price: unknown key"));
  CHECK(refused({row(), row()}) ==
        "mine.json: /prices/1/machine: a second on_demand price of p5.48xlarge in eu-north-1; keep "
        "one");
}

TEST_CASE("an own machine costs its capital over the years, and its power", "[prices]") {
  const Prices own = read({json{{"machine", "dgx-h100"},
                                {"kind", "own"},
                                {"capital_usd", 350'400},
                                {"years", 4},
                                {"power_kw", 10},
                                {"usd_per_kwh", 0.15},
                                {"as_of", "2026-11-01"},
                                {"source", "an invoice"}}});
  CHECK(own.front().usd_per_hour == Approx(10 + 1.5));  // 350,400 / (4 x 8,760), 10 x 0.15
  CHECK(describe(own.front()) == "own, 2026-11-01");
}

TEST_CASE("the first row of a kind is taken, or that of the region", "[prices]") {
  const Prices prices = read({row(), row({{"region", "us-east-1"}, {"usd_per_hour", 60}}),
                              row({{"kind", "spot"}, {"usd_per_hour", 20}})});
  CHECK(find_price(prices, {})->usd_per_hour == 50);
  CHECK(find_price(prices, {PriceKind::on_demand, "us-east-1"})->usd_per_hour == 60);
  CHECK(find_price(prices, {PriceKind::spot, ""})->usd_per_hour == 20);
  CHECK(find_price(prices, {PriceKind::spot, "us-east-1"}) == nullptr);
  CHECK(find_price(prices, {PriceKind::savings_1y, ""}) == nullptr);
}

TEST_CASE("a price is stale after 90 days", "[prices]") {
  const Price price = priced(PriceKind::on_demand, 1);  // dated 2026-11-01
  CHECK(day_of("1970-01-02") == 1);
  CHECK_FALSE(is_stale(price, *day_of("2027-01-30")));
  CHECK(is_stale(price, *day_of("2027-01-31")));
}

TEST_CASE("capacity blocks are days to two weeks, then weeks to half a year", "[prices]") {
  CHECK(block_days(hour) == 1);
  CHECK(block_days(day - hour / 2) == 1);
  CHECK(block_days(day - hour / 2 + 1) == 2);  // a block's last half hour cannot be used
  CHECK(block_days(13.5 * day) == 14);
  CHECK(block_days(14 * day) == 21);
  CHECK(block_days(20.9 * day) == 21);
  CHECK(block_days(181 * day) == 182);
  CHECK(block_days(182 * day) == 183);  // two blocks: 182 days and one day
  CHECK(block_days(200 * day) == 182 + 21);
}

TEST_CASE("a run in blocks pays for what is left of the last one", "[prices]") {
  const Price block = priced(PriceKind::capacity_block, 10);
  const Bill bill = bill_of(block, 3, 15 * day);
  CHECK(bill.block_days == 21);
  CHECK(bill.usd == Approx(3 * 10 * 24 * 21));
  CHECK(bill.idle_usd == Approx(3 * 10 * 24 * 6));
  const Bill hours = bill_of(priced(PriceKind::on_demand, 10), 3, 15 * day);
  CHECK(hours.usd == Approx(3 * 10 * 24 * 15));
  CHECK(hours.idle_usd == 0);
}

TEST_CASE("the longest affordable run costs at most the budget, and a longer one costs more",
          "[prices]") {
  for (const PriceKind kind : {PriceKind::on_demand, PriceKind::capacity_block})
    for (const double usd : {1000.0, 5000.0, 12345.0, 99999.0, 1e6}) {
      const Price price = priced(kind, 12);
      const double longest = affordable_s(price, 2, usd);
      INFO(name_of(kind) << " " << usd << " " << longest);
      CHECK(bill_of(price, 2, longest).usd <= usd * (1 + 1e-12));
      CHECK(bill_of(price, 2, longest + 60).usd > usd);
    }
  CHECK(affordable_s(priced(PriceKind::capacity_block, 12), 2, 500) <= 0);  // a day costs $576
}
