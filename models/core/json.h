// Declares the short name `json` for the JSON type of the library nlohmann/json.
#pragma once

#include <nlohmann/json.hpp>

#include "models/core/rooms.h"

namespace meshwright::core {

using nlohmann::json;

}  // namespace meshwright::core
