#include "tools/commands/listed_tables.h"

#include <fmt/format.h>

#include "hwprofiles/load.h"
#include "hwprofiles/prices.h"
#include "models/architectures/model.h"
#include "models/core/json.h"
#include "models/program/graph/graph.h"
#include "models/program/training.h"

namespace meshwright::tools {

namespace {

// Returns the on-demand price of an hour of a host, or null if the machine has no such price.
const Price* price_of(const Machine& machine) {
  return find_price(machine.prices, {PriceKind::on_demand, ""});
}

std::string price_text(const Machine& machine) {
  const Price* price = price_of(machine);
  return price == nullptr ? "-" : fmt::format("${:.2f}", price->usd_per_hour);
}

std::string cloud_of(const Machine& machine) {
  return machine.prices.empty() ? "-" : "AWS";  // every built-in price is one of AWS
}

Training shortest_training(const Model& model) {
  Training training;
  training.sequence_length = model.image_size > 0 ? 1 : 8;
  return training;
}

}  // namespace

Table machines_table(const std::vector<std::string>& names) {
  Table table({"machine", "GPUs", "memory", "network", "$/h", "cloud"});
  for (const std::string& name : names) {
    const Machine machine = load_machine(name);
    const double gbps = machine.network.nics * machine.network.gbit_per_s_each;
    table.add({name, fmt::format("{} x {}", machine.gpus, machine.gpu.name),
               show_bytes(machine.gpu.memory_bytes),
               gbps > 0 ? fmt::format("{:.0f} Gb/s", gbps) : "-", price_text(machine),
               cloud_of(machine)});
  }
  return table;
}

json machine_facts_json(const std::vector<std::string>& names) {
  json all = json::array();
  for (const std::string& name : names) {
    const Machine machine = load_machine(name);
    const Price* price = price_of(machine);
    all.push_back({{"name", name},
                   {"gpus", machine.gpus},
                   {"gpu", machine.gpu.name},
                   {"memory_bytes", machine.gpu.memory_bytes},
                   {"usd_per_hour", price ? json(price->usd_per_hour) : json(nullptr)}});
  }
  return all;
}

Table models_table(const std::vector<std::string>& names) {
  Table table({"model", "parameters", "family", "positions"});
  for (const std::string& name : names) {
    const Model model = load_model(name, "");
    table.add({name,
               show_count(static_cast<double>(
                   parameter_count(build_graph(model, shortest_training(model))))),
               std::string(name_of(model.architecture)),
               model.positions > 0 ? std::to_string(model.positions) : "-"});
  }
  return table;
}

}  // namespace meshwright::tools
