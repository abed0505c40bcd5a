#include "exec/data/dataset.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "exec/core/philox.h"
#include "exec/data/images.h"
#include "exec/data/labelled.h"
#include "models/core/error.h"

namespace meshwright::exec {

namespace {

// Returns `count` different random indices from 1 to length - 1, ascending (Floyd's sample).
std::vector<std::int32_t> random_cuts(std::uint64_t seed, std::int64_t position,
                                      std::int64_t length, std::int64_t count) {
  const PhiloxStream stream(seed, "documents");
  std::set<std::int32_t> cuts;
  for (std::int64_t last = length - count; last < length; ++last) {
    const auto draw = static_cast<std::uint64_t>(position * length + last);
    const auto place = static_cast<std::int32_t>(
        1 + (stream.block(draw)[0] * static_cast<std::uint64_t>(last) >> 32));
    if (!cuts.insert(place).second) cuts.insert(static_cast<std::int32_t>(last));
  }
  return {cuts.begin(), cuts.end()};
}

// Random tokens, pixels and labels. They depend only on the options, among them a seed, and on the
// position.
class SyntheticData : public Dataset {
 public:
  explicit SyntheticData(const LoaderOptions& options) : options_(options) {}

  void read(SequencePlace place, RawSequence& raw) override {
    const PhiloxStream stream(options_.seed, "tokens");
    const std::uint64_t blocks = (raw.tokens.size() + 3) / 4;
    const std::int64_t of_tokens = options_.pixels > 0 ? 256 : options_.vocabulary;
    const std::int64_t of_last = options_.classes > 0 ? options_.classes : options_.vocabulary;
    for (std::uint64_t b = 0; b < blocks; ++b) {
      const PhiloxCounter bits =
          stream.block(static_cast<std::uint64_t>(place.sequence) * blocks + b);
      for (std::size_t lane = 0; lane < 4 && 4 * b + lane < raw.tokens.size(); ++lane) {
        const std::size_t at = 4 * b + lane;
        const auto end =
            static_cast<std::uint64_t>(at + 1 < raw.tokens.size() ? of_tokens : of_last);
        raw.tokens[at] = static_cast<std::int32_t>(bits[lane] * end >> 32);
      }
    }
    raw.text_tokens = options_.sequence_length;
    if (options_.pixels > 0 || options_.classes == 0) return;
    const auto length = static_cast<std::uint64_t>(options_.sequence_length);
    const PhiloxCounter bits =
        PhiloxStream(options_.seed, "lengths").block(static_cast<std::uint64_t>(place.sequence));
    raw.text_tokens = 1 + static_cast<std::int64_t>(bits[0] * length >> 32);
    std::fill(raw.tokens.begin() + raw.text_tokens, raw.tokens.end() - 1, 0);
  }
  void read_row(SequencePlace place, RawSequence& raw, PackedRow& row) override {
    read(place, raw);
    const std::int64_t length = options_.sequence_length;
    const auto documents = static_cast<std::int64_t>(std::lround(options_.documents_per_row));
    row.split_at(raw.tokens, random_cuts(options_.seed, place.sequence, length,
                                         std::clamp<std::int64_t>(documents, 1, length) - 1));
  }

 private:
  LoaderOptions options_;
};

class TokenData : public Dataset {
 public:
  explicit TokenData(const LoaderOptions& options)
      : stride_(tokens_of_sequence(options)), document_end_(options.document_end) {
    const bool pairs = options.targets == Targets::pair;
    const std::int64_t beyond = pairs ? 0 : 1;  // a target after the last token
    bool any = false;
    for (const std::string& path : options.files) {
      files_.emplace_back(path, options.format, options.vocabulary);
      sizes_.push_back((files_.back().size() - beyond) / stride_);
      any = any || sizes_.back() > 0;
    }
    if (!any)
      throw InputError(options.files[0] + ": has " + std::to_string(files_[0].size()) +
                       " tokens; one sequence needs " + std::to_string(stride_ + beyond) +
                       (pairs ? " (2 x sequence_length)" : " (sequence_length + 1)") +
                       ", and no file has that many");
  }

  void read(SequencePlace place, RawSequence& raw) override {
    files_[place.file].read(place.sequence * stride_, std::ssize(raw.tokens), raw.tokens.data());
  }
  void read_row(SequencePlace place, RawSequence& raw, PackedRow& row) override {
    read(place, raw);
    row.split(raw.tokens, document_end_);
  }

 private:
  std::int64_t stride_;
  std::int32_t document_end_;
  std::vector<TokenFile> files_;
};

class PairData : public Dataset {
 public:
  explicit PairData(const LoaderOptions& options) : length_(options.sequence_length) {
    MESHWRIGHT_CHECK(options.targets == Targets::next, "a pair's targets are the tokens behind");
    PairReader reader(options.text, length_ + 1, options.vocabulary);
    std::int64_t sequences = 0;
    for (const std::string& path : options.files) {
      files_.push_back(reader.read(path));
      if (options.packing) rows_.push_back(pack_rows(files_.back().places(), length_));
      sizes_.push_back(options.packing ? std::ssize(rows_.back()) : files_.back().size());
      sequences += sizes_.back();
    }
    if (sequences == 0)
      throw InputError(options.files[0] +
                       ": no pair of this file or of any other has a token to learn within "
                       "sequence_length");
  }

  void read(SequencePlace place, RawSequence& raw) override {
    raw.counts.resize(raw.tokens.size());
    files_[place.file].read(place.sequence, raw.tokens, raw.counts);
  }
  void read_row(SequencePlace place, RawSequence&, PackedRow& row) override {
    const PairFile& file = files_[place.file];
    row = {};
    for (const std::int64_t pair : rows_[place.file][place.sequence])
      row.append(file.tokens_of(pair), file.counts_of(pair));
    row.pad(length_);
  }
  std::optional<std::int64_t> counted(SequencePlace place) const override {
    return files_[place.file].counted(place.sequence);
  }
  std::string remark(std::size_t file) const override { return files_[file].remark(); }

 private:
  std::int64_t length_;
  std::vector<PairFile> files_;
  std::vector<std::vector<std::vector<std::int64_t>>> rows_;  // packed pairs, by file and row
};

class ImageData : public Dataset {
 public:
  explicit ImageData(const LoaderOptions& options) {
    for (const std::string& path : options.files) {
      files_.emplace_back(path, options.pixels, options.vocabulary);
      sizes_.push_back(files_.back().size());
    }
  }
  void read(SequencePlace place, RawSequence& raw) override {
    files_[place.file].read(place.sequence, raw.tokens.data());
  }

 private:
  std::vector<ImageFile> files_;
};

class TextData : public Dataset {
 public:
  explicit TextData(const LoaderOptions& options) {
    LabelledReader reader({.tokenizer = options.text.tokenizer,
                           .length = options.sequence_length,
                           .vocabulary = options.vocabulary,
                           .classes = options.classes});
    for (const std::string& path : options.files) {
      files_.push_back(reader.read(path));
      sizes_.push_back(files_.back().size());
    }
  }
  void read(SequencePlace place, RawSequence& raw) override {
    raw.text_tokens = files_[place.file].read(place.sequence, raw.tokens);
  }
  std::string remark(std::size_t file) const override { return files_[file].remark(); }

 private:
  std::vector<LabelledFile> files_;
};

}  // namespace

void Dataset::read_row(SequencePlace, RawSequence&, PackedRow&) {
  MESHWRIGHT_CHECK(false, "rows of documents have no labels");
}

std::int64_t tokens_of_sequence(const LoaderOptions& options) {
  return std::int64_t{options.sequence_length} * (options.targets == Targets::pair ? 2 : 1);
}

std::unique_ptr<Dataset> open_dataset(const LoaderOptions& options) {
  if (options.files.empty()) return std::make_unique<SyntheticData>(options);
  if (options.pixels > 0) return std::make_unique<ImageData>(options);
  if (options.classes > 0) return std::make_unique<TextData>(options);
  if (options.format == TokenFormat::pairs) return std::make_unique<PairData>(options);
  return std::make_unique<TokenData>(options);
}

}  // namespace meshwright::exec
