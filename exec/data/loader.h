// The sequences that a run trains on, in an order that does not depend on how the run is cut.
// Sequence k of an epoch is tokens [k*s, k*s + s] of one file: s inputs, and the same shifted by
// one as targets. Windows do not cross files; what is left at a file's end is dropped. Of images
// (pixels > 0) it is the k-th one: its pixels are the inputs, its label the target. For a decoder
// it is tokens [2k*s, 2k*s + 2s]: the source, and the target, which the decoder reads one behind.
// Of pairs it is the k-th one, padded to s + 1 tokens or cut there (pairs.h). Of labelled texts it
// is the k-th one, padded to s tokens or cut there (labelled.h).
// Packed rows (packing.h) are such windows in which a token ends each document, or as many pairs as
// go into one.
// A mixture takes its sequences from all files at once, each by its weight (mixture.h); every file
// has epochs of its own.
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
  // Rows hold several documents: pairs, or what ends with a token of its own. Synthetic rows are
  // cut at random places into so many.
  bool packing = false;
  std::int32_t document_end = -1;
  double documents_per_row = 1;
  std::int64_t global_batch = 1;  // rows of a step, which are balanced
};

// Where a sequence goes; each may be null.
struct SequenceInputs {
  std::int32_t* tokens = nullptr;     // [s], or [pixels]
  std::int32_t* targets = nullptr;    // [s], [predicted], [2] or [1]
  std::int32_t* positions = nullptr;  // [predicted], ascending; label [1]: what says the class
  std::int32_t* decoder = nullptr;    // [s]: the start token, and the targets but the last
  std::int32_t* documents = nullptr;  // [s]: where each token's document begins
  // Multi-token prediction: of depth k, at k - 1, the token k behind each, or 0, and its target,
  // the one behind that, or `ignored_target`; [s] each.
  struct Ahead {
    std::int32_t *tokens = nullptr, *targets = nullptr;
  };
  std::array<Ahead, most_mtp_layers> ahead = {};
};

class Loader {
 public:
  explicit Loader(const LoaderOptions& options);  // InputError for bad or too short files

  // Of all files; synthetic data has none and says 0.
  std::int64_t sequences() const { return sequences_; }

  // Of so many sequences from `position` on, how many targets count in the loss, the others being
  // `ignored_target`; none where all count.
  std::optional<std::int64_t> counted_targets(std::int64_t position, std::int64_t sequences);
  // Of packed rows, up to 256 of them: the work of attention against that of whole ones; none
  // without files.
  std::optional<double> document_share();
  // What whoever trains on the files should know of them; a line each.
  std::vector<std::string> remarks() const;

  // The sequence at `position`, a count of sequences since the run's first step. Masks and random
  // answers depend on (data seed, position): an epoch's masks are not the next one's.
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
  // The position of which a packed row comes at a position: those of a step are balanced.
  std::int64_t balanced(std::int64_t position);
  void next_targets(std::int32_t* targets) const;
  void tokens_ahead(const SequenceInputs& into) const;
  // A sequence's file, and which one it is there.
  std::pair<std::size_t, std::int64_t> place_of(std::int64_t sequence) const;
  void synthetic(std::int64_t position);
  void hide_padding(std::int32_t* documents) const;
  void mask(std::int64_t position);
  void answer(std::int64_t position, std::int32_t* first_and_last) const;
  std::int64_t sequence_at(std::int64_t position);
  // The order of an epoch of so many sequences; `whose`: which of the files', or of all of them.
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
  // Of each file of a mixture, else of all together: a step may touch the end of one and the
  // beginning of the next.
  std::vector<std::array<Epoch, 2>> epochs_;
  std::int64_t stride_ = 0;  // tokens from one window to the next
  // s + 1 or 2s tokens; an image's pixels, or a text's s tokens, and its label
  std::vector<std::int32_t> window_;
  std::int64_t text_tokens_ = 0;  // of the labelled text in the window
  std::vector<char> counts_;      // of pairs: which tokens of the window are to be learned
  std::vector<std::int32_t> places_, hidden_;  // masked positions, and what stood there
};

// Position of the first sequence of a micro-batch: step `step` (from 1) takes the next global_batch
// sequences, replica d of `replicas` the d-th contiguous block of them, micro-batch by micro-batch.
std::int64_t first_sequence(std::int64_t step_position, std::int64_t global_batch, int replicas,
                            int replica, std::int64_t sequence_in_replica);

}  // namespace meshwright
