// Reads the sequences that a run trains on, in an order that does not depend on the parallelism.
//
// Sequence k of an epoch is tokens [k*s, k*s + s] of one file: s inputs, and the same tokens
// shifted by one as targets. Windows do not cross files, and the rest at a file's end is dropped.
// With images (pixels > 0), sequence k is the k-th image: its pixels are the inputs, its label the
// target. For a decoder, it is tokens [2k*s, 2k*s + 2s]: the source, and the target, which the
// decoder reads delayed by one. With pairs, it is the k-th pair, padded or truncated to s + 1
// tokens (pairs.h). With labelled texts, it is the k-th text, padded or truncated to s tokens
// (labelled.h).
//
// Packed rows (packing.h) are such windows in which a token ends each document, or as many pairs as
// fit into one. A mixture takes its sequences from all files at once, each by its weight
// (mixture.h). Then every file has epochs of its own.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exec/data/images.h"
#include "exec/data/labelled.h"
#include "exec/data/mixture.h"
#include "exec/data/packing.h"
#include "exec/data/pairs.h"
#include "exec/data/tokens.h"
#include "models/program/graph/model_inputs.h"
#include "models/program/step_settings.h"

namespace meshwright {

struct LoaderOptions : ModelInputs {
  std::vector<std::string> files;  // none: synthetic tokens from (seed, sequence)
  TokenFormat format = TokenFormat::bytes;
  bool shuffle = false;
  std::uint64_t data_seed = 0;  // of the permutation
  std::uint64_t seed = 0;       // of synthetic tokens
  int sequence_length = 0;
  int predicted = 0;                 // masked positions of a sequence
  std::int32_t mask_token = -1;      // -1: the last of the vocabulary
  std::vector<double> weights = {};  // of the files of a mixture
  PairText text = {};                // format `pairs`
  // Whether rows hold several documents, which are pairs, or text in which the token `document_end`
  // ends each document. Synthetic rows are split at random positions into `documents_per_row`
  // documents, rounded.
  bool packing = false;
  std::int32_t document_end = -1;
  double documents_per_row = 1;
  std::int64_t global_batch = 1;  // rows of a step, which are balanced
};

// The buffers that a sequence is written to. Each of them may be null.
struct SequenceInputs {
  std::int32_t* tokens = nullptr;     // [s], or [pixels]
  std::int32_t* targets = nullptr;    // [s], [predicted], [2] or [1]
  std::int32_t* positions = nullptr;  // [predicted], ascending; [1] for a label
  std::int32_t* decoder = nullptr;    // [s]: the start token, and the targets but the last
  std::int32_t* documents = nullptr;  // [s]: where each token's document begins
  // For multi-token prediction, entry k - 1 belongs to depth k. It holds for each position the
  // token k positions later, or 0, and as its target the token after that, or `ignored_target`. The
  // shapes are [s].
  struct Ahead {
    std::int32_t *tokens = nullptr, *targets = nullptr;
  };
  std::array<Ahead, most_mtp_layers> ahead = {};
};

class Loader {
 public:
  explicit Loader(const LoaderOptions& options);  // InputError for bad or too short files

  // Returns the number of sequences of all files, or 0 for synthetic data, which has no files.
  std::int64_t sequences() const { return sequences_; }

  // Returns how many targets of `sequences` sequences from `position` on count in the loss, the
  // others being `ignored_target`. Returns none if all targets count.
  std::optional<std::int64_t> counted_targets(std::int64_t position, std::int64_t sequences);
  // Returns the attention work of packed rows relative to rows of one document, as the mean over up
  // to 256 rows. Returns none without packing or without files.
  std::optional<double> document_share();
  // Returns warnings for the user about the files, one line for each file that has any.
  std::vector<std::string> remarks() const;

  // Writes the sequence at `position`, which counts sequences since the run's first step. Masks and
  // random answers depend on (data seed, position), so masks differ from epoch to epoch.
  void read(std::int64_t position, const SequenceInputs& into);

 private:
  struct Epoch {
    std::int64_t number = -1;
    std::vector<std::int64_t> order;
  };
  void open_tokens();
  void open_images();
  void open_pairs();
  void open_labelled();
  void check_packing() const;
  void check_mixture();
  void fill_window(std::int64_t position);
  void fill_packed(std::int64_t position);
  // Returns the position whose packed row is used at `position`, because the rows of a step are
  // reordered to balance their work.
  std::int64_t balanced(std::int64_t position);
  void next_targets(std::int32_t* targets) const;
  void tokens_ahead(const SequenceInputs& into) const;
  // Returns the file of a sequence, and the sequence's index in that file.
  std::pair<std::size_t, std::int64_t> place_of(std::int64_t sequence) const;
  void synthetic(std::int64_t position);
  void hide_padding(std::int32_t* documents) const;
  void mask(std::int64_t position);
  void answer(std::int64_t position, std::int32_t* first_and_last) const;
  std::int64_t sequence_at(std::int64_t position);
  // Returns the sequence at `index` in the shuffled order of an epoch of `sequences` sequences.
  // `whose` is the file that the order belongs to. Without a mixture, one order covers all files.
  std::int64_t shuffled(std::size_t whose, std::int64_t epoch, std::int64_t index,
                        std::int64_t sequences);

  LoaderOptions options_;
  std::vector<TokenFile> files_;
  std::vector<ImageFile> images_;
  std::vector<PairFile> pairs_;
  std::vector<LabelledFile> labelled_;
  std::vector<std::int64_t> first_sequence_;  // per file, and the end
  std::int64_t sequences_ = 0;
  std::vector<std::vector<std::vector<std::int64_t>>> packed_pairs_;  // per file and row
  struct PackedStep {
    std::int64_t number = -1;
    std::vector<std::int64_t> order;
    std::vector<std::int64_t> counted;  // targets, in that order
  };
  std::array<PackedStep, 2> packed_steps_;  // a batch may touch two
  PackedRow row_;
  const PackedStep& packed_step(std::int64_t number);
  std::optional<Mixture> mixture_;
  // Shuffled orders, for each file of a mixture, otherwise for all files together. Two epochs are
  // kept, because a step may touch the end of one and the beginning of the next.
  std::vector<std::array<Epoch, 2>> epochs_;
  std::int64_t stride_ = 0;  // tokens from one window to the next
  // The sequence that is being read: s + 1 tokens, or 2s for a decoder, or an image's pixels or a
  // text's s tokens, and then the label.
  std::vector<std::int32_t> window_;
  std::int64_t text_tokens_ = 0;  // of the labelled text in the window
  std::vector<char> counts_;      // of pairs: which tokens of the window are to be learned
  std::vector<std::int32_t> places_, hidden_;  // masked positions, and what stood there
};

// Returns the position of the first sequence of a micro-batch. Step `step` (from 1) takes the next
// global_batch sequences. Replica d of `replicas` takes the d-th contiguous block of them,
// micro-batch by micro-batch.
std::int64_t first_sequence(std::int64_t step_position, std::int64_t global_batch, int replicas,
                            int replica, std::int64_t sequence_in_replica);

}  // namespace meshwright
