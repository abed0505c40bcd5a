#include "tools/session/step_list.h"

#include <algorithm>
#include <charconv>

#include "models/core/error.h"

namespace meshwright::session {

namespace {

// Returns the number of a step, from 1, if the whole text is one, otherwise 0.
int step_of(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value > 0 ? value : 0;
}

}  // namespace

StepList::StepList(const std::string& where, const std::string& text) {
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const std::size_t dash = part.find('-');
    const int first = step_of(part.substr(0, dash));
    const int last = dash == std::string::npos ? first : step_of(part.substr(dash + 1));
    if (first == 0 || last < first)
      throw InputError(
          where + ": '" + part +
          "' is no step; use steps counted from 1 and ranges of them, such as 3,10-12");
    ranges_.emplace_back(first, last);
    begin = end + 1;
  }
}

bool StepList::contains(std::int64_t step) const {
  return std::ranges::any_of(
      ranges_, [&](const auto& range) { return range.first <= step && step <= range.second; });
}

int StepList::last() const {
  int last = 0;
  for (const auto& range : ranges_) last = std::max(last, range.second);
  return last;
}

}  // namespace meshwright::session
