#include "exec/data/loader.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "exec/core/philox.h"
#include "models/core/error.h"
#include "models/program/graph/attributes.h"

namespace meshwright::exec {

namespace {

// Returns `options`. Aborts the program if they do not fit together.
const LoaderOptions& checked(const LoaderOptions& options) {
  MESHWRIGHT_CHECK(options.sequence_length > 0 && options.vocabulary > 0,
                   "the loader knows the sequence and the vocabulary");
  MESHWRIGHT_CHECK(options.targets != Targets::masked ||
                       (options.predicted > 0 && options.predicted <= options.sequence_length),
                   "some of the positions are masked");
  MESHWRIGHT_CHECK(options.targets != Targets::span || options.files.empty(),
                   "files hold no answers");
  MESHWRIGHT_CHECK(
      (options.targets == Targets::label) == (options.pixels > 0 || options.classes > 0),
      "images and labelled texts have labels");
  if (!options.packing) return options;
  MESHWRIGHT_CHECK(options.targets == Targets::next && options.global_batch > 0,
                   "rows of documents say the next token, step by step");
  MESHWRIGHT_CHECK(
      options.format == TokenFormat::pairs || options.files.empty() || options.document_end >= 0,
      "documents of token files end with a token");
  return options;
}

}  // namespace

Loader::Loader(const LoaderOptions& options) : Loader(options, open_dataset(checked(options))) {}

Loader::Loader(const LoaderOptions& options, std::unique_ptr<Dataset> dataset)
    : options_(checked(options)), dataset_(std::move(dataset)), order_(options, dataset_->sizes()) {
  const std::int64_t inputs = options.pixels > 0 ? options.pixels : tokens_of_sequence(options);
  raw_.tokens.resize(inputs + (options.targets == Targets::pair ? 0 : 1));
}

std::vector<std::string> Loader::remarks() const {
  std::vector<std::string> lines;
  for (std::size_t file = 0; file < options_.files.size(); ++file)
    if (const std::string line = dataset_->remark(file); !line.empty())
      lines.push_back(options_.files[file] + ": " + line);
  return lines;
}

std::optional<std::int64_t> Loader::counted_targets(std::int64_t position, std::int64_t sequences) {
  std::int64_t counted = 0;
  const std::int64_t batch = options_.global_batch;
  for (std::int64_t at = position; at < position + sequences; ++at) {
    const std::optional<std::int64_t> here = options_.packing
                                                 ? packed_step(at / batch).counted[at % batch]
                                                 : dataset_->counted(order_.at(at));
    if (!here) return std::nullopt;
    counted += *here;
  }
  return counted;
}

void Loader::next_targets(std::int32_t* targets) const {
  if (targets == nullptr) return;
  std::copy(raw_.tokens.begin() + 1, raw_.tokens.end(), targets);
  for (std::size_t i = 1; i < raw_.counts.size(); ++i)
    if (raw_.counts[i] == 0) targets[i - 1] = ignored_target;
}

void Loader::tokens_ahead(const SequenceInputs& into) const {
  const std::span<const std::int32_t> window(raw_.tokens);
  const auto shifted = [&](std::size_t by, std::int32_t beyond, std::int32_t* to) {
    if (to == nullptr) return;
    const std::span<const std::int32_t> there = window.subspan(std::min(by, window.size()));
    const std::size_t rows = window.size() - 1, count = std::min(rows, there.size());
    std::copy_n(there.begin(), count, to);
    std::fill(to + count, to + rows, beyond);
  };
  for (std::size_t depth = 1; const SequenceInputs::Ahead& each : into.ahead) {
    shifted(depth, 0, each.tokens);
    shifted(++depth, ignored_target, each.targets);
  }
}

void Loader::read(std::int64_t position, const SequenceInputs& into) {
  const auto copy = [](auto begin, auto end, std::int32_t* to) {
    if (to != nullptr) std::copy(begin, end, to);
  };
  if (options_.packing) return read_packed(position, into);
  dataset_->read(order_.at(position), raw_);
  if (options_.targets == Targets::masked) mask(position);
  const auto targets = raw_.tokens.begin() + options_.sequence_length;
  if (options_.targets == Targets::pair) {
    copy(raw_.tokens.begin(), targets, into.tokens);
    copy(targets, raw_.tokens.end(), into.targets);
    if (into.decoder == nullptr) return;
    *into.decoder = options_.start_token;
    return copy(targets, raw_.tokens.end() - 1, into.decoder + 1);
  }
  copy(raw_.tokens.begin(), raw_.tokens.end() - 1, into.tokens);
  switch (options_.targets) {
    case Targets::next:
      tokens_ahead(into);
      return next_targets(into.targets);
    case Targets::masked:
      copy(hidden_.begin(), hidden_.end(), into.targets);
      return copy(places_.begin(), places_.end(), into.positions);
    case Targets::span:
      if (into.targets != nullptr) answer(position, into.targets);
      return;
    case Targets::label:
      copy(raw_.tokens.end() - 1, raw_.tokens.end(), into.targets);
      if (into.positions != nullptr)
        *into.positions =
            options_.label_of_last ? static_cast<std::int32_t>(raw_.text_tokens - 1) : 0;
      return hide_padding(into.documents);
    case Targets::pair:;  // has returned above
  }
}

// Masks `predicted` different positions of the window (Floyd's sample). Of ten of them, on average,
// eight become the mask token, one becomes a random token, and one stays.
void Loader::mask(std::int64_t position) {
  const PhiloxStream stream(options_.data_seed, "masks");
  const auto predicted = static_cast<std::uint64_t>(options_.predicted);
  const auto length = static_cast<std::uint64_t>(options_.sequence_length);
  const std::uint64_t first_draw = static_cast<std::uint64_t>(position) * predicted;
  std::set<std::int32_t> chosen;
  for (std::uint64_t i = 0; i < predicted; ++i) {
    const std::uint64_t last = length - predicted + i;
    const auto place =
        static_cast<std::int32_t>(stream.block(first_draw + i)[0] * (last + 1) >> 32);
    if (!chosen.insert(place).second) chosen.insert(static_cast<std::int32_t>(last));
  }
  places_.assign(chosen.begin(), chosen.end());
  hidden_.clear();
  const auto vocabulary = static_cast<std::uint64_t>(options_.vocabulary);
  for (std::uint64_t i = 0; i < predicted; ++i) {
    const PhiloxCounter bits = stream.block(first_draw + i);
    std::int32_t& token = raw_.tokens[places_[i]];
    hidden_.push_back(token);
    const std::uint64_t of_ten = std::uint64_t{bits[1]} * 10 >> 32;
    if (of_ten < 8)
      token = options_.mask_token >= 0 ? options_.mask_token
                                       : static_cast<std::int32_t>(vocabulary - 1);
    else if (of_ten == 8)
      token = static_cast<std::int32_t>(bits[2] * vocabulary >> 32);
  }
}

void Loader::answer(std::int64_t position, std::int32_t* first_and_last) const {
  const PhiloxStream stream(options_.data_seed, "answers");
  const PhiloxCounter bits = stream.block(static_cast<std::uint64_t>(position));
  const auto length = static_cast<std::uint64_t>(options_.sequence_length);
  for (int i = 0; i < 2; ++i) first_and_last[i] = static_cast<std::int32_t>(bits[i] * length >> 32);
  if (first_and_last[0] > first_and_last[1]) std::swap(first_and_last[0], first_and_last[1]);
}

// Writes the begins of documents so that attention ignores padding: a text is one document, and
// each token of its padding is a document of its own (PackedRow::pad).
void Loader::hide_padding(std::int32_t* documents) const {
  if (documents == nullptr) return;
  std::fill_n(documents, raw_.text_tokens, 0);
  std::iota(documents + raw_.text_tokens, documents + options_.sequence_length,
            static_cast<std::int32_t>(raw_.text_tokens));
}

void Loader::fill_packed(std::int64_t position) {
  dataset_->read_row(order_.at(position), raw_, row_);
}

// Reads the row for `position`. Rows of a step are used in another order than they are stored in,
// to balance the work of the ranks.
void Loader::read_packed(std::int64_t position, const SequenceInputs& into) {
  const std::int64_t batch = options_.global_batch, number = position / batch;
  fill_packed(number * batch + packed_step(number).order[position % batch]);
  const auto copy = [](const std::vector<std::int32_t>& from, std::int32_t* to) {
    if (to != nullptr) std::ranges::copy(from, to);
  };
  copy(row_.tokens, into.tokens);
  copy(row_.targets, into.targets);
  copy(row_.documents, into.documents);
}

const Loader::PackedStep& Loader::packed_step(std::int64_t number) {
  PackedStep& step = packed_steps_[number % 2];
  if (step.number == number) return step;
  std::vector<std::int64_t> work, counted;
  for (std::int64_t i = 0; i < options_.global_batch; ++i) {
    fill_packed(number * options_.global_batch + i);
    work.push_back(row_.work());
    counted.push_back(row_.counted());
  }
  step.order = balanced_order(work);
  step.counted.clear();
  for (const std::int64_t row : step.order) step.counted.push_back(counted[row]);
  step.number = number;
  return step;
}

std::optional<double> Loader::document_share() {
  if (!options_.packing || options_.files.empty()) return std::nullopt;
  const std::int64_t rows = std::min<std::int64_t>(sequences(), 256);
  const double whole = static_cast<double>(options_.sequence_length) * options_.sequence_length;
  double work = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    fill_packed(i * (sequences() / rows));
    work += static_cast<double>(row_.work());
  }
  return work / (whole * static_cast<double>(rows));
}

std::int64_t first_sequence(std::int64_t step_position, std::int64_t global_batch, int replicas,
                            int replica, std::int64_t sequence_in_replica) {
  return step_position + global_batch / replicas * replica + sequence_in_replica;
}

}  // namespace meshwright::exec
