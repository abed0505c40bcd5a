#include "models/job/written_numbers.h"

#include <fmt/format.h>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "models/core/error.h"
#include "models/core/quote.h"

namespace meshwright::job {

using nlohmann::json;

namespace {

constexpr WrittenKey word_rows[] = {{"objective", "tokens", NumberKind::count},
                                    {"objective", "budget_usd", NumberKind::usd},
                                    {"objective", "deadline_s", NumberKind::seconds},
                                    {"training", "global_batch", NumberKind::count},
                                    {"training", "sequence_length", NumberKind::length},
                                    {"training", "steps", NumberKind::count},
                                    {"training", "warmup_steps", NumberKind::count},
                                    {"training", "dropout", NumberKind::share}};

// Returns the number as an integer if it is a whole one, because many keys are integers.
json number_of(double value) {
  constexpr double exact = 9007199254740992.0;  // 2^53
  if (std::floor(value) == value && std::abs(value) < exact)
    return static_cast<std::int64_t>(value);
  return value;
}

}  // namespace

std::span<const WrittenKey> written_keys() { return word_rows; }

void read_written_numbers(json& job, const std::string& file) {
  if (!job.is_object()) return;
  for (const auto& [section, key, quantity] : word_rows) {
    const auto found = job.find(section);
    if (found == job.end() || !found->is_object() || !found->contains(key)) continue;
    json& value = (*found)[std::string(key)];
    if (!value.is_string() || value == "auto") continue;
    const auto& text = value.get_ref<const std::string&>();
    const std::optional<double> number = written_number(text, quantity);
    if (!number)
      throw InputError(fmt::format("{}: /{}/{}: expected {}, found '{}'", file, section, key,
                                   expected_number(quantity), text));
    value = number_of(*number);
  }
}

}  // namespace meshwright::job
