#include "exec/data/loader.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "exec/core/philox.h"
#include "models/core/error.h"
#include "models/program/graph/attributes.h"

namespace meshwright {

Loader::Loader(const LoaderOptions& options) : options_(options) {
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
  const bool pairs = options.targets == Targets::pair;
  stride_ = std::int64_t{options.sequence_length} * (pairs ? 2 : 1);
  const std::int64_t inputs = options.pixels > 0 ? options.pixels : stride_;
  window_.resize(static_cast<std::size_t>(inputs + (pairs ? 0 : 1)));
  first_sequence_.push_back(0);
  check_packing();
  const bool of_pairs = options.format == TokenFormat::pairs && !options.files.empty();
  if (options.pixels > 0)
    open_images();
  else if (options.classes > 0)
    open_labelled();
  else
    of_pairs ? open_pairs() : open_tokens();
  if (!options.weights.empty()) check_mixture();
  epochs_.resize(mixture_ ? options.files.size() : 1);
}

void Loader::check_packing() const {
  if (!options_.packing) return;
  MESHWRIGHT_CHECK(options_.targets == Targets::next && options_.global_batch > 0,
                   "rows of documents say the next token, step by step");
  MESHWRIGHT_CHECK(
      options_.format == TokenFormat::pairs || options_.files.empty() || options_.document_end >= 0,
      "documents of token files end with a token");
}

void Loader::open_tokens() {
  for (const std::string& path : options_.files) {
    files_.emplace_back(path, options_.format, options_.vocabulary);
    const std::int64_t beyond = std::ssize(window_) - stride_;  // a target after the last token
    sequences_ += (files_.back().size() - beyond) / stride_;
    first_sequence_.push_back(sequences_);
  }
  if (!files_.empty() && sequences_ == 0)
    throw InputError(
        options_.files[0] + ": has " + std::to_string(files_[0].size()) +
        " tokens; one sequence needs " + std::to_string(window_.size()) +
        (options_.targets == Targets::pair ? " (2 x sequence_length)" : " (sequence_length + 1)") +
        ", and no file has that many");
}

void Loader::check_mixture() {
  for (std::size_t file = 0; file < options_.files.size(); ++file)
    if (first_sequence_[file + 1] == first_sequence_[file])
      throw InputError(options_.files[file] +
                       ": is too short for one sequence; a mixture takes some of every file: leave "
                       "it out, with its weight");
  mixture_.emplace(options_.weights);
}

void Loader::open_images() {
  for (const std::string& path : options_.files) {
    images_.emplace_back(path, options_.pixels, options_.vocabulary);
    sequences_ += images_.back().size();
    first_sequence_.push_back(sequences_);
  }
}

void Loader::open_pairs() {
  MESHWRIGHT_CHECK(options_.targets == Targets::next, "a pair's targets are the tokens behind");
  PairReader reader(options_.text, options_.sequence_length + 1, options_.vocabulary);
  counts_.resize(window_.size());
  for (const std::string& path : options_.files) {
    pairs_.push_back(reader.read(path));
    if (options_.packing)
      packed_pairs_.push_back(pack_rows(pairs_.back().places(), options_.sequence_length));
    sequences_ += options_.packing ? std::ssize(packed_pairs_.back()) : pairs_.back().size();
    first_sequence_.push_back(sequences_);
  }
  if (sequences_ == 0)
    throw InputError(options_.files[0] +
                     ": no pair of this file or of any other has a token to learn within "
                     "sequence_length");
}

void Loader::open_labelled() {
  if (options_.files.empty()) return;
  LabelledReader reader({.tokenizer = options_.text.tokenizer,
                         .length = options_.sequence_length,
                         .vocabulary = options_.vocabulary,
                         .classes = options_.classes});
  for (const std::string& path : options_.files) {
    labelled_.push_back(reader.read(path));
    sequences_ += labelled_.back().size();
    first_sequence_.push_back(sequences_);
  }
}

std::vector<std::string> Loader::remarks() const {
  std::vector<std::string> lines;
  const auto add = [&](const auto& files) {
    for (std::size_t file = 0; file < files.size(); ++file)
      if (const std::string line = files[file].remark(); !line.empty())
        lines.push_back(options_.files[file] + ": " + line);
  };
  add(pairs_);
  add(labelled_);
  return lines;
}

std::optional<std::int64_t> Loader::counted_targets(std::int64_t position, std::int64_t sequences) {
  std::int64_t counted = 0;
  if (options_.packing) {
    const std::int64_t batch = options_.global_batch;
    for (std::int64_t at = position; at < position + sequences; ++at)
      counted += packed_step(at / batch).counted[static_cast<std::size_t>(at % batch)];
    return counted;
  }
  if (pairs_.empty()) return std::nullopt;
  for (std::int64_t i = 0; i < sequences; ++i) {
    const auto [file, in_file] = place_of(sequence_at(position + i));
    counted += pairs_[file].counted(in_file);
  }
  return counted;
}

std::pair<std::size_t, std::int64_t> Loader::place_of(std::int64_t sequence) const {
  const auto after = std::upper_bound(first_sequence_.begin(), first_sequence_.end(), sequence);
  const auto file = static_cast<std::size_t>(after - first_sequence_.begin()) - 1;
  return {file, sequence - first_sequence_[file]};
}

void Loader::next_targets(std::int32_t* targets) const {
  if (targets == nullptr) return;
  std::copy(window_.begin() + 1, window_.end(), targets);
  for (std::size_t i = 1; i < counts_.size(); ++i)
    if (counts_[i] == 0) targets[i - 1] = ignored_target;
}

void Loader::tokens_ahead(const SequenceInputs& into) const {
  const std::span<const std::int32_t> window(window_);
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

void Loader::fill_window(std::int64_t position) {
  if (options_.files.empty()) {
    synthetic(position);
  } else {
    const auto [file, in_file] = place_of(sequence_at(position));
    if (!pairs_.empty())
      pairs_[file].read(in_file, window_, counts_);
    else if (!labelled_.empty())
      text_tokens_ = labelled_[file].read(in_file, window_);
    else if (images_.empty())
      files_[file].read(in_file * stride_, std::ssize(window_), window_.data());
    else
      images_[file].read(in_file, window_.data());
  }
}

// Returns the sequence to read at a position, as an index over the sequences of all files one after
// the other.
std::int64_t Loader::sequence_at(std::int64_t position) {
  std::size_t file = 0;
  std::int64_t sequences = sequences_;
  if (mixture_) {
    const auto [drawn, of_file] = mixture_->at(position);
    file = drawn, position = of_file;
    sequences = first_sequence_[file + 1] - first_sequence_[file];
  }
  const std::int64_t epoch = position / sequences, index = position % sequences;
  return (mixture_ ? first_sequence_[file] : 0) +
         (options_.shuffle ? shuffled(file, epoch, index, sequences) : index);
}

void Loader::read(std::int64_t position, const SequenceInputs& into) {
  const auto copy = [](auto begin, auto end, std::int32_t* to) {
    if (to != nullptr) std::copy(begin, end, to);
  };
  if (options_.packing) {
    fill_packed(balanced(position));
    copy(row_.tokens.begin(), row_.tokens.end(), into.tokens);
    copy(row_.targets.begin(), row_.targets.end(), into.targets);
    return copy(row_.documents.begin(), row_.documents.end(), into.documents);
  }
  fill_window(position);
  if (options_.targets == Targets::masked) mask(position);
  const auto targets = window_.begin() + options_.sequence_length;
  if (options_.targets == Targets::pair) {
    copy(window_.begin(), targets, into.tokens);
    copy(targets, window_.end(), into.targets);
    if (into.decoder == nullptr) return;
    *into.decoder = options_.start_token;
    return copy(targets, window_.end() - 1, into.decoder + 1);
  }
  copy(window_.begin(), window_.end() - 1, into.tokens);
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
      copy(window_.end() - 1, window_.end(), into.targets);
      if (into.positions != nullptr)
        *into.positions = options_.label_of_last ? static_cast<std::int32_t>(text_tokens_ - 1) : 0;
      return hide_padding(into.documents);
    case Targets::pair:;  // above
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
    std::int32_t& token = window_[static_cast<std::size_t>(places_[i])];
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
  for (int i = 0; i < 2; ++i)
    first_and_last[i] = static_cast<std::int32_t>(bits[static_cast<std::size_t>(i)] * length >> 32);
  if (first_and_last[0] > first_and_last[1]) std::swap(first_and_last[0], first_and_last[1]);
}

void Loader::synthetic(std::int64_t position) {
  const PhiloxStream stream(options_.seed, "tokens");
  const std::uint64_t blocks = (window_.size() + 3) / 4;
  const std::int64_t of_tokens = options_.pixels > 0 ? 256 : options_.vocabulary;
  const std::int64_t of_last = options_.classes > 0 ? options_.classes : options_.vocabulary;
  for (std::uint64_t b = 0; b < blocks; ++b) {
    const PhiloxCounter bits = stream.block(static_cast<std::uint64_t>(position) * blocks + b);
    for (std::size_t lane = 0; lane < 4 && 4 * b + lane < window_.size(); ++lane) {
      const std::size_t at = 4 * b + lane;
      const auto end = static_cast<std::uint64_t>(at + 1 < window_.size() ? of_tokens : of_last);
      window_[at] = static_cast<std::int32_t>(bits[lane] * end >> 32);
    }
  }
  text_tokens_ = options_.sequence_length;
  if (options_.pixels > 0 || options_.classes == 0) return;
  const auto length = static_cast<std::uint64_t>(options_.sequence_length);
  const PhiloxCounter bits =
      PhiloxStream(options_.seed, "lengths").block(static_cast<std::uint64_t>(position));
  text_tokens_ = 1 + static_cast<std::int64_t>(bits[0] * length >> 32);
  std::fill(window_.begin() + text_tokens_, window_.end() - 1, 0);
}

// Writes the begins of documents so that attention ignores padding: a text is one document, and
// each token of its padding is a document of its own (PackedRow::pad).
void Loader::hide_padding(std::int32_t* documents) const {
  if (documents == nullptr) return;
  std::fill_n(documents, text_tokens_, 0);
  std::iota(documents + text_tokens_, documents + options_.sequence_length,
            static_cast<std::int32_t>(text_tokens_));
}

// The order is Fisher and Yates' shuffle with the random numbers of (data seed, epoch), and in a
// mixture of the file too.
std::int64_t Loader::shuffled(std::size_t whose, std::int64_t epoch, std::int64_t index,
                              std::int64_t sequences) {
  Epoch& found = epochs_[whose][static_cast<std::size_t>(epoch % 2)];
  if (found.number != epoch) {
    const PhiloxStream stream(options_.data_seed,
                              "epoch " + std::to_string(epoch) +
                                  (mixture_ ? " of file " + std::to_string(whose) : std::string()));
    found.number = epoch;
    found.order.resize(static_cast<std::size_t>(sequences));
    std::iota(found.order.begin(), found.order.end(), std::int64_t{0});
    for (std::size_t i = found.order.size(); i > 1; --i) {
      const PhiloxCounter bits = stream.block(i);
      const std::uint64_t wide = std::uint64_t{bits[0]} << 32 | bits[1];
      std::swap(found.order[i - 1], found.order[wide % i]);
    }
  }
  return found.order[static_cast<std::size_t>(index)];
}

std::int64_t first_sequence(std::int64_t step_position, std::int64_t global_batch, int replicas,
                            int replica, std::int64_t sequence_in_replica) {
  return step_position + global_batch / replicas * replica + sequence_in_replica;
}

}  // namespace meshwright
