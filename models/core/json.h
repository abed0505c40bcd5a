// The type of JSON values, which every room calls `json`.
#pragma once

#include <nlohmann/json.hpp>

#include "models/core/rooms.h"

namespace meshwright::core {

using nlohmann::json;

}  // namespace meshwright::core
