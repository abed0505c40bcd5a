#include "models/job/written_numbers.h"

#include <fmt/format.h>
#include <algorithm>
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
                                    {"training", "sequence_length", NumberKind::length},
                                    {"training", "global_batch", NumberKind::count},
                                    {"training", "micro_batch", NumberKind::whole},
                                    {"training", "steps", NumberKind::count},
                                    {"training", "warmup_steps", NumberKind::count},
                                    {"training", "dropout", NumberKind::share},
                                    {"training", "weight_decay", NumberKind::share},
                                    {"training", "learning_rate", NumberKind::real},
                                    {"parallelism", "pipeline", NumberKind::whole},
                                    {"parallelism", "tensor", NumberKind::whole},
                                    {"parallelism", "data", NumberKind::whole},
                                    {"parallelism", "context", NumberKind::whole},
                                    {"parallelism", "expert", NumberKind::whole},
                                    {"parallelism", "virtual_stages", NumberKind::whole},
                                    {"parallelism", "zero_stage", NumberKind::whole},
                                    {"cluster", "count", NumberKind::whole},
                                    {"data", "bytes_per_sample", NumberKind::bytes},
                                    {"data", "storage_bytes_per_s", NumberKind::bytes},
                                    {"data", "decode_s", NumberKind::seconds},
                                    {"data", "workers", NumberKind::whole},
                                    {"failures", "hang_detection_s", NumberKind::seconds},
                                    {"failures", "preemption_notice_s", NumberKind::seconds},
                                    {"failures", "maintenance_notice_s", NumberKind::seconds},
                                    {"failures", "restart_s", NumberKind::seconds},
                                    {"failures", "replacement_s", NumberKind::seconds},
                                    {"failures", "checkpoint_bytes_per_s", NumberKind::bytes}};

// Returns the number as an integer if it is whole and less than 2^53, because many keys are
// integers.
json number_of(double value) {
  constexpr double exact = 9007199254740992.0;  // 2^53
  if (std::floor(value) == value && std::abs(value) < exact)
    return static_cast<std::int64_t>(value);
  return value;
}

// Replaces a batch that is counted in tokens, such as "4M tokens", by the nearest number of
// sequences of the job's length. M means 1024 x 1024 if only that gives a whole number of
// sequences, as published batches do. Returns a note, or "" if nothing was replaced: the batch is
// counted in sequences, or the job has no sequence length.
std::string count_batch_in_sequences(json& job) {
  if (!job.contains("training") || !job["training"].is_object()) return "";
  json& training = job["training"];
  if (!training.contains("global_batch") || !training["global_batch"].is_string()) return "";
  const auto text = training["global_batch"].get<std::string>();
  const auto length =
      training.contains("sequence_length") && training["sequence_length"].is_number()
          ? training["sequence_length"].get<double>()
          : 0;
  if (text.find("tok") == std::string::npos || !(length >= 1)) return "";
  const auto decimal = written_number(text, NumberKind::count);
  const auto binary = written_number(text, NumberKind::length);
  const auto divides = [&](const std::optional<double>& tokens) {
    return tokens && *tokens > 0 && std::fmod(*tokens, length) == 0;
  };
  if (!decimal) return "";
  const double tokens = !divides(decimal) && divides(binary) ? *binary : *decimal;
  const double sequences = std::max(1.0, std::round(tokens / length));
  training["global_batch"] = number_of(sequences);
  return fmt::format("a batch of {} is {:.0f} sequences of {:.0f} tokens", text, sequences, length);
}

}  // namespace

std::span<const WrittenKey> written_keys() { return word_rows; }

std::vector<std::string> read_written_numbers(json& job, const std::string& file) {
  std::vector<std::string> notes;
  if (!job.is_object()) return notes;
  for (const auto& [section, key, quantity] : word_rows) {
    const auto found = job.find(section);
    if (found == job.end() || !found->is_object() || !found->contains(key)) continue;
    json& value = (*found)[std::string(key)];
    if (!value.is_string() || value == "auto") continue;
    const auto& text = value.get_ref<const std::string&>();
    if (key == "global_batch") {
      if (const std::string note = count_batch_in_sequences(job); !note.empty()) {
        notes.push_back(note);
        continue;
      }
      if (written_number(text, quantity) && text.find("tok") != std::string::npos) continue;
      if (text.ends_with('M') || text.ends_with('m'))
        throw InputError(fmt::format(
            "{}: /training/global_batch: '{}' could count tokens or sequences; write '{} tokens', "
            "or the sequences in digits",
            file, text, text));
    }
    const std::optional<double> number = written_number(text, quantity);
    if (!number)
      throw InputError(
          fmt::format("{}: /{}/{}: {}", file, section, key, wrong_number(text, quantity)));
    value = number_of(*number);
  }
  return notes;
}

}  // namespace meshwright::job
