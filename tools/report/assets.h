// The files of the pages, as they were when this program was built: no page is read from disk.
#pragma once

#include <optional>
#include <string_view>

namespace meshwright {

std::optional<std::string_view> asset(std::string_view name);  // "style.css"

}  // namespace meshwright
