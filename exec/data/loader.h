// Reads the sequences that a run trains on, in an order that does not depend on the parallelism.
//
// Sequence k of a file of tokens is tokens [k*s, k*s + s]: s inputs, and the same tokens shifted by
// one as targets. Windows do not cross files, and the rest at a file's end is dropped. With images
// (pixels > 0), sequence k is the k-th image: its pixels are the inputs, its label the target. For
// an encoder and a decoder, it is tokens [2k*s, 2k*s + 2s): the source, and the target, which the
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
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/data/dataset.h"
#include "exec/data/packing.h"
#include "exec/data/sequence_order.h"

namespace meshwright::exec {

// The buffers that a sequence is written to. Each of them may be null.
struct SequenceInputs {
  std::int32_t* tokens = nullptr;     // [s], or [pixels]
  std::int32_t* targets = nullptr;    // [s], [predicted], [2] or [1]
  std::int32_t* positions = nullptr;  // [predicted], ascending; [1] for a label
  std::int32_t* decoder = nullptr;    // [s]: the start token, and the targets but the last
  std::int32_t* documents = nullptr;  // [s]: index at which a token's document begins
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
  // Reads the sequences of `dataset` instead of those of files.
  Loader(const LoaderOptions& options, std::unique_ptr<Dataset> dataset);

  // Returns the number of sequences of all files, or 0 for synthetic data, which has no files.
  std::int64_t sequences() const { return order_.sequences(); }

  // Returns how many targets of `sequences` sequences from `position` on count in the loss, the
  // others being `ignored_target`. Without packing, returns none for data whose targets all count.
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
  struct PackedStep {
    std::int64_t number = -1;
    std::vector<std::int64_t> order;
    std::vector<std::int64_t> counted;  // targets of each row, in that order
  };
  const PackedStep& packed_step(std::int64_t number);
  void fill_packed(std::int64_t position);
  void read_packed(std::int64_t position, const SequenceInputs& into);
  void next_targets(std::int32_t* targets) const;
  void tokens_ahead(const SequenceInputs& into) const;
  void hide_padding(std::int32_t* documents) const;
  void mask(std::int64_t position);
  void answer(std::int64_t position, std::int32_t* first_and_last) const;

  LoaderOptions options_;
  std::unique_ptr<Dataset> dataset_;
  SequenceOrder order_;
  RawSequence raw_;                            // the sequence that is being read
  std::vector<std::int32_t> places_, hidden_;  // masked positions, and their tokens
  PackedRow row_;
  std::array<PackedStep, 2> packed_steps_;  // `sequences` may be of two steps
};

// Returns the position of the first sequence of a micro-batch. A step takes the next global_batch
// sequences from `step_position` on. Replica d of `replicas` takes the d-th contiguous block of
// them, micro-batch by micro-batch. `sequence_in_replica` is the sequence's index in that block.
std::int64_t first_sequence(std::int64_t step_position, std::int64_t global_batch, int replicas,
                            int replica, std::int64_t sequence_in_replica);

}  // namespace meshwright::exec
