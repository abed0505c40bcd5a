// Defines the facts about a model that a data loader needs in order to make the model's inputs.
#pragma once

#include <cstdint>

namespace meshwright::program {

// The targets that a model predicts for a sequence. Each comment begins with their number, where s
// is the length of the sequence.
enum class Targets : std::uint8_t {
  next,    // s: the token after each
  masked,  // `predicted`: the tokens that stood at the masked positions (Devlin et al. 2019)
  span,    // 2: first and last position of an answer
  label,   // 1: the class of an image, or of a text
  pair     // s: a second sequence, such as a translation of the first
};

struct ModelInputs {
  std::int64_t vocabulary = 0;
  std::int64_t pixels = 0;  // of an image, over all channels; 0: inputs are tokens
  Targets targets = Targets::next;
  std::int32_t start_token = 0;  // pair: the first token that the decoder reads
  // For labelled texts: the number of classes, and whether the last token (decoders) or the first
  // token (encoders) predicts the class.
  std::int64_t classes = 0;
  bool label_of_last = false;
};

}  // namespace meshwright::program
