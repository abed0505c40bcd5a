// The interface of datasets. The kinds of datasets differ in what a sequence is and how it is read.
// Synthetic data has no file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/data/packing.h"
#include "exec/data/pairs.h"
#include "exec/data/tokens.h"
#include "models/program/graph/model_inputs.h"
#include "models/program/step_settings.h"

namespace meshwright::exec {

struct LoaderOptions : ModelInputs {
  std::vector<std::string> files;  // none: synthetic tokens from (seed, sequence)
  TokenFormat format = TokenFormat::bytes;
  bool shuffle = false;
  std::uint64_t data_seed = 0;  // the permutation's
  std::uint64_t seed = 0;       // the synthetic tokens'
  int sequence_length = 0;
  int predicted = 0;                 // number of masked positions in a sequence
  std::int32_t mask_token = -1;      // -1: the last of the vocabulary
  std::vector<double> weights = {};  // a mixture's: one for each file
  PairText text = {};                // format `pairs`
  // Whether rows hold several documents, which are pairs, or text in which the token `document_end`
  // ends each document. Synthetic rows are split at random positions into `documents_per_row`
  // documents, rounded.
  bool packing = false;
  std::int32_t document_end = -1;
  double documents_per_row = 1;
  std::int64_t global_batch = 1;  // rows of a step (with packing)
};

// A sequence as its dataset has it.
struct RawSequence {
  // s + 1 tokens, or 2s for an encoder and a decoder. For labelled data: the pixels of an image or
  // the s tokens of a text, and then the label.
  std::vector<std::int32_t> tokens;
  std::vector<char> counts;      // for pairs: which tokens are learned
  std::int64_t text_tokens = 0;  // in labelled data: tokens before the padding
};

// The index of a sequence in one of the files. Synthetic data has a single file without an end.
struct SequencePlace {
  std::size_t file = 0;
  std::int64_t sequence = 0;
};

class Dataset {
 public:
  virtual ~Dataset() = default;

  // Returns the number of sequences of each file. There are none for synthetic data.
  const std::vector<std::int64_t>& sizes() const { return sizes_; }

  // Reads a sequence. With packing, read_row() is called instead, and a sequence is a packed row.
  // `raw.tokens` has the size that it must have. Both throw RunError if they find that a file has
  // changed.
  virtual void read(SequencePlace place, RawSequence& raw) = 0;
  virtual void read_row(SequencePlace place, RawSequence& raw, PackedRow& row);

  // Returns how many tokens of a sequence are to be learned, or none if all are.
  virtual std::optional<std::int64_t> counted(SequencePlace) const { return std::nullopt; }
  // Returns a warning for the user about a file, or an empty string.
  virtual std::string remark(std::size_t) const { return {}; }

 protected:
  std::vector<std::int64_t> sizes_;
};

// Returns the dataset that the options name. Throws InputError for files that are bad or too short.
std::unique_ptr<Dataset> open_dataset(const LoaderOptions& options);

// Returns the number of tokens from the begin of a sequence to that of the next one in a file of
// tokens: s, or 2s for an encoder and a decoder.
std::int64_t tokens_of_sequence(const LoaderOptions& options);

}  // namespace meshwright::exec
