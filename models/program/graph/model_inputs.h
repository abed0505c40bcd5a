// What a data loader must know of the model that reads its sequences.
#pragma once

#include <cstdint>

namespace meshwright {

// What the model is to say of a sequence (the model's head: lm, mlm, qa, label).
enum class Targets : std::uint8_t {
  next,    // s: the token after each
  masked,  // `predicted`: the tokens that stood at the masked positions (Devlin et al. 2019)
  span,    // 2: first and last position of an answer
  label,   // 1: the class of an image, or of a text
  pair     // s: a sequence of its own, the source's translation
};

struct ModelInputs {
  std::int64_t vocabulary = 0;
  std::int64_t pixels = 0;  // of an image, all channels; 0: sequences of tokens
  Targets targets = Targets::next;
  std::int32_t start_token = 0;  // pair: what the decoder reads first
  // Of labelled texts. Their class is said by the last token (decoders), or by the first
  // (encoders).
  std::int64_t classes = 0;
  bool label_of_last = false;
};

}  // namespace meshwright
