// Makes the tables of `list machines` and `list models`, which describe what a name stands for.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/session/text.h"

namespace meshwright::tools {

// Returns a row for each machine: its GPUs, the memory of one GPU, the network, the on-demand price
// of an hour of a host, and the cloud.
session::Table machines_table(const std::vector<std::string>& names);

// Returns facts for programs: {"name", "gpus", "gpu", "memory_bytes", "usd_per_hour" or null} of
// each machine.
nlohmann::json machine_facts_json(const std::vector<std::string>& names);

// Returns a row for each model of the zoo: its parameters, its family and the number of positions.
session::Table models_table(const std::vector<std::string>& names);

}  // namespace meshwright::tools
